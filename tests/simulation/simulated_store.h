#ifndef SHOAL_TESTS_SIMULATION_SIMULATED_STORE_H_
#define SHOAL_TESTS_SIMULATION_SIMULATED_STORE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "runtime/variables/variable_store.h"
#include "tests/simulation/simulated_ps.h"
#include "tests/simulation/sync_world.h"

namespace shoal {

// The variables behind the simulated network: sends what Exchange asks for to the ps, copied from
// the caller's buffers at every attempt, until one answer is good or the lineage has changed.
class SimulatedStore : public VariableStore, public std::enable_shared_from_this<SimulatedStore> {
 public:
  SimulatedStore(SyncWorld* world, std::vector<ExchangeGroup> groups)
      : world_(world), groups_(std::move(groups)) {}

  const std::vector<ExchangeGroup>& groups() const override { return groups_; }
  void Start(const Exchange& exchange, Done done) override;
  void SetView(const StoreView& view) override;
  void Shutdown() override { open_.clear(); }

 private:
  struct Open {
    Exchange exchange;
    Done done;
    absl::Time started;
  };

  void Attempt(uint64_t id);
  void OnReply(uint64_t id, const ExchangeReply& reply);
  void End(uint64_t id, const ExchangeResult& result);
  void AbortLater(uint64_t id);

  SyncWorld* const world_;
  const std::vector<ExchangeGroup> groups_;
  StoreView view_;
  uint64_t next_id_ = 1;
  std::map<uint64_t, Open> open_;
};

}  // namespace shoal

#endif  // SHOAL_TESTS_SIMULATION_SIMULATED_STORE_H_

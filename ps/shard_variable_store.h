// A worker's access to the variables when the shard is in the same process (LOCAL).
#ifndef SHOAL_PS_SHARD_VARIABLE_STORE_H_
#define SHOAL_PS_SHARD_VARIABLE_STORE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "ps/parameter_shard.h"
#include "runtime/variables/variable_store.h"

namespace shoal {

// A VariableStore on one ParameterShard that has all slices. It sends no messages: contributions
// are applied from the caller's memory, and values are copied once. The shard's rules about
// identity and lineage apply as for remote callers. All work, including `done`, runs on one thread
// of the store. A pull that is parked in the shard ends when its version is there or its time has
// passed; SetView and Shutdown do not end it earlier. An exchange can also end with
// FAILED_PRECONDITION (another run) or INTERNAL (a contribution that does not fit its slice).
// Nothing is allocated after construction.
class ShardVariableStore : public VariableStore {
 public:
  struct Options {
    std::string run_id;
    uint32_t worker_index = 0;
    uint64_t incarnation = 0;
    std::vector<ExchangeGroup> groups;
  };

  // `shard` and `clock` must outlive the store.
  ShardVariableStore(ParameterShard* shard, Options options, const Clock* clock);
  // Calls Shutdown if nobody has.
  ~ShardVariableStore() override;

  const std::vector<ExchangeGroup>& groups() const override { return options_.groups; }
  void Start(const Exchange& exchange, Done done) override;
  void SetView(const StoreView& view) override;
  void Shutdown() override;

 private:
  class Flight;
  // kFree -> kQueued -> kWorking -> (kParked -> kPulled) -> kEnding -> kFree, or back to kQueued
  // for another attempt.
  enum class Stage { kFree, kQueued, kWorking, kParked, kPulled, kEnding };

  void Run();
  // Returns the oldest flight that has something to do, or null.
  Flight* NextFlight(absl::Time now, absl::Time* wake) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Attempt(Flight* flight);
  absl::Status PushAll(Flight* flight);
  void Pull(Flight* flight);
  void OnPulled(Flight* flight);
  void TakeValues(Flight* flight);
  void EndOrRepeat(Flight* flight, const absl::Status& status);
  void Repeat(Flight* flight, absl::Duration wait);
  void End(Flight* flight, const absl::Status& status);
  absl::Status WhyStopped(const Flight& flight) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  ParameterShard* const shard_;
  const Options options_;
  const Clock* const clock_;

  Mutex mutex_;
  CondVar changed_;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;  // the thread may exit
  bool has_view_ ABSL_GUARDED_BY(mutex_) = false;
  StoreView view_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Flight>> flights_;  // kFlightsPerGroup for each group, in order
  uint64_t next_order_ ABSL_GUARDED_BY(mutex_) = 0;
  int active_ ABSL_GUARDED_BY(mutex_) = 0;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace shoal

#endif  // SHOAL_PS_SHARD_VARIABLE_STORE_H_

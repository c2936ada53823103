#ifndef SHOAL_TESTS_SIMULATION_ASYNC_PS_H_
#define SHOAL_TESTS_SIMULATION_ASYNC_PS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/variables/interval_set.h"
#include "runtime/variables/slice_store.h"
#include "runtime/variables/variable_store.h"
#include "tests/simulation/async_world.h"

namespace shoal {

// An Exchange on its way to a ps.
struct AsyncExchange {
  uint32_t group = 0;
  BatchKey batch;
  std::vector<uint8_t> wants;  // by slice in the group
  std::vector<uint64_t> pulled_versions;
  bool is_finite = true;
};
struct AsyncExchangeReply {
  enum Code { kOk, kMoved, kNotServing };
  Code code = kOk;
  std::vector<PushOutcome> outcomes;
  std::vector<PulledSlice> pulls;
  std::vector<std::vector<float>> values;
};

// One life of a ps: a SliceStore and what the services around it do.
class AsyncPs {
 public:
  AsyncPs(AsyncWorld* world, uint32_t index, uint64_t incarnation);

  bool is_alive() const { return is_alive_; }
  void Kill() { is_alive_ = false; }
  uint64_t incarnation() const { return incarnation_; }

  AsyncExchangeReply OnExchange(uint64_t receiver_incarnation, const AsyncExchange& exchange);
  // From checkpoint 0: initial values. A repeated call changes nothing.
  void Load(uint64_t checkpoint, uint32_t first_kept_epoch);
  bool is_serving() const { return is_serving_; }
  IntervalSet Applied(uint32_t epoch) const { return store_->Applied(epoch); }
  // Is the ps's part of the checkpoint on disk? Begins it at the first call.
  bool Cut(uint64_t name, uint32_t first_kept_epoch);

 private:
  PushOutcome Push(const AsyncExchange& exchange, size_t i);

  AsyncWorld* const world_;
  const uint32_t index_;
  const uint64_t incarnation_;
  bool is_alive_ = true;
  bool is_serving_ = false;
  std::unique_ptr<SliceStore> store_;
  SliceStoreEvents events_;
};

}  // namespace shoal

#endif  // SHOAL_TESTS_SIMULATION_ASYNC_PS_H_

#ifndef SHOAL_RUNTIME_PLAN_BATCH_KEY_H_
#define SHOAL_RUNTIME_PLAN_BATCH_KEY_H_

#include <cstdint>
#include <string>
#include <tuple>

#include "base/interval_set.h"

namespace shoal {

namespace v1 {
class BatchId;
}

// Batches of one epoch, by their index.
struct EpochBatches {
  uint32_t epoch = 0;
  IntervalSet batches;
};

// Identifies a replica batch: num_clones x batch_size or replica_batch_size examples of the epoch's
// permutation; the last batch of an epoch may be smaller. Contributions are deduplicated by this
// key, no matter which worker computes the batch, and how often.
struct BatchKey {
  uint32_t epoch = 0;
  uint64_t index = 0;  // the batch's number in the epoch, from 0

  friend bool operator==(const BatchKey& a, const BatchKey& b) {
    return a.epoch == b.epoch && a.index == b.index;
  }
  friend bool operator!=(const BatchKey& a, const BatchKey& b) { return !(a == b); }
  friend bool operator<(const BatchKey& a, const BatchKey& b) {
    return std::tie(a.epoch, a.index) < std::tie(b.epoch, b.index);
  }
};

BatchKey ToBatchKey(const v1::BatchId& batch);
v1::BatchId ToProto(const BatchKey& batch);
std::string ToString(const BatchKey& batch);  // "batch 17 of epoch 0"

}  // namespace shoal

#endif  // SHOAL_RUNTIME_PLAN_BATCH_KEY_H_

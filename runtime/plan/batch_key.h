#ifndef SHOAL_RUNTIME_PLAN_BATCH_KEY_H_
#define SHOAL_RUNTIME_PLAN_BATCH_KEY_H_

#include <cstdint>
#include <tuple>

namespace shoal {

// Identifies a replica batch: num_clones x batch_size examples of the epoch's permutation.
// Contributions are deduplicated by this key, no matter which worker computes the batch, and how
// often.
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

}  // namespace shoal

#endif  // SHOAL_RUNTIME_PLAN_BATCH_KEY_H_

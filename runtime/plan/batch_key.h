#ifndef SHOAL_RUNTIME_PLAN_BATCH_KEY_H_
#define SHOAL_RUNTIME_PLAN_BATCH_KEY_H_

#include <cstdint>
#include <tuple>

namespace shoal {

// Names a replica batch (num_clones x batch_size examples of the epoch's permutation). The key of
// every dedupe: whoever computes it, and however often, it is the same contribution.
struct BatchKey {
  uint32_t epoch = 0;
  uint64_t index = 0;  // position in the epoch, from 0

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

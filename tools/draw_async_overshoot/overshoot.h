#ifndef SHOAL_TOOLS_DRAW_ASYNC_OVERSHOOT_OVERSHOOT_H_
#define SHOAL_TOOLS_DRAW_ASYNC_OVERSHOOT_OVERSHOOT_H_

#include <array>
#include <vector>

#include "absl/status/statusor.h"

namespace shoal {

// The example with which the difference between synchronous and asynchronous training is usually
// explained: one parameter w, two workers, each with a loss (w - target)^2 of its own batch; the
// loss over both has its minimum at the mean of the targets. In a round both workers read the same
// value at the same time, compute, and push one after the other.
// ASYNC applies both gradients, the second to a value that it was not computed from, and passes the
// minimum. SYNC averages them, and lands where one step leads.
struct OvershootOptions {
  float start = 3.0f;
  std::array<float, 2> targets = {0.75f, 1.25f};
  float learning_rate = 0.4f;
  int num_rounds = 6;
  bool synchronous = false;
};

// What a ps held: the first value, then the value after each applied update.
using ValueTrace = std::vector<float>;

// Plays the rounds on the real push path: two RemoteVariableStores push over bulk channels to the
// ExchangeService of a ps, whose SliceStore applies the updates. The order of arrivals is the
// script's.
absl::StatusOr<ValueTrace> PlayOvershoot(const OvershootOptions& options);

// Over both batches, without the constant that no value of the parameter changes.
double OvershootLoss(const OvershootOptions& options, double value);

}  // namespace shoal

#endif  // SHOAL_TOOLS_DRAW_ASYNC_OVERSHOOT_OVERSHOOT_H_

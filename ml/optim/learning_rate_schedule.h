#ifndef SHOAL_ML_OPTIM_LEARNING_RATE_SCHEDULE_H_
#define SHOAL_ML_OPTIM_LEARNING_RATE_SCHEDULE_H_

#include <cstdint>
#include <limits>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace shoal {

enum class ScheduleKind { kConstant, kStep, kExponential, kPolynomial, kCosine };

// In the formulas, t is the number of updates before this one; the first update has t = 0.
struct LearningRateScheduleOptions {
  ScheduleKind kind = ScheduleKind::kConstant;
  // The rate at t = 0, after the warm-up. It has no default here: Create refuses the NaN of who
  // does not set it.
  double learning_rate = std::numeric_limits<double>::quiet_NaN();

  // kStep: learning_rate * factors[k] from t = boundaries[k] on. Both lists have the same length.
  std::vector<int64_t> boundaries;
  std::vector<double> factors;

  // kExponential: learning_rate * rate^(t / decay_steps). With `staircase`, t / decay_steps is
  // rounded down.
  // kPolynomial: (learning_rate - end) * (1 - t / decay_steps)^power + end, and `end` from
  // t = decay_steps on. With `cycle`, decay_steps is replaced by its next multiple that is not
  // below t, as in TensorFlow's polynomial_decay.
  // kCosine: end + (learning_rate - end) * (1 + cos(pi * t / decay_steps)) / 2, and `end` from
  // t = decay_steps on.
  int64_t decay_steps = 0;
  double rate = 0.96;
  bool staircase = false;
  double end = 0;
  double power = 1;
  bool cycle = false;

  // In the first warmup_steps steps the rate rises linearly: it is (step + 1) / (warmup_steps + 1)
  // times the schedule's rate at t = 0. The schedule begins after them.
  int64_t warmup_steps = 0;
};

// Computes the learning rate of a step. The result depends only on the options and the step, and
// has the same bits on every machine. Immutable.
class LearningRateSchedule {
 public:
  // InvalidArgument names the field and what it must be.
  static absl::StatusOr<LearningRateSchedule> Create(LearningRateScheduleOptions options);

  float At(int64_t step) const;

 private:
  explicit LearningRateSchedule(LearningRateScheduleOptions options);
  double AfterWarmup(int64_t step) const;
  double Step(int64_t step) const;
  double Exponential(int64_t step) const;
  double Polynomial(int64_t step) const;
  double Cosine(int64_t step) const;

  LearningRateScheduleOptions options_;
};

}  // namespace shoal

#endif  // SHOAL_ML_OPTIM_LEARNING_RATE_SCHEDULE_H_

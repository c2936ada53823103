#ifndef SHOAL_ML_OPTIM_LEARNING_RATE_SCHEDULE_H_
#define SHOAL_ML_OPTIM_LEARNING_RATE_SCHEDULE_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace shoal {

enum class ScheduleKind { kConstant, kPiecewise, kExponential, kPolynomial, kCosine };

// step = updates applied before this one, so the first update has step 0. Formulas are
// TensorFlow's.
struct LearningRateScheduleOptions {
  ScheduleKind kind = ScheduleKind::kConstant;
  double learning_rate = 0.01;  // of step 0 (after the warm-up); unused by kPiecewise

  // kPiecewise: values[k] for boundaries[k-1] < step <= boundaries[k]; one value more than
  // boundaries.
  std::vector<int64_t> boundaries;
  std::vector<double> values;

  // kExponential: learning_rate * decay_rate^(step / decay_steps); staircase: whole divisions only.
  // kPolynomial: (learning_rate - end) * (1 - step/decay_steps)^power + end, then end; cycle:
  // decay_steps
  //   grows to the next multiple that covers the step.
  // kCosine: learning_rate * ((1 - alpha) * (1 + cos(pi * step/decay_steps)) / 2 + alpha), then
  // alpha's share.
  int64_t decay_steps = 0;
  double decay_rate = 0.96;
  bool staircase = false;
  double end_learning_rate = 0.0001;
  double power = 1.0;
  bool cycle = false;
  double alpha = 0.0;

  // The first warmup_steps steps climb linearly to the schedule's first rate,
  // (step+1)/(warmup_steps+1) of it, and the schedule begins after them.
  int64_t warmup_steps = 0;
};

// "constant", "piecewise", "exponential", "polynomial", "cosine".
absl::StatusOr<ScheduleKind> ParseScheduleKind(absl::string_view name);

// The learning rate as a pure function of the step, with the same bits on every machine. Immutable.
class LearningRateSchedule {
 public:
  // InvalidArgument names the field and what it must be.
  static absl::StatusOr<LearningRateSchedule> Create(LearningRateScheduleOptions options);

  float At(int64_t step) const;

 private:
  explicit LearningRateSchedule(LearningRateScheduleOptions options);
  double AfterWarmup(int64_t step) const;
  double Piecewise(int64_t step) const;
  double Exponential(int64_t step) const;
  double Polynomial(int64_t step) const;
  double Cosine(int64_t step) const;

  LearningRateScheduleOptions options_;
};

}  // namespace shoal

#endif  // SHOAL_ML_OPTIM_LEARNING_RATE_SCHEDULE_H_

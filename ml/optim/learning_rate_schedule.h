#ifndef SHOAL_ML_OPTIM_LEARNING_RATE_SCHEDULE_H_
#define SHOAL_ML_OPTIM_LEARNING_RATE_SCHEDULE_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace shoal {

enum class ScheduleKind { kConstant, kStep, kExponential, kPolynomial, kCosine };

// t = updates applied before this one, so the first update has t = 0.
struct LearningRateScheduleOptions {
  ScheduleKind kind = ScheduleKind::kConstant;
  double learning_rate = 0.01;  // at t = 0, after the warm-up

  // kStep: learning_rate * factors[k] from t = boundaries[k] on; as many of one as of the other.
  std::vector<int64_t> boundaries;
  std::vector<double> factors;

  // kExponential: learning_rate * rate^(t / decay_steps); staircase: whole divisions only.
  // kPolynomial: (learning_rate - end) * (1 - t/decay_steps)^power + end, from decay_steps on end;
  // cycle:
  //   decay_steps grows to its next multiple that covers t.
  // kCosine: end + (learning_rate - end) * (1 + cos(pi * t/decay_steps)) / 2, from decay_steps on
  // end.
  int64_t decay_steps = 0;
  double rate = 0.96;
  bool staircase = false;
  double end = 0;
  double power = 1;
  bool cycle = false;

  // The first warmup_steps steps climb linearly to the schedule's first rate,
  // (step+1)/(warmup_steps+1) of it, and the schedule begins after them.
  int64_t warmup_steps = 0;
};

// The learning rate as a pure function of the step, with the same bits on every machine. Immutable.
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

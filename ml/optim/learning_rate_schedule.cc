#include "ml/optim/learning_rate_schedule.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

#include "ml/optim/portable_math.h"

// Compiled with -ffp-contract=off: see BUILD.

namespace shoal {
namespace {

absl::Status FieldError(absl::string_view field, double value, absl::string_view must) {
  return absl::InvalidArgumentError(
      absl::StrCat("optimizer.", field, ": must be ", must, ", is ", value));
}

bool IsRate(double value) { return std::isfinite(static_cast<float>(value)) && value >= 0; }

absl::Status ValidateSteps(const LearningRateScheduleOptions& o) {
  if (o.factors.empty() || o.factors.size() != o.boundaries.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "optimizer.schedule.boundary: has ", o.boundaries.size(), " entries and value has ",
        o.factors.size(), "; give one value for every boundary"));
  }
  for (double factor : o.factors) {
    if (!IsRate(factor * o.learning_rate))
      return FieldError("schedule.value", factor, "a finite number >= 0");
  }
  for (size_t k = 0; k < o.boundaries.size(); ++k) {
    if (o.boundaries[k] <= (k == 0 ? 0 : o.boundaries[k - 1])) {
      return FieldError("schedule.boundary", static_cast<double>(o.boundaries[k]),
                        "larger than 0 and than the boundary before it");
    }
  }
  return absl::OkStatus();
}

absl::Status Validate(const LearningRateScheduleOptions& o) {
  if (o.warmup_steps < 0) {
    return FieldError("schedule.warmup_steps", static_cast<double>(o.warmup_steps), ">= 0");
  }
  if (!IsRate(o.learning_rate))
    return FieldError("learning_rate", o.learning_rate, "a finite number >= 0");
  if (o.kind == ScheduleKind::kConstant) return absl::OkStatus();
  if (o.kind == ScheduleKind::kStep) return ValidateSteps(o);
  if (o.decay_steps <= 0) {
    return FieldError("schedule.decay_steps", static_cast<double>(o.decay_steps),
                      ">= 1 for this schedule");
  }
  if (o.kind == ScheduleKind::kExponential) {
    return o.rate > 0 && o.rate <= 1 ? absl::OkStatus()
                                     : FieldError("schedule.rate", o.rate, "in (0, 1]");
  }
  if (!IsRate(o.end)) return FieldError("schedule.end", o.end, "a finite number >= 0");
  if (o.kind == ScheduleKind::kPolynomial && !(std::isfinite(o.power) && o.power > 0)) {
    return FieldError("schedule.power", o.power, "a finite number above 0");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<LearningRateSchedule> LearningRateSchedule::Create(
    LearningRateScheduleOptions options) {
  const absl::Status valid = Validate(options);
  if (!valid.ok()) return valid;
  return LearningRateSchedule(std::move(options));
}

LearningRateSchedule::LearningRateSchedule(LearningRateScheduleOptions options)
    : options_(std::move(options)) {}

float LearningRateSchedule::At(int64_t step) const {
  const int64_t warmup = options_.warmup_steps;
  if (step >= warmup) return static_cast<float>(AfterWarmup(step - warmup));
  const double share = static_cast<double>(step + 1) / static_cast<double>(warmup + 1);
  return static_cast<float>(AfterWarmup(0) * share);
}

double LearningRateSchedule::AfterWarmup(int64_t step) const {
  switch (options_.kind) {
    case ScheduleKind::kConstant:
      return options_.learning_rate;
    case ScheduleKind::kStep:
      return Step(step);
    case ScheduleKind::kExponential:
      return Exponential(step);
    case ScheduleKind::kPolynomial:
      return Polynomial(step);
    case ScheduleKind::kCosine:
      return Cosine(step);
  }
  return options_.learning_rate;
}

double LearningRateSchedule::Step(int64_t step) const {
  const auto& boundaries = options_.boundaries;
  const auto passed =
      std::upper_bound(boundaries.begin(), boundaries.end(), step) - boundaries.begin();
  const double factor = passed == 0 ? 1 : options_.factors[static_cast<size_t>(passed) - 1];
  return options_.learning_rate * factor;
}

double LearningRateSchedule::Exponential(int64_t step) const {
  if (options_.staircase) {
    return options_.learning_rate * PortablePow(options_.rate, step / options_.decay_steps);
  }
  const double exponent = static_cast<double>(step) / static_cast<double>(options_.decay_steps);
  return options_.learning_rate * PortablePow(options_.rate, exponent);
}

double LearningRateSchedule::Polynomial(int64_t step) const {
  int64_t decay_steps = options_.decay_steps;
  if (options_.cycle) {
    decay_steps *= std::max<int64_t>(1, (step + decay_steps - 1) / decay_steps);
  }
  const double done =
      static_cast<double>(std::min(step, decay_steps)) / static_cast<double>(decay_steps);
  const double span = options_.learning_rate - options_.end;
  return span * PortablePow(1 - done, options_.power) + options_.end;
}

double LearningRateSchedule::Cosine(int64_t step) const {
  const double done = static_cast<double>(std::min(step, options_.decay_steps)) /
                      static_cast<double>(options_.decay_steps);
  const double span = options_.learning_rate - options_.end;
  return options_.end + span * (1 + PortableCosPi(done)) / 2;
}

}  // namespace shoal

#include "ml/optim/learning_rate_schedule.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "ml/optim/portable_math.h"

// Compiled with -ffp-contract=off: see BUILD.

namespace shoal {
namespace {

absl::Status FieldError(absl::string_view field, double value, absl::string_view must) {
  return absl::InvalidArgumentError(
      absl::StrCat("learning rate schedule field ", field, " is ", value, ": it must be ", must));
}

bool IsRate(double value) { return std::isfinite(static_cast<float>(value)) && value >= 0; }

absl::Status ValidatePiecewise(const LearningRateScheduleOptions& o) {
  if (o.values.size() != o.boundaries.size() + 1) {
    return absl::InvalidArgumentError(absl::StrCat("learning rate schedule has ", o.values.size(),
                                                   " values and ", o.boundaries.size(),
                                                   " boundaries: there must be one value more"));
  }
  for (double value : o.values) {
    if (!IsRate(value)) return FieldError("values", value, "finite and >= 0");
  }
  for (size_t k = 1; k < o.boundaries.size(); ++k) {
    if (o.boundaries[k] <= o.boundaries[k - 1]) {
      return FieldError("boundaries", static_cast<double>(o.boundaries[k]),
                        "larger than the boundary before it");
    }
  }
  return absl::OkStatus();
}

absl::Status Validate(const LearningRateScheduleOptions& o) {
  if (o.warmup_steps < 0) {
    return FieldError("warmup_steps", static_cast<double>(o.warmup_steps), ">= 0");
  }
  if (o.kind == ScheduleKind::kPiecewise) return ValidatePiecewise(o);
  if (!IsRate(o.learning_rate))
    return FieldError("learning_rate", o.learning_rate, "finite and >= 0");
  if (o.kind == ScheduleKind::kConstant) return absl::OkStatus();
  if (o.decay_steps <= 0) {
    return FieldError("decay_steps", static_cast<double>(o.decay_steps), ">= 1 for this schedule");
  }
  if (o.kind == ScheduleKind::kExponential && !(o.decay_rate > 0 && o.decay_rate <= 1)) {
    return FieldError("decay_rate", o.decay_rate, "in (0, 1]");
  }
  if (o.kind == ScheduleKind::kPolynomial) {
    if (!IsRate(o.end_learning_rate)) {
      return FieldError("end_learning_rate", o.end_learning_rate, "finite and >= 0");
    }
    if (!(std::isfinite(o.power) && o.power > 0))
      return FieldError("power", o.power, "finite and > 0");
  }
  if (o.kind == ScheduleKind::kCosine && !(o.alpha >= 0 && o.alpha <= 1)) {
    return FieldError("alpha", o.alpha, "in [0, 1]");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ScheduleKind> ParseScheduleKind(absl::string_view name) {
  if (name == "constant") return ScheduleKind::kConstant;
  if (name == "piecewise") return ScheduleKind::kPiecewise;
  if (name == "exponential") return ScheduleKind::kExponential;
  if (name == "polynomial") return ScheduleKind::kPolynomial;
  if (name == "cosine") return ScheduleKind::kCosine;
  return absl::InvalidArgumentError(
      absl::StrCat("learning rate schedule is \"", name,
                   "\": it must be one of constant, piecewise, exponential, polynomial, cosine"));
}

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
    case ScheduleKind::kPiecewise:
      return Piecewise(step);
    case ScheduleKind::kExponential:
      return Exponential(step);
    case ScheduleKind::kPolynomial:
      return Polynomial(step);
    case ScheduleKind::kCosine:
      return Cosine(step);
  }
  return options_.learning_rate;
}

double LearningRateSchedule::Piecewise(int64_t step) const {
  const auto& boundaries = options_.boundaries;
  const auto end = std::lower_bound(boundaries.begin(), boundaries.end(), step);
  return options_.values[static_cast<size_t>(end - boundaries.begin())];
}

double LearningRateSchedule::Exponential(int64_t step) const {
  if (options_.staircase) {
    return options_.learning_rate * PortablePow(options_.decay_rate, step / options_.decay_steps);
  }
  const double exponent = static_cast<double>(step) / static_cast<double>(options_.decay_steps);
  return options_.learning_rate * PortablePow(options_.decay_rate, exponent);
}

double LearningRateSchedule::Polynomial(int64_t step) const {
  int64_t decay_steps = options_.decay_steps;
  if (options_.cycle) {
    decay_steps *= std::max<int64_t>(1, (step + decay_steps - 1) / decay_steps);
  }
  const double done =
      static_cast<double>(std::min(step, decay_steps)) / static_cast<double>(decay_steps);
  const double span = options_.learning_rate - options_.end_learning_rate;
  return span * PortablePow(1 - done, options_.power) + options_.end_learning_rate;
}

double LearningRateSchedule::Cosine(int64_t step) const {
  const double done = static_cast<double>(std::min(step, options_.decay_steps)) /
                      static_cast<double>(options_.decay_steps);
  const double decayed = 0.5 * (1 + PortableCosPi(done));
  return options_.learning_rate * ((1 - options_.alpha) * decayed + options_.alpha);
}

}  // namespace shoal

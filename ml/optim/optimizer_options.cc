#include "ml/optim/optimizer_options.h"

#include <cmath>
#include <limits>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace shoal {
namespace {

struct NamedKind {
  OptimizerKind kind;
  absl::string_view name;
};

constexpr NamedKind kNames[] = {
    {OptimizerKind::kSgd, "sgd"},           {OptimizerKind::kMomentum, "momentum"},
    {OptimizerKind::kNesterov, "nesterov"}, {OptimizerKind::kAdagrad, "adagrad"},
    {OptimizerKind::kAdadelta, "adadelta"}, {OptimizerKind::kRmsProp, "rmsprop"},
    {OptimizerKind::kAdam, "adam"},         {OptimizerKind::kAdamW, "adamw"},
    {OptimizerKind::kFtrl, "ftrl"},
};

// Collects the error of the first field that is out of its range. Fields have their names in the
// run file, such as "optimizer.adam.beta1".
class RangeCheck {
 public:
  explicit RangeCheck(OptimizerKind kind)
      : rule_(kind == OptimizerKind::kNesterov ? "momentum" : OptimizerName(kind)) {}

  // value in [low, high).
  RangeCheck& HalfOpen(absl::string_view field, double value, double low, double high) {
    return Check(field, value, value >= low && value < high,
                 absl::StrCat("at least ", low, " and less than ", high));
  }
  RangeCheck& NotNegative(absl::string_view field, double value) {
    return Check(field, value, std::isfinite(value) && value >= 0, "a finite number >= 0");
  }
  RangeCheck& Positive(absl::string_view field, double value) {
    return Check(field, value,
                 std::isfinite(static_cast<float>(value)) && static_cast<float>(value) > 0,
                 "a finite number above 0 as a float");
  }
  RangeCheck& Check(absl::string_view field, double value, bool holds, absl::string_view must) {
    if (status_.ok() && !holds) {
      status_ = absl::InvalidArgumentError(
          absl::StrCat("optimizer.", rule_, ".", field, ": must be ", must, ", is ", value));
    }
    return *this;
  }
  absl::Status status() const { return status_; }

 private:
  const absl::string_view rule_;
  absl::Status status_;
};

}  // namespace

absl::string_view OptimizerName(OptimizerKind kind) {
  for (const NamedKind& entry : kNames) {
    if (entry.kind == kind) return entry.name;
  }
  return "unknown";
}

absl::StatusOr<OptimizerKind> ParseOptimizerKind(absl::string_view name) {
  std::string known;
  for (const NamedKind& entry : kNames) {
    if (entry.name == name) return entry.kind;
    absl::StrAppend(&known, known.empty() ? "" : ", ", entry.name);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("optimizer is \"", name, "\": it must be one of ", known));
}

absl::Status ValidateOptimizerOptions(const OptimizerOptions& o) {
  RangeCheck check(o.kind);
  if (o.kind == OptimizerKind::kAdamW || o.kind == OptimizerKind::kFtrl) {
    check.Check("l2_decay", o.l2_decay, o.l2_decay == 0, "0");
  } else {
    check.NotNegative("l2_decay", o.l2_decay);
  }
  switch (o.kind) {
    case OptimizerKind::kSgd:
      return check.status();
    case OptimizerKind::kMomentum:
    case OptimizerKind::kNesterov:
      return check.HalfOpen("momentum", o.momentum, 0, 1).status();
    case OptimizerKind::kAdagrad:
      check.NotNegative("initial_accumulator", o.adagrad_initial_accumulator)
          .NotNegative("epsilon", o.adagrad_epsilon);
      if (o.adagrad_epsilon == 0) {  // else a zero gradient would give 0/0
        check.Positive("initial_accumulator", o.adagrad_initial_accumulator);
      }
      return check.status();
    case OptimizerKind::kAdadelta:
      return check.HalfOpen("rho", o.adadelta_rho, 0, 1)
          .Positive("epsilon", o.adadelta_epsilon)
          .status();
    case OptimizerKind::kRmsProp:
      return check.HalfOpen("decay", o.rmsprop_decay, 0, 1)
          .HalfOpen("momentum", o.rmsprop_momentum, 0, 1)
          .Positive("epsilon", o.rmsprop_epsilon)
          .status();
    case OptimizerKind::kAdamW:
      check.NotNegative("weight_decay", o.weight_decay);
      [[fallthrough]];
    case OptimizerKind::kAdam:
      return check.HalfOpen("beta1", o.beta1, 0, 1)
          .HalfOpen("beta2", o.beta2, 0, 1)
          .Positive("epsilon", o.adam_epsilon)
          .status();
    case OptimizerKind::kFtrl:
      return check
          .Check("learning_rate_power", o.ftrl_learning_rate_power,
                 std::isfinite(o.ftrl_learning_rate_power) && o.ftrl_learning_rate_power <= 0,
                 "0 or less")
          .Positive("initial_accumulator", o.ftrl_initial_accumulator)
          .NotNegative("l1", o.ftrl_l1)
          .NotNegative("l2", o.ftrl_l2)
          .status();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("optimizer field kind is ", static_cast<int>(o.kind), ": is not a known rule"));
}

}  // namespace shoal

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

// The first field out of its range is the error; later calls keep it.
class RangeCheck {
 public:
  // value in [low, high).
  RangeCheck& HalfOpen(absl::string_view field, double value, double low, double high) {
    return Check(field, value, value >= low && value < high,
                 absl::StrCat("in [", low, ", ", high, ")"));
  }
  RangeCheck& NotNegative(absl::string_view field, double value) {
    return Check(field, value, std::isfinite(value) && value >= 0, "finite and >= 0");
  }
  RangeCheck& Positive(absl::string_view field, double value) {
    return Check(field, value,
                 std::isfinite(static_cast<float>(value)) && static_cast<float>(value) > 0,
                 "finite and > 0 as a float");
  }
  RangeCheck& Check(absl::string_view field, double value, bool holds, absl::string_view must) {
    if (status_.ok() && !holds) {
      status_ = absl::InvalidArgumentError(
          absl::StrCat("optimizer field ", field, " is ", value, ": it must be ", must));
    }
    return *this;
  }
  absl::Status status() const { return status_; }

 private:
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
  RangeCheck check;
  switch (o.kind) {
    case OptimizerKind::kSgd:
      return absl::OkStatus();
    case OptimizerKind::kMomentum:
    case OptimizerKind::kNesterov:
      return check.HalfOpen("momentum", o.momentum, 0, 1).status();
    case OptimizerKind::kAdagrad:
      check.NotNegative("adagrad_initial_accumulator", o.adagrad_initial_accumulator)
          .NotNegative("adagrad_epsilon", o.adagrad_epsilon);
      if (o.adagrad_epsilon == 0) {  // else a zero gradient would give 0/0
        check.Positive("adagrad_initial_accumulator", o.adagrad_initial_accumulator);
      }
      return check.status();
    case OptimizerKind::kAdadelta:
      return check.HalfOpen("adadelta_rho", o.adadelta_rho, 0, 1)
          .Positive("adadelta_epsilon", o.adadelta_epsilon)
          .status();
    case OptimizerKind::kRmsProp:
      return check.HalfOpen("rmsprop_decay", o.rmsprop_decay, 0, 1)
          .HalfOpen("rmsprop_momentum", o.rmsprop_momentum, 0, 1)
          .Positive("rmsprop_epsilon", o.rmsprop_epsilon)
          .NotNegative("rmsprop_initial_rms", o.rmsprop_initial_rms)
          .status();
    case OptimizerKind::kAdamW:
      check.NotNegative("weight_decay", o.weight_decay);
      [[fallthrough]];
    case OptimizerKind::kAdam:
      return check.HalfOpen("beta1", o.beta1, 0, 1)
          .HalfOpen("beta2", o.beta2, 0, 1)
          .Positive("adam_epsilon", o.adam_epsilon)
          .status();
    case OptimizerKind::kFtrl:
      return check
          .Check("ftrl_learning_rate_power", o.ftrl_learning_rate_power,
                 std::isfinite(o.ftrl_learning_rate_power) && o.ftrl_learning_rate_power <= 0,
                 "finite and <= 0")
          .Positive("ftrl_initial_accumulator", o.ftrl_initial_accumulator)
          .NotNegative("ftrl_l1", o.ftrl_l1)
          .NotNegative("ftrl_l2", o.ftrl_l2)
          .status();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("optimizer field kind is ", static_cast<int>(o.kind), ": it is no known rule"));
}

}  // namespace shoal

#include <limits>

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "proto/v1/optimizer_config.pb.h"
#include "runtime/config/rule.h"
#include "runtime/config/validate.h"

namespace shoal {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The parameter if it was given; unset means the rule's default, which is right.
#define CHECK_GIVEN(message, rule, name, check, ...) \
  if ((message).has_##name())                        \
  RETURN_IF_ERROR(check("optimizer." rule "." #name, (message).name(), ##__VA_ARGS__))

absl::Status ValidateAdam(const v1::AdamConfig& adam, bool decoupled_decay) {
  CHECK_GIVEN(adam, "adam", beta1, CheckRange, 0, 1);
  CHECK_GIVEN(adam, "adam", beta2, CheckRange, 0, 1);
  CHECK_GIVEN(adam, "adam", epsilon, CheckPositive);
  CHECK_GIVEN(adam, "adamw", weight_decay, CheckRange, 0, kInfinity);
  if (!decoupled_decay && adam.has_weight_decay()) {
    return Broken(
        "optimizer.adam.weight_decay",
        "belongs to adamw; use --optimizer=adamw, or model.weight_decay for L2 in the loss");
  }
  return absl::OkStatus();
}

absl::Status ValidateRule(const v1::OptimizerConfig& optimizer) {
  switch (optimizer.rule_case()) {
    case v1::OptimizerConfig::kSgd:
      return absl::OkStatus();
    case v1::OptimizerConfig::kMomentum:
      CHECK_GIVEN(optimizer.momentum(), "momentum", momentum, CheckRange, 0, 1);
      return absl::OkStatus();
    case v1::OptimizerConfig::kAdagrad:
      CHECK_GIVEN(optimizer.adagrad(), "adagrad", initial_accumulator, CheckRange, 0, kInfinity);
      CHECK_GIVEN(optimizer.adagrad(), "adagrad", epsilon, CheckRange, 0, kInfinity);
      return absl::OkStatus();
    case v1::OptimizerConfig::kAdadelta:
      CHECK_GIVEN(optimizer.adadelta(), "adadelta", rho, CheckRange, 0, 1);
      CHECK_GIVEN(optimizer.adadelta(), "adadelta", epsilon, CheckPositive);
      return absl::OkStatus();
    case v1::OptimizerConfig::kRmsprop:
      CHECK_GIVEN(optimizer.rmsprop(), "rmsprop", decay, CheckRange, 0, 1);
      CHECK_GIVEN(optimizer.rmsprop(), "rmsprop", momentum, CheckRange, 0, 1);
      CHECK_GIVEN(optimizer.rmsprop(), "rmsprop", epsilon, CheckPositive);
      return absl::OkStatus();
    case v1::OptimizerConfig::kAdam:
      return ValidateAdam(optimizer.adam(), false);
    case v1::OptimizerConfig::kAdamw:
      return ValidateAdam(optimizer.adamw(), true);
    case v1::OptimizerConfig::kFtrl:
      CHECK_GIVEN(optimizer.ftrl(), "ftrl", initial_accumulator, CheckRange, 0, kInfinity);
      CHECK_GIVEN(optimizer.ftrl(), "ftrl", l1, CheckRange, 0, kInfinity);
      CHECK_GIVEN(optimizer.ftrl(), "ftrl", l2, CheckRange, 0, kInfinity);
      if (optimizer.ftrl().has_learning_rate_power() &&
          !(optimizer.ftrl().learning_rate_power() <= 0)) {
        return Broken(
            "optimizer.ftrl.learning_rate_power",
            absl::StrCat("must be 0 or less, is ", optimizer.ftrl().learning_rate_power()));
      }
      return absl::OkStatus();
    case v1::OptimizerConfig::RULE_NOT_SET:
      break;
  }
  return Broken("optimizer", "names no rule; give --optimizer=sgd or another");
}

#undef CHECK_GIVEN

absl::Status ValidateSteps(const v1::ScheduleConfig& schedule) {
  if (schedule.boundary_size() == 0 || schedule.boundary_size() != schedule.value_size()) {
    return Broken("optimizer.schedule.boundary",
                  absl::StrCat("has ", schedule.boundary_size(), " entries and value has ",
                               schedule.value_size(), "; give one value for every boundary"));
  }
  for (int i = 0; i < schedule.boundary_size(); ++i) {
    if (i > 0 && schedule.boundary(i) <= schedule.boundary(i - 1)) {
      return Broken("optimizer.schedule.boundary",
                    absl::StrCat("must rise, but ", schedule.boundary(i), " follows ",
                                 schedule.boundary(i - 1)));
    }
    RETURN_IF_ERROR(CheckRange(absl::StrCat("optimizer.schedule.value[", i, "]"), schedule.value(i),
                               0, kInfinity));
  }
  return absl::OkStatus();
}

absl::Status ValidateSchedule(const v1::ScheduleConfig& schedule) {
  RETURN_IF_ERROR(CheckRange("optimizer.schedule.end", schedule.end(), 0, kInfinity));
  switch (schedule.kind()) {
    case v1::ScheduleConfig::KIND_CONSTANT:
    case v1::ScheduleConfig::KIND_COSINE:
      return absl::OkStatus();
    case v1::ScheduleConfig::KIND_STEP:
      return ValidateSteps(schedule);
    case v1::ScheduleConfig::KIND_EXPONENTIAL:
      return CheckPositive("optimizer.schedule.rate", schedule.rate());
    case v1::ScheduleConfig::KIND_POLYNOMIAL:
      if (!schedule.has_power()) return absl::OkStatus();
      return CheckPositive("optimizer.schedule.power", schedule.power());
    default:
      return Broken("optimizer.schedule.kind",
                    "is unknown; it is one of constant, step, exponential, polynomial, cosine");
  }
}

}  // namespace

absl::Status ValidateOptimizer(const v1::OptimizerConfig& optimizer) {
  RETURN_IF_ERROR(CheckPositive("learning_rate", optimizer.learning_rate()));
  RETURN_IF_ERROR(ValidateRule(optimizer));
  RETURN_IF_ERROR(ValidateSchedule(optimizer.schedule()));
  RETURN_IF_ERROR(CheckRange("optimizer.clip_by_value", optimizer.clip_by_value(), 0, kInfinity));
  RETURN_IF_ERROR(
      CheckRange("optimizer.clip_by_global_norm", optimizer.clip_by_global_norm(), 0, kInfinity));
  return CheckRange("optimizer.moving_average_decay", optimizer.moving_average_decay(), 0, 1);
}

}  // namespace shoal

#include "ml/optim/optimizer_config.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "proto/v1/optimizer_config.pb.h"

namespace shoal {
namespace {

void SetAdam(const v1::AdamConfig& config, OptimizerOptions& options) {
  if (config.has_beta1()) options.beta1 = config.beta1();
  if (config.has_beta2()) options.beta2 = config.beta2();
  if (config.has_epsilon()) options.adam_epsilon = config.epsilon();
  if (config.has_weight_decay()) options.weight_decay = config.weight_decay();
}

void SetRmsProp(const v1::RmsPropConfig& config, OptimizerOptions& options) {
  if (config.has_decay()) options.rmsprop_decay = config.decay();
  if (config.has_momentum()) options.rmsprop_momentum = config.momentum();
  if (config.has_epsilon()) options.rmsprop_epsilon = config.epsilon();
}

void SetFtrl(const v1::FtrlConfig& config, OptimizerOptions& options) {
  if (config.has_learning_rate_power()) {
    options.ftrl_learning_rate_power = config.learning_rate_power();
  }
  if (config.has_initial_accumulator()) {
    options.ftrl_initial_accumulator = config.initial_accumulator();
  }
  if (config.has_l1()) options.ftrl_l1 = config.l1();
  if (config.has_l2()) options.ftrl_l2 = config.l2();
}

void SetAdagrad(const v1::AdagradConfig& config, OptimizerOptions& options) {
  if (config.has_initial_accumulator()) {
    options.adagrad_initial_accumulator = config.initial_accumulator();
  }
  if (config.has_epsilon()) options.adagrad_epsilon = config.epsilon();
}

absl::StatusOr<ScheduleKind> KindOf(v1::ScheduleConfig::Kind kind) {
  switch (kind) {
    case v1::ScheduleConfig::KIND_UNSPECIFIED:
    case v1::ScheduleConfig::KIND_CONSTANT:
      return ScheduleKind::kConstant;
    case v1::ScheduleConfig::KIND_STEP:
      return ScheduleKind::kStep;
    case v1::ScheduleConfig::KIND_EXPONENTIAL:
      return ScheduleKind::kExponential;
    case v1::ScheduleConfig::KIND_POLYNOMIAL:
      return ScheduleKind::kPolynomial;
    case v1::ScheduleConfig::KIND_COSINE:
      return ScheduleKind::kCosine;
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("optimizer.schedule.kind is ", kind, ": this version does not know it"));
  }
}

}  // namespace

absl::StatusOr<OptimizerOptions> OptimizerOptionsFrom(const v1::OptimizerConfig& config) {
  OptimizerOptions options;
  switch (config.rule_case()) {
    case v1::OptimizerConfig::kSgd:
      options.kind = OptimizerKind::kSgd;
      break;
    case v1::OptimizerConfig::kMomentum:
      options.kind =
          config.momentum().nesterov() ? OptimizerKind::kNesterov : OptimizerKind::kMomentum;
      if (config.momentum().has_momentum()) options.momentum = config.momentum().momentum();
      break;
    case v1::OptimizerConfig::kAdagrad:
      options.kind = OptimizerKind::kAdagrad;
      SetAdagrad(config.adagrad(), options);
      break;
    case v1::OptimizerConfig::kAdadelta:
      options.kind = OptimizerKind::kAdadelta;
      if (config.adadelta().has_rho()) options.adadelta_rho = config.adadelta().rho();
      if (config.adadelta().has_epsilon()) options.adadelta_epsilon = config.adadelta().epsilon();
      break;
    case v1::OptimizerConfig::kRmsprop:
      options.kind = OptimizerKind::kRmsProp;
      SetRmsProp(config.rmsprop(), options);
      break;
    case v1::OptimizerConfig::kAdam:
      options.kind = OptimizerKind::kAdam;
      SetAdam(config.adam(), options);
      break;
    case v1::OptimizerConfig::kAdamw:
      options.kind = OptimizerKind::kAdamW;
      SetAdam(config.adamw(), options);
      break;
    case v1::OptimizerConfig::kFtrl:
      options.kind = OptimizerKind::kFtrl;
      SetFtrl(config.ftrl(), options);
      break;
    case v1::OptimizerConfig::RULE_NOT_SET:
      return absl::InvalidArgumentError(
          "optimizer has no rule: set one of sgd, momentum, adagrad, adadelta, rmsprop, adam, "
          "adamw, ftrl");
  }
  const absl::Status valid = ValidateOptimizerOptions(options);
  if (!valid.ok()) return valid;
  return options;
}

absl::StatusOr<LearningRateScheduleOptions> ScheduleOptionsFrom(const v1::OptimizerConfig& config,
                                                                int64_t total_updates) {
  const v1::ScheduleConfig& schedule = config.schedule();
  const auto kind = KindOf(schedule.kind());
  if (!kind.ok()) return kind.status();
  LearningRateScheduleOptions options;
  options.kind = *kind;
  options.learning_rate = config.learning_rate();
  options.boundaries.assign(schedule.boundary().begin(), schedule.boundary().end());
  options.factors.assign(schedule.value().begin(), schedule.value().end());
  options.warmup_steps = static_cast<int64_t>(schedule.warmup_steps());
  options.decay_steps = static_cast<int64_t>(schedule.decay_steps());
  if (options.decay_steps == 0 && total_updates > 0) {
    options.decay_steps = std::max<int64_t>(1, total_updates - options.warmup_steps);
  }
  if (schedule.rate() != 0) options.rate = schedule.rate();
  options.staircase = schedule.staircase();
  options.end = schedule.end();
  if (schedule.has_power()) options.power = schedule.power();
  const auto made = LearningRateSchedule::Create(options);
  if (!made.ok()) return made.status();
  return options;
}

}  // namespace shoal

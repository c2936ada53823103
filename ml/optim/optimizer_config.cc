#include "ml/optim/optimizer_config.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

#include "proto/v1/optimizer_config.pb.h"

namespace shoal {
namespace {

using google::protobuf::FieldDescriptor;

// The option that each field of a rule in the run file sets. The field's default is the value of
// the option in a new OptimizerOptions.
constexpr struct {
  const char* rule;
  const char* field;
  double OptimizerOptions::*option;
} kRuleFields[] = {
    {"momentum", "momentum", &OptimizerOptions::momentum},
    {"adagrad", "initial_accumulator", &OptimizerOptions::adagrad_initial_accumulator},
    {"adagrad", "epsilon", &OptimizerOptions::adagrad_epsilon},
    {"adadelta", "rho", &OptimizerOptions::adadelta_rho},
    {"adadelta", "epsilon", &OptimizerOptions::adadelta_epsilon},
    {"rmsprop", "decay", &OptimizerOptions::rmsprop_decay},
    {"rmsprop", "momentum", &OptimizerOptions::rmsprop_momentum},
    {"rmsprop", "epsilon", &OptimizerOptions::rmsprop_epsilon},
    {"adam", "beta1", &OptimizerOptions::beta1},
    {"adam", "beta2", &OptimizerOptions::beta2},
    {"adam", "epsilon", &OptimizerOptions::adam_epsilon},
    {"adamw", "beta1", &OptimizerOptions::beta1},
    {"adamw", "beta2", &OptimizerOptions::beta2},
    {"adamw", "epsilon", &OptimizerOptions::adam_epsilon},
    {"adamw", "weight_decay", &OptimizerOptions::weight_decay},
    {"ftrl", "learning_rate_power", &OptimizerOptions::ftrl_learning_rate_power},
    {"ftrl", "initial_accumulator", &OptimizerOptions::ftrl_initial_accumulator},
    {"ftrl", "l1", &OptimizerOptions::ftrl_l1},
    {"ftrl", "l2", &OptimizerOptions::ftrl_l2},
};

const FieldDescriptor* FindRule(const v1::OptimizerConfig& config) {
  return config.GetReflection()->GetOneofFieldDescriptor(
      config, v1::OptimizerConfig::descriptor()->FindOneofByName("rule"));
}

absl::StatusOr<OptimizerKind> ToKind(const v1::OptimizerConfig& config) {
  const FieldDescriptor* rule = FindRule(config);
  if (rule == nullptr) {
    return absl::InvalidArgumentError(
        "optimizer has no rule: set one of sgd, momentum, adagrad, adadelta, rmsprop, adam, "
        "adamw, ftrl");
  }
  if (config.momentum().nesterov()) return OptimizerKind::kNesterov;
  return ParseOptimizerKind(rule->name());
}

absl::StatusOr<ScheduleKind> ToKind(v1::ScheduleConfig::Kind kind) {
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

void ResolveRuleDefaults(v1::OptimizerConfig* config) {
  const FieldDescriptor* rule = FindRule(*config);
  if (rule == nullptr) return;
  google::protobuf::Message* parameters = config->GetReflection()->MutableMessage(config, rule);
  for (const auto& entry : kRuleFields) {
    if (rule->name() != entry.rule) continue;
    const FieldDescriptor* field = parameters->GetDescriptor()->FindFieldByName(entry.field);
    if (parameters->GetReflection()->HasField(*parameters, field)) continue;
    parameters->GetReflection()->SetDouble(parameters, field, OptimizerOptions().*entry.option);
  }
}

absl::StatusOr<OptimizerOptions> OptimizerOptionsFrom(const v1::OptimizerConfig& given) {
  v1::OptimizerConfig config = given;
  ResolveRuleDefaults(&config);
  OptimizerOptions options;
  const auto kind = ToKind(config);
  if (!kind.ok()) return kind.status();
  options.kind = *kind;
  const FieldDescriptor* rule = FindRule(config);
  const google::protobuf::Message& parameters = config.GetReflection()->GetMessage(config, rule);
  for (const auto& entry : kRuleFields) {
    if (rule->name() != entry.rule) continue;
    options.*entry.option = parameters.GetReflection()->GetDouble(
        parameters, parameters.GetDescriptor()->FindFieldByName(entry.field));
  }
  options.corrected_epsilon =
      config.adam().corrected_epsilon() || config.adamw().corrected_epsilon();
  options.rmsprop_centered = config.rmsprop().centered();
  const absl::Status valid = ValidateOptimizerOptions(options);
  if (!valid.ok()) return valid;
  return options;
}

void ResolveScheduleDefaults(v1::ScheduleConfig* schedule) {
  using Schedule = v1::ScheduleConfig;
  const LearningRateScheduleOptions defaults;
  if (schedule->kind() == Schedule::KIND_UNSPECIFIED) schedule->set_kind(Schedule::KIND_CONSTANT);
  if (schedule->kind() == Schedule::KIND_EXPONENTIAL && schedule->rate() == 0) {
    schedule->set_rate(defaults.rate);
  }
  if (schedule->kind() == Schedule::KIND_POLYNOMIAL && !schedule->has_power()) {
    schedule->set_power(defaults.power);
  }
}

absl::StatusOr<LearningRateScheduleOptions> ScheduleOptionsFrom(const v1::OptimizerConfig& config,
                                                                int64_t total_updates) {
  v1::ScheduleConfig schedule = config.schedule();
  ResolveScheduleDefaults(&schedule);
  const auto kind = ToKind(schedule.kind());
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
  options.rate = schedule.rate();
  options.staircase = schedule.staircase();
  options.end = schedule.end();
  options.power = schedule.power();
  options.cycle = schedule.cycle();
  const auto made = LearningRateSchedule::Create(options);
  if (!made.ok()) return made.status();
  return options;
}

}  // namespace shoal

#include "ml/optim/table_config.h"

#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

#include "ml/optim/optimizer_config.h"
#include "ml/optim/optimizer_options.h"
#include "proto/v1/optimizer_config.pb.h"
#include "proto/v1/table_config.pb.h"

namespace shoal {
namespace {

constexpr uint32_t kMostDim = 4096;
constexpr uint32_t kMostMinCount = 1 << 30;

// Sets a field of *to if it is set in `from`.
#define SHOAL_COPY(from, to, field) \
  if ((from).has_##field()) (to)->set_##field((from).field())

v1::OptimizerConfig AdagradFrom(const v1::TableOptimizer::Adagrad& rule) {
  v1::OptimizerConfig config;
  SHOAL_COPY(rule, &config, learning_rate);
  SHOAL_COPY(rule, config.mutable_adagrad(), initial_accumulator);
  SHOAL_COPY(rule, config.mutable_adagrad(), epsilon);
  config.mutable_adagrad();
  return config;
}

v1::OptimizerConfig AdamFrom(const v1::TableOptimizer::Adam& rule) {
  v1::OptimizerConfig config;
  SHOAL_COPY(rule, &config, learning_rate);
  SHOAL_COPY(rule, config.mutable_adam(), beta1);
  SHOAL_COPY(rule, config.mutable_adam(), beta2);
  SHOAL_COPY(rule, config.mutable_adam(), epsilon);
  config.mutable_adam();
  return config;
}

v1::OptimizerConfig FtrlFrom(const v1::TableOptimizer::Ftrl& rule) {
  v1::OptimizerConfig config;
  SHOAL_COPY(rule, &config, learning_rate);
  SHOAL_COPY(rule, config.mutable_ftrl(), learning_rate_power);
  SHOAL_COPY(rule, config.mutable_ftrl(), initial_accumulator);
  SHOAL_COPY(rule, config.mutable_ftrl(), l1);
  SHOAL_COPY(rule, config.mutable_ftrl(), l2);
  config.mutable_ftrl();
  return config;
}

// Returns the rule with the fields that are set, without defaults.
v1::OptimizerConfig RuleFrom(const v1::TableOptimizer& optimizer) {
  v1::OptimizerConfig config;
  switch (optimizer.rule_case()) {
    case v1::TableOptimizer::kSgd:
      SHOAL_COPY(optimizer.sgd(), &config, learning_rate);
      config.mutable_sgd();
      return config;
    case v1::TableOptimizer::kRowwiseAdagrad:
      return AdagradFrom(optimizer.rowwise_adagrad());
    case v1::TableOptimizer::kAdam:
      return AdamFrom(optimizer.adam());
    case v1::TableOptimizer::kFtrl:
      return FtrlFrom(optimizer.ftrl());
    case v1::TableOptimizer::kAdagrad:
    case v1::TableOptimizer::RULE_NOT_SET:
      break;
  }
  return AdagradFrom(optimizer.adagrad());
}

#undef SHOAL_COPY

}  // namespace

v1::OptimizerConfig RowOptimizer(const v1::TableConfig& table, const v1::OptimizerConfig& run,
                                 const v1::OptimizerGroup* group) {
  v1::OptimizerConfig config = RuleFrom(table.optimizer());
  ResolveRuleDefaults(&config);
  *config.mutable_schedule() = run.schedule();
  if (!config.has_learning_rate() && group != nullptr && group->has_learning_rate()) {
    config.set_learning_rate(group->learning_rate());
  }
  bool is_run_rate = !config.has_learning_rate();
  if (is_run_rate) config.set_learning_rate(run.learning_rate());
  if (group != nullptr && group->has_learning_rate_multiplier()) {
    config.set_learning_rate(config.learning_rate() * group->learning_rate_multiplier());
    is_run_rate = false;
  }
  if (!is_run_rate && run.learning_rate() != 0) {
    config.mutable_schedule()->set_end(run.schedule().end() * config.learning_rate() /
                                       run.learning_rate());
  }
  return config;
}

InitializerSpec RowInitializer(const v1::TableConfig& table) {
  const v1::TableInitializer& config = table.initializer();
  switch (config.distribution_case()) {
    case v1::TableInitializer::kConstant:
      return ConstantInitializer(config.constant().value());
    case v1::TableInitializer::kUniform:
      return UniformInitializer(config.uniform().low(), config.uniform().high());
    case v1::TableInitializer::kNormal:
      return NormalInitializer(config.normal().mean(), config.normal().stddev());
    case v1::TableInitializer::kTruncatedNormal:
      return TruncatedNormalInitializer(config.truncated_normal().mean(),
                                        config.truncated_normal().stddev());
    case v1::TableInitializer::DISTRIBUTION_NOT_SET:
      break;
  }
  return UniformInitializer(-0.05, 0.05);
}

v1::TableConfig MergedTable(const v1::TableConfig& declared, const v1::TableConfig& entry) {
  v1::TableConfig merged = declared;
  std::vector<const google::protobuf::FieldDescriptor*> given;
  entry.GetReflection()->ListFields(entry, &given);
  for (const google::protobuf::FieldDescriptor* const field : given) {
    merged.GetReflection()->ClearField(&merged, field);
  }
  merged.MergeFrom(entry);
  merged.set_name(declared.name());
  return merged;
}

namespace {

// Names the fields of a table's initializer; those of an InitializerSpec have other names.
absl::Status CheckInitializerFields(const v1::TableInitializer& config) {
  if (config.has_uniform() && config.uniform().low() > config.uniform().high()) {
    return absl::InvalidArgumentError(
        absl::StrCat("initializer.uniform.low: must be at most high, ", config.uniform().high(),
                     ", is ", config.uniform().low()));
  }
  for (const auto& [name, normal] : {std::pair("normal", &config.normal()),
                                     std::pair("truncated_normal", &config.truncated_normal())}) {
    if (normal->stddev() < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("initializer.", name, ".stddev: must be at least 0, is ", normal->stddev()));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidateTableConfig(const v1::TableConfig& table) {
  if (table.dim() == 0 || table.dim() > kMostDim) {
    return absl::InvalidArgumentError(
        absl::StrCat("dim: must be 1 to ", kMostDim, ", is ", table.dim()));
  }
  if (table.buckets() > kMostBuckets) {
    return absl::InvalidArgumentError(
        absl::StrCat("buckets: must be at most ", kMostBuckets, ", is ", table.buckets()));
  }
  if (table.admission().min_count() > kMostMinCount) {
    return absl::InvalidArgumentError(absl::StrCat("admission: min_count must be at most ",
                                                   kMostMinCount, ", is ",
                                                   table.admission().min_count()));
  }
  const v1::OptimizerConfig rule = RuleFrom(table.optimizer());
  for (const auto& [name, value] :
       {std::pair<const char*, double>("learning_rate", rule.learning_rate()),
        {"l2", table.optimizer().l2()}}) {
    if (value >= 0 && std::isfinite(static_cast<float>(value))) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("optimizer: ", name, " must be a finite number >= 0, is ", value));
  }
  const absl::StatusOr<OptimizerOptions> options = OptimizerOptionsFrom(rule);
  if (!options.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("optimizer: ", options.status().message()));
  }
  const absl::Status fields = CheckInitializerFields(table.initializer());
  if (!fields.ok()) return fields;
  const absl::Status initializer = ValidateInitializer(RowInitializer(table));
  if (initializer.ok()) return initializer;
  return absl::InvalidArgumentError(absl::StrCat("initializer: ", initializer.message()));
}

}  // namespace shoal

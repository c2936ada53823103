#include "runtime/variables/table_settings.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "ml/optim/optimizer_config.h"
#include "ml/tensor/initializer.h"
#include "proto/v1/variable.pb.h"

namespace shoal {
namespace {

absl::Status OfTable(const v1::VariableSpec& table, const absl::Status& status) {
  return absl::Status(status.code(),
                      absl::StrCat("table \"", table.name(), "\": ", status.message()));
}

// Sets the schedule of a table that names its rule.
absl::Status SetSchedule(const v1::OptimizerConfig& config, const UpdateSettings& run,
                         LearningRateScheduleOptions* schedule) {
  ASSIGN_OR_RETURN(const LearningRateScheduleOptions own,
                   ScheduleOptionsFrom(config, run.total_updates));
  if (config.has_schedule()) {
    *schedule = own;
    return absl::OkStatus();
  }
  schedule->learning_rate = own.learning_rate;
  schedule->end *= own.learning_rate / run.schedule.learning_rate;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TableSettings> TableSettingsFrom(const v1::VariableSpec& table,
                                                const UpdateSettings& run) {
  TableSettings settings;
  ASSIGN_OR_RETURN(settings.options, TableOptionsFrom(table, run));
  settings.schedule = run.schedule;
  const v1::TableSpec& spec = table.table();
  if (spec.has_optimizer()) {
    const absl::Status status = SetSchedule(spec.optimizer(), run, &settings.schedule);
    if (!status.ok()) return OfTable(table, status);
  }
  return settings;
}

absl::StatusOr<TableOptions> TableOptionsFrom(const v1::VariableSpec& table,
                                              const UpdateSettings& run) {
  if (run.moving_average_decay > 0) {
    return OfTable(table, absl::InvalidArgumentError(
                              "optimizer.moving_average_decay keeps an average of every parameter, "
                              "which tables do not have; set it to 0"));
  }
  const v1::TableSpec& spec = table.table();
  TableOptions options;
  options.optimizer = run.optimizer;
  if (spec.has_optimizer()) {
    const absl::StatusOr<OptimizerOptions> rule = OptimizerOptionsFrom(spec.optimizer());
    if (!rule.ok()) return OfTable(table, rule.status());
    options.optimizer = *rule;
  }
  options.name = table.name();
  options.dim = static_cast<uint32_t>(table.shape(0));
  options.rowwise = spec.rowwise();
  options.l2 = spec.l2();
  options.clip_by_value = run.clip_by_value;
  options.min_count = spec.min_count();
  options.idle_updates = spec.idle_updates();
  if (table.initializer().kind() != v1::Initializer::KIND_UNSPECIFIED) {
    options.initializer.kind = static_cast<InitializerKind>(table.initializer().kind());
  }
  options.initializer.a = table.initializer().a();
  options.initializer.b = table.initializer().b();
  return options;
}

}  // namespace shoal

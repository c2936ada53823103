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

absl::Status SetOptimizer(const v1::OptimizerConfig& config, const UpdateSettings& run,
                          TableSettings* settings) {
  ASSIGN_OR_RETURN(settings->options.optimizer, OptimizerOptionsFrom(config));
  ASSIGN_OR_RETURN(const LearningRateScheduleOptions own,
                   ScheduleOptionsFrom(config, run.total_updates));
  if (config.has_schedule()) {
    settings->schedule = own;
    return absl::OkStatus();
  }
  settings->schedule.learning_rate = own.learning_rate;
  settings->schedule.end *= own.learning_rate / run.schedule.learning_rate;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TableSettings> TableSettingsFrom(const v1::VariableSpec& table,
                                                const UpdateSettings& run) {
  if (run.moving_average_decay > 0) {
    return OfTable(table, absl::InvalidArgumentError(
                              "optimizer.moving_average_decay keeps an average of every parameter, "
                              "which tables do not have; set it to 0"));
  }
  const v1::TableSpec& spec = table.table();
  TableSettings settings;
  settings.options.optimizer = run.optimizer;
  settings.schedule = run.schedule;
  if (spec.has_optimizer()) {
    if (absl::Status status = SetOptimizer(spec.optimizer(), run, &settings); !status.ok()) {
      return OfTable(table, status);
    }
  }
  settings.options.name = table.name();
  settings.options.dim = static_cast<uint32_t>(table.shape(0));
  settings.options.rowwise = spec.rowwise();
  settings.options.l2 = spec.l2();
  settings.options.clip_by_value = run.clip_by_value;
  settings.options.min_count = spec.min_count();
  settings.options.idle_updates = spec.idle_updates();
  if (table.initializer().kind() != v1::Initializer::KIND_UNSPECIFIED) {
    settings.options.initializer.kind = static_cast<InitializerKind>(table.initializer().kind());
  }
  settings.options.initializer.a = table.initializer().a();
  settings.options.initializer.b = table.initializer().b();
  return settings;
}

}  // namespace shoal

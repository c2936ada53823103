#ifndef SHOAL_RUNTIME_VARIABLES_TABLE_SETTINGS_H_
#define SHOAL_RUNTIME_VARIABLES_TABLE_SETTINGS_H_

#include "absl/status/statusor.h"

#include "ml/optim/learning_rate_schedule.h"
#include "runtime/tables/table_updater.h"
#include "runtime/variables/variable_updater.h"

namespace shoal {

namespace v1 {
class VariableSpec;
}

// The settings for updating the rows of one table.
struct TableSettings {
  TableOptions options;
  LearningRateScheduleOptions schedule;
};

// Decodes a table's optimizer. Where it names no rule, the table has the run's rule and schedule;
// where it names a rule but no schedule, it has the run's schedule, scaled to the table's learning
// rate. InvalidArgument names the table and the field.
absl::StatusOr<TableSettings> TableSettingsFrom(const v1::VariableSpec& table,
                                                const UpdateSettings& run);

// Returns the options alone, for those who only read a table's rows: they need no schedule, and
// may not know the number of updates that one needs.
absl::StatusOr<TableOptions> TableOptionsFrom(const v1::VariableSpec& table,
                                              const UpdateSettings& run);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_VARIABLES_TABLE_SETTINGS_H_

// Reads the tables of a run file.
#ifndef SHOAL_ML_OPTIM_TABLE_CONFIG_H_
#define SHOAL_ML_OPTIM_TABLE_CONFIG_H_

#include <cstdint>

#include "absl/status/status.h"

#include "ml/tensor/initializer.h"

namespace shoal {

namespace v1 {
class OptimizerConfig;
class OptimizerGroup;
class TableConfig;
}  // namespace v1

// The most buckets of a table.
inline constexpr uint32_t kMostBuckets = 65536;

// Returns the optimizer of the table's rows as an OptimizerConfig, like that of a run. Its rule,
// with the rule's parameters, is the table's: sgd, adagrad (also for row-wise Adagrad), adam or
// ftrl. Its learning rate is that of the table's rule, else that of `group`, else the run's, times
// the learning_rate_multiplier of `group`. Its schedule is the run's, with the rate `end` scaled as
// the learning rate is. `run` is resolved; `group` is the run's group that has the table, or null.
v1::OptimizerConfig RowOptimizer(const v1::TableConfig& table, const v1::OptimizerConfig& run,
                                 const v1::OptimizerGroup* group);

// Returns the distribution of the values of rows that were never trained.
InitializerSpec RowInitializer(const v1::TableConfig& table);

// Returns the table that a program declares with the settings of the run file's entry for it. A
// field that the entry leaves unset is the program's; an optimizer, an initializer, an admission or
// an expiry of the entry replaces the program's as a whole. The name stays that of `declared`.
v1::TableConfig MergedTable(const v1::TableConfig& declared, const v1::TableConfig& entry);

// Returns InvalidArgument, which names the field, if a field other than the name is out of range.
absl::Status ValidateTableConfig(const v1::TableConfig& table);

}  // namespace shoal

#endif  // SHOAL_ML_OPTIM_TABLE_CONFIG_H_

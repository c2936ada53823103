// Tables of a run file as variables of a model.
#ifndef SHOAL_WORKER_REPLICA_TABLE_VARIABLE_H_
#define SHOAL_WORKER_REPLICA_TABLE_VARIABLE_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"

#include "proto/v1/optimizer_config.pb.h"
#include "proto/v1/table_config.pb.h"
#include "proto/v1/variable.pb.h"

namespace shoal {

// The number of buckets of a table that does not set it: all tables of a model together have about
// 1024, so that a message to a ps names few, and one has 16 to 256.
uint32_t DefaultBuckets(size_t num_tables);

// Returns the variable of a table, which is valid and has a name and a dim. `run` is the resolved
// optimizer of the run, whose group for the table's name sets or scales the table's learning rate;
// the model has `num_tables` tables. InvalidArgument names the group whose expression is wrong.
absl::StatusOr<v1::VariableSpec> TableVariable(const v1::TableConfig& table,
                                               const v1::OptimizerConfig& run, size_t num_tables);

}  // namespace shoal

#endif  // SHOAL_WORKER_REPLICA_TABLE_VARIABLE_H_

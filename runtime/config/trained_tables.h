#ifndef SHOAL_RUNTIME_CONFIG_TRAINED_TABLES_H_
#define SHOAL_RUNTIME_CONFIG_TRAINED_TABLES_H_

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace shoal {

namespace v1 {
class RunConfig;
class VariableSpec;
}  // namespace v1

// Checks that the run asks nothing of a table that only dense variables can do: a table cannot be
// frozen, by a group of the optimizer or because `trainable` leaves it out, and a group gives it no
// weight decay. InvalidArgument names the field, the table and the remedy.
absl::Status CheckTablesAreTrained(const v1::RunConfig& run,
                                   absl::Span<const v1::VariableSpec> variables);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_CONFIG_TRAINED_TABLES_H_

// The compressed lists that Slurm puts into a task's environment.
#ifndef SHOAL_RUNTIME_CLUSTER_SLURM_LISTS_H_
#define SHOAL_RUNTIME_CLUSTER_SLURM_LISTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace shoal {

// Expands host names: "a[01-03,7],b2" -> a01 a02 a03 a7 b2. If a name has several brackets, the
// last one varies fastest. Errors name `variable`: empty names, brackets that do not match,
// descending ranges, more than 65536 hosts.
absl::StatusOr<std::vector<std::string>> ParseNodeList(absl::string_view variable,
                                                       absl::string_view text);

// Expands the numbers of tasks on each node, in the order of the node list: "2(x2),1" -> 2 2 1.
// Errors name `variable`.
absl::StatusOr<std::vector<uint32_t>> ParseTasksPerNode(absl::string_view variable,
                                                        absl::string_view text);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_CLUSTER_SLURM_LISTS_H_

// The environment variables that a launcher sets for a task. main reads them once and passes them
// on as this map.
#ifndef SHOAL_RUNTIME_CLUSTER_ENVIRONMENT_H_
#define SHOAL_RUNTIME_CLUSTER_ENVIRONMENT_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace shoal {

using Environment = std::map<std::string, std::string, std::less<>>;

// Converts main's third argument or `environ`, an array of "NAME=value" that ends with null.
// `variables` may be null.
Environment ReadEnvironment(const char* const* entries);

// Returns the value, or "" if the variable is not set. The result points into `environment`.
absl::string_view GetValue(const Environment& environment, absl::string_view name);
bool IsSet(const Environment& environment, absl::string_view name);  // Set and not empty.

// Returns an integer >= 0. InvalidArgument names a variable that is not set or is not such a
// number.
absl::StatusOr<uint32_t> NumberVariable(const Environment& environment, absl::string_view name);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_CLUSTER_ENVIRONMENT_H_

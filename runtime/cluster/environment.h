// The variables that a launcher sets for a task. Read once, in main; everything below gets this
// map.
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

// Takes the form of main's third argument or of `environ`: "NAME=value", null at the end; or null.
Environment ReadEnvironment(const char* const* entries);

// Empty where the variable is not set. Lives as long as `environment`.
absl::string_view ValueOf(const Environment& environment, absl::string_view name);
bool IsSet(const Environment& environment, absl::string_view name);  // Set and not empty.

// A whole number >= 0. InvalidArgument names the variable: not set, no number.
absl::StatusOr<uint32_t> NumberVariable(const Environment& environment, absl::string_view name);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_CLUSTER_ENVIRONMENT_H_

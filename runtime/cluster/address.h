// Addresses of tasks: host:port, [v6]:port or unix:path.
#ifndef SHOAL_RUNTIME_CLUSTER_ADDRESS_H_
#define SHOAL_RUNTIME_CLUSTER_ADDRESS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace shoal {

// Whether the text is an address that others can call. Port 0 ("any free one") is only allowed
// where a task listens. `field` is named in the error.
absl::Status CheckAddress(absl::string_view field, absl::string_view address,
                          bool allow_port_zero = false);

// Whether a server there listens at every address of its host (0.0.0.0, [::]): nothing to dial.
bool IsWildcardAddress(absl::string_view address);

// host:port, [v6]:port or unix:path on this machine. Names other than localhost are not looked up
// and do not count.
bool IsLoopbackAddress(absl::string_view address);

// "a:1,b:2" -> {"a:1", "b:2"}, each one checked. Empty text is no address at all.
absl::StatusOr<std::vector<std::string>> ParseHostList(absl::string_view field,
                                                       absl::string_view text);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_CLUSTER_ADDRESS_H_

// Tells paths of this machine from addresses of storage elsewhere.
#ifndef SHOAL_RUNTIME_CONFIG_PATH_CHECK_H_
#define SHOAL_RUNTIME_CONFIG_PATH_CHECK_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace shoal {

// Refuses "s3://bucket/run", "~/run" and the like, which would become a directory of that name
// here. `name` is the field or flag that has the path, and begins the error. The Python package has
// the same check (python/shoal/run.py).
absl::Status CheckIsPath(absl::string_view name, absl::string_view path);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_CONFIG_PATH_CHECK_H_

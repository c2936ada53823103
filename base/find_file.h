// Tells a file that is absent from one that the file system cannot show now.
#ifndef SHOAL_BASE_FIND_FILE_H_
#define SHOAL_BASE_FIND_FILE_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"

#include "base/file_system.h"

namespace shoal {

// Returns the file's information, or nullopt if the file does not exist or this process may not see
// it. Returns kUnavailable if a file server, a mount or the network is away (passing_errors.h): the
// file may exist, so the caller must not proceed as if it did not.
absl::StatusOr<std::optional<FileInfo>> FindFile(const FileSystem& file_system,
                                                 const std::string& path);

// Returns whether the path is a directory; kUnavailable as above.
absl::StatusOr<bool> IsDirectory(const FileSystem& file_system, const std::string& path);

}  // namespace shoal

#endif  // SHOAL_BASE_FIND_FILE_H_

#include "base/find_file.h"

#include "absl/status/status.h"

#include "base/status_macros.h"

namespace shoal {

absl::StatusOr<std::optional<FileInfo>> FindFile(const FileSystem& file_system,
                                                 const std::string& path) {
  const absl::StatusOr<FileInfo> info = file_system.GetInfo(path);
  if (info.ok()) return *info;
  if (absl::IsUnavailable(info.status())) return info.status();
  return std::nullopt;
}

absl::StatusOr<bool> IsDirectory(const FileSystem& file_system, const std::string& path) {
  ASSIGN_OR_RETURN(const std::optional<FileInfo> found, FindFile(file_system, path));
  return found.has_value() && found->is_directory;
}

}  // namespace shoal

#include "runtime/observability/summary_if_over.h"

#include <sys/stat.h>

#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "base/file_system.h"

namespace shoal {
namespace {

// The infinite past: there is no such file.
absl::Time WrittenAt(const std::string& path) {
  struct stat info = {};
  if (stat(path.c_str(), &info) != 0) return absl::InfinitePast();
  return absl::TimeFromTimespec(info.st_mtim);
}

}  // namespace

absl::optional<Summary> SummaryIfOver(const std::string& directory) {
  const absl::Time begun = WrittenAt(JoinPath(directory, "cluster.textproto"));
  const absl::Time ended = WrittenAt(JoinPath(directory, "summary.json"));
  if (ended == absl::InfinitePast() || ended < begun) return absl::nullopt;
  const std::unique_ptr<FileSystem> files = NewPosixFileSystem();
  absl::StatusOr<Summary> summary = ReadSummary(files.get(), directory);
  return summary.ok() ? absl::make_optional(*std::move(summary)) : absl::nullopt;
}

}  // namespace shoal

#include "runtime/process/directory_outcome.h"

#include <sys/stat.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "base/file_system.h"
#include "runtime/process/run_lock.h"

namespace shoal {
namespace {

// Returns the infinite past if the file does not exist.
absl::Time WrittenAt(const std::string& path) {
  struct stat info = {};
  if (stat(path.c_str(), &info) != 0) return absl::InfinitePast();
  return absl::TimeFromTimespec(info.st_mtim);
}

// Returns the infinite past if no process holds the lock.
absl::Time HeldSince(const std::string& directory, RunLock::Holder holder) {
  return RunLock::HeldSince(directory, holder).value_or(absl::InfinitePast());
}

absl::Time ClusterWrittenAt(const std::string& directory) {
  return WrittenAt(JoinPath(directory, "cluster.textproto"));
}

}  // namespace

bool IsStarting(const std::string& directory) {
  // If there is a launcher, its lock comes first: a run in one process takes the chief's lock late.
  const absl::Time begun = RunLock::HeldSince(directory, RunLock::Holder::kLauncher)
                               .value_or(HeldSince(directory, RunLock::Holder::kChief));
  return begun > ClusterWrittenAt(directory);
}

std::optional<Summary> SummaryIfOver(const std::string& directory) {
  const absl::Time begun =
      std::max({HeldSince(directory, RunLock::Holder::kLauncher),
                HeldSince(directory, RunLock::Holder::kChief), ClusterWrittenAt(directory)});
  const absl::Time ended = WrittenAt(JoinPath(directory, "summary.json"));
  if (ended == absl::InfinitePast() || ended < begun) return std::nullopt;
  const std::unique_ptr<FileSystem> files = NewPosixFileSystem();
  absl::StatusOr<Summary> summary = ReadSummary(files.get(), directory);
  return summary.ok() ? std::make_optional(*std::move(summary)) : std::nullopt;
}

}  // namespace shoal

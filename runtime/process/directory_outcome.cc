#include "runtime/process/directory_outcome.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "base/file_system.h"
#include "base/passing_errors.h"
#include "base/status_macros.h"
#include "runtime/process/run_lock.h"

namespace shoal {
namespace {

// Returns the infinite past if the file does not exist.
absl::StatusOr<absl::Time> WrittenAt(const std::string& path) {
  struct stat info = {};
  if (stat(path.c_str(), &info) == 0) return absl::TimeFromTimespec(info.st_mtim);
  if (errno == ENOENT || errno == ENOTDIR) return absl::InfinitePast();
  return StatusOfErrno(errno, path);
}

// The times at which the files of a start were written; the infinite past for those that do not
// exist, and for locks that no process holds.
struct StartTimes {
  absl::Time launcher, chief, cluster;
};

absl::StatusOr<StartTimes> TimesOfStart(const std::string& directory) {
  ASSIGN_OR_RETURN(const std::optional<absl::Time> launcher,
                   RunLock::HeldSince(directory, RunLock::Holder::kLauncher));
  ASSIGN_OR_RETURN(const std::optional<absl::Time> chief,
                   RunLock::HeldSince(directory, RunLock::Holder::kChief));
  ASSIGN_OR_RETURN(const absl::Time cluster, WrittenAt(JoinPath(directory, "cluster.textproto")));
  return StartTimes{launcher.value_or(absl::InfinitePast()), chief.value_or(absl::InfinitePast()),
                    cluster};
}

absl::StatusOr<bool> IsOver(const std::string& directory) {
  ASSIGN_OR_RETURN(const StartTimes start, TimesOfStart(directory));
  ASSIGN_OR_RETURN(const absl::Time ended, WrittenAt(JoinPath(directory, "summary.json")));
  return ended != absl::InfinitePast() &&
         ended >= std::max({start.launcher, start.chief, start.cluster});
}

}  // namespace

bool IsStarting(const std::string& directory) {
  const absl::StatusOr<StartTimes> start = TimesOfStart(directory);
  if (!start.ok()) return false;
  // If there is a launcher, its lock comes first: a run in one process takes the chief's lock late.
  const bool has_launcher = start->launcher != absl::InfinitePast();
  return (has_launcher ? start->launcher : start->chief) > start->cluster;
}

std::optional<Summary> SummaryIfOver(const std::string& directory) {
  if (!IsOver(directory).value_or(false)) return std::nullopt;
  const std::unique_ptr<FileSystem> files = NewPosixFileSystem();
  absl::StatusOr<Summary> summary = ReadSummary(files.get(), directory);
  return summary.ok() ? std::make_optional(*std::move(summary)) : std::nullopt;
}

}  // namespace shoal

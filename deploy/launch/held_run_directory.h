#ifndef SHOAL_DEPLOY_LAUNCH_HELD_RUN_DIRECTORY_H_
#define SHOAL_DEPLOY_LAUNCH_HELD_RUN_DIRECTORY_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "proto/v1/run_config.pb.h"
#include "runtime/process/run_lock.h"

namespace shoal {

class FileSystem;

// The directory `out` of a run, locked by the launcher so that no second run uses it. The lock is
// released when the object is destroyed. Errors name --out and the remedy; ALREADY_EXISTS names the
// process that holds the directory. Not thread-safe.
class HeldRunDirectory {
 public:
  // `file_system` is borrowed.
  HeldRunDirectory(const std::string& out, FileSystem* file_system)
      : path_(out), file_system_(file_system) {}

  // Locks the directory if it exists; creates nothing. A chief that has outlived its launcher gets
  // 2 s to end; if one still holds the directory then, returns ALREADY_EXISTS.
  absl::Status Hold();

  // Creates the directory, its logs/ and the run's run.textproto, and locks it unless Hold has.
  absl::Status Prepare(const v1::RunConfig& run);

 private:
  // Keeps the lock, or explains why there is none. Returns OK for NOT_FOUND: there is nothing to
  // lock.
  absl::Status Take(absl::StatusOr<RunLock> lock);
  absl::Status Because(const absl::Status& status) const;

  const std::string path_;
  FileSystem* const file_system_;
  std::optional<RunLock> lock_;
};

}  // namespace shoal

#endif  // SHOAL_DEPLOY_LAUNCH_HELD_RUN_DIRECTORY_H_

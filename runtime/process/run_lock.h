#ifndef SHOAL_RUNTIME_PROCESS_RUN_LOCK_H_
#define SHOAL_RUNTIME_PROCESS_RUN_LOCK_H_

#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "base/unique_fd.h"

namespace shoal {

// Locks a run's directory against a second run, until the lock is destroyed or the process ends.
// There are two locks: a launcher holds one all the time, also while its chief restarts; a chief,
// which may have no launcher, holds the other. The lock's file names the holder; it is empty if the
// lock is free, unless its last holder was killed.
class RunLock {
 public:
  enum class Holder { kLauncher, kChief };

  // Takes the lock of `out`, which must exist. Waits up to `patience` for a holder that is about to
  // end, and always for one that only looks whether the lock is free. Returns ALREADY_EXISTS, with
  // the holder, if the lock is held, UNAVAILABLE if the file system fails in a way that may pass
  // (passing_errors.h), RESOURCE_EXHAUSTED if the disk is full, and PERMISSION_DENIED after other
  // errors.
  static absl::StatusOr<RunLock> Acquire(const std::string& out, Holder holder,
                                         absl::Duration patience = absl::ZeroDuration());
  // The same, but creates no file. Returns NOT_FOUND if the directory does not exist or was never
  // locked.
  static absl::StatusOr<RunLock> AcquireIfExists(const std::string& out, Holder holder,
                                                 absl::Duration patience = absl::ZeroDuration());

  // Returns whether a process holds the lock now; true also if that cannot be seen. It writes
  // nothing. To look, it holds the lock itself for a moment, and Acquire waits for that.
  static bool IsHeld(const std::string& out, Holder holder);

  // Returns the time in the lock's file since which it is held, or nothing if its last holder has
  // released it or there was none. The holder may have been killed since. Returns an error, such as
  // UNAVAILABLE (passing_errors.h), if the file cannot be seen.
  static absl::StatusOr<std::optional<absl::Time>> HeldSince(const std::string& out, Holder holder);

  // Returns the holder that the lock's file names, "pid 12 on host"; empty if the file is empty.
  static std::string ReadHolder(const std::string& out, Holder holder);

  ~RunLock();
  RunLock(RunLock&& other) noexcept = default;
  RunLock& operator=(RunLock&& other) noexcept {
    std::swap(file_, other.file_);
    return *this;
  }

 private:
  static absl::StatusOr<RunLock> Take(const std::string& out, Holder holder,
                                      absl::Duration patience, int open_flags);
  explicit RunLock(UniqueFd file) : file_(std::move(file)) {}

  UniqueFd file_;
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_PROCESS_RUN_LOCK_H_

#ifndef SHOAL_RUNTIME_PROCESS_RUN_LOCK_H_
#define SHOAL_RUNTIME_PROCESS_RUN_LOCK_H_

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "base/unique_fd.h"

namespace shoal {

// Holds a run's directory against a second run, until it is destroyed or the process ends. There
// are two: a launcher holds one all the time, whatever becomes of its chief; a chief, which may
// have no launcher, holds the other.
class RunLock {
 public:
  enum class Holder { kLauncher, kChief };

  // `out` must exist. Waits for `patience` for a holder that is about to end. ALREADY_EXISTS: it is
  // in use. PERMISSION_DENIED.
  static absl::StatusOr<RunLock> Acquire(const std::string& out, Holder holder,
                                         absl::Duration patience = absl::ZeroDuration());
  // The same, but makes nothing. NOT_FOUND: nobody has ever held the directory, or there is none.
  static absl::StatusOr<RunLock> AcquireIfThere(const std::string& out, Holder holder,
                                                absl::Duration patience = absl::ZeroDuration());

 private:
  static absl::StatusOr<RunLock> Take(const std::string& out, Holder holder,
                                      absl::Duration patience, int open_flags);
  explicit RunLock(UniqueFd file) : file_(std::move(file)) {}

  UniqueFd file_;
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_PROCESS_RUN_LOCK_H_

#ifndef SHOAL_RUNTIME_PROCESS_RUN_LOCK_H_
#define SHOAL_RUNTIME_PROCESS_RUN_LOCK_H_

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"

#include "base/unique_fd.h"

namespace shoal {

// Holds a run's directory against a second run, until it is destroyed or the process ends. There
// are two: a launcher holds one all the time, whatever becomes of its chief; a chief, which may
// have no launcher, holds the other. Its file says who holds it; one that nobody holds is empty,
// unless its last holder was killed.
class RunLock {
 public:
  enum class Holder { kLauncher, kChief };

  // `out` must exist. Waits for `patience` for a holder that is about to end. ALREADY_EXISTS: it is
  // in use, by whom its file says. PERMISSION_DENIED.
  static absl::StatusOr<RunLock> Acquire(const std::string& out, Holder holder,
                                         absl::Duration patience = absl::ZeroDuration());
  // The same, but makes no file. NOT_FOUND: nobody has ever held the directory, or there is none.
  static absl::StatusOr<RunLock> AcquireIfThere(const std::string& out, Holder holder,
                                                absl::Duration patience = absl::ZeroDuration());

  // Since when it is held, as its file says: somebody may have held it then and been killed.
  static absl::optional<absl::Time> HeldSince(const std::string& out, Holder holder);

  // Returns the holder that the lock's file names: "pid 12 on host"; empty: no words there.
  static std::string HolderOf(const std::string& out, Holder holder);

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

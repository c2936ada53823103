#include "runtime/process/run_lock.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

#include "base/clock.h"

namespace shoal {

absl::StatusOr<RunLock> RunLock::Acquire(const std::string& out, Holder holder,
                                         absl::Duration patience) {
  return Take(out, holder, patience, O_RDWR | O_CREAT);
}

absl::StatusOr<RunLock> RunLock::AcquireIfThere(const std::string& out, Holder holder,
                                                absl::Duration patience) {
  return Take(out, holder, patience, O_RDWR);
}

absl::StatusOr<RunLock> RunLock::Take(const std::string& out, Holder holder,
                                      absl::Duration patience, int open_flags) {
  const std::string path = absl::StrCat(out, holder == Holder::kLauncher ? "/LOCK" : "/CHIEF_LOCK");
  UniqueFd file(open(path.c_str(), open_flags | O_CLOEXEC, 0644));
  if (!file.is_valid() && errno == ENOENT && (open_flags & O_CREAT) == 0) {
    return absl::NotFoundError(absl::StrCat(path, " is not there"));
  }
  if (!file.is_valid()) {
    return absl::PermissionDeniedError(absl::StrCat(path, ": ", std::strerror(errno)));
  }
  const RealClock clock;
  const absl::Time give_up = clock.Now() + patience;
  while (flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) {
      return absl::PermissionDeniedError(
          absl::StrCat(path, ": cannot be locked: ", std::strerror(errno)));
    }
    if (clock.Now() >= give_up) {
      return absl::AlreadyExistsError(absl::StrCat("--out: another run is using ", out,
                                                   "; wait for it or name another directory"));
    }
    absl::SleepFor(absl::Milliseconds(20));
  }
  return RunLock(std::move(file));
}

}  // namespace shoal

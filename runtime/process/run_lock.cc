#include "runtime/process/run_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

#include "base/clock.h"
#include "base/host_name.h"
#include "base/passing_errors.h"

namespace shoal {
namespace {

// A process that looks whether the lock is free (IsHeld) holds it for less than this.
constexpr absl::Duration kGlance = absl::Milliseconds(200);

std::string LockPath(const std::string& out, RunLock::Holder holder) {
  return absl::StrCat(out, holder == RunLock::Holder::kLauncher ? "/LOCK" : "/CHIEF_LOCK");
}

// Writes the holder to the lock's file. Errors are ignored, because the lock is valid without this
// text, for example if the disk is full.
void WriteHolder(int file) {
  const std::string words = absl::StrCat("pid ", getpid(), " on ", HostName(), "\n");
  if (ftruncate(file, 0) != 0 ||
      pwrite(file, words.data(), words.size(), 0) != static_cast<ssize_t>(words.size())) {
    std::perror("lock file");
  }
}

// Returns the error of a lock whose file cannot be opened or locked.
absl::Status Unusable(absl::string_view what, int error) {
  const absl::Status status = StatusOfErrno(error, what);
  if (absl::IsUnavailable(status) || absl::IsResourceExhausted(status)) return status;
  return absl::PermissionDeniedError(status.message());
}

}  // namespace

RunLock::~RunLock() {
  if (file_.is_valid() && ftruncate(file_.get(), 0) != 0) std::perror("lock file");
}

bool RunLock::IsHeld(const std::string& out, Holder holder) {
  const UniqueFd file(open(LockPath(out, holder).c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_valid()) return errno != ENOENT && errno != ENOTDIR;
  return flock(file.get(), LOCK_SH | LOCK_NB) != 0;
}

absl::StatusOr<std::optional<absl::Time>> RunLock::HeldSince(const std::string& out,
                                                             Holder holder) {
  const std::string path = LockPath(out, holder);
  struct stat info = {};
  if (stat(path.c_str(), &info) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) return std::nullopt;
    return StatusOfErrno(errno, path);
  }
  if (info.st_size == 0) return std::nullopt;
  return absl::TimeFromTimespec(info.st_mtim);
}

std::string RunLock::ReadHolder(const std::string& out, Holder holder) {
  const UniqueFd file(open(LockPath(out, holder).c_str(), O_RDONLY | O_CLOEXEC));
  char words[512];
  const ssize_t size = file.is_valid() ? read(file.get(), words, sizeof(words)) : 0;
  if (size <= 0) return "";
  return std::string(absl::StripAsciiWhitespace(absl::string_view(words, size)));
}

absl::StatusOr<RunLock> RunLock::Acquire(const std::string& out, Holder holder,
                                         absl::Duration patience) {
  return Take(out, holder, patience, O_RDWR | O_CREAT);
}

absl::StatusOr<RunLock> RunLock::AcquireIfExists(const std::string& out, Holder holder,
                                                 absl::Duration patience) {
  return Take(out, holder, patience, O_RDWR);
}

absl::StatusOr<RunLock> RunLock::Take(const std::string& out, Holder holder,
                                      absl::Duration patience, int open_flags) {
  const std::string path = LockPath(out, holder);
  UniqueFd file(open(path.c_str(), open_flags | O_CLOEXEC, 0644));
  if (!file.is_valid() && errno == ENOENT && (open_flags & O_CREAT) == 0) {
    return absl::NotFoundError(absl::StrCat(path, " is not there"));
  }
  if (!file.is_valid()) return Unusable(path, errno);
  const RealClock clock;
  const absl::Time give_up = clock.Now() + std::max(patience, kGlance);
  while (flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) {
      const int error = errno;
      return Unusable(absl::StrCat(path, ": cannot be locked"), error);
    }
    if (clock.Now() >= give_up) {
      const std::string who = ReadHolder(out, holder);
      return absl::AlreadyExistsError(
          absl::StrCat("--out: another run is using ", out, who.empty() ? "" : " (", who,
                       who.empty() ? "" : ")", "; wait for it or name another directory"));
    }
    absl::SleepFor(absl::Milliseconds(20));
  }
  WriteHolder(file.get());
  return RunLock(std::move(file));
}

}  // namespace shoal

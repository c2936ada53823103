#include "base/passing_errors.h"

#include <errno.h>
#include <netdb.h>

namespace shoal {

bool IsPassingError(int error) {
  switch (error) {
    case EIO:
    case EREMOTEIO:
    case ESTALE:
    // FUSE returns these two when its daemon is gone.
    case ENOTCONN:
    case ESHUTDOWN:
    case ENODEV:
    case ENXIO:
    case EMFILE:
    case ENFILE:
    case ENOBUFS:
    case ENOMEM:
      return true;
    default: {
      const absl::StatusCode code = absl::ErrnoToStatusCode(error);
      return code == absl::StatusCode::kUnavailable || code == absl::StatusCode::kDeadlineExceeded;
    }
  }
}

// After EAI_SYSTEM errno should have the reason, but glibc leaves 0 there if files are lacking.
bool IsPassingLookup(int result) {
  return result == EAI_AGAIN || result == EAI_MEMORY || result == EAI_SYSTEM;
}

absl::Status StatusOfErrno(int error, absl::string_view what) {
  const absl::Status status = absl::ErrnoToStatus(error, what);
  return IsPassingError(error) ? absl::UnavailableError(status.message()) : status;
}

}  // namespace shoal

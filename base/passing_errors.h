// Tells errors of the system that may pass by themselves from those that stay until somebody acts.
// A task that reports the first kind as UNAVAILABLE is repeated or restarted; an error of the
// second kind ends the run.
#ifndef SHOAL_BASE_PASSING_ERRORS_H_
#define SHOAL_BASE_PASSING_ERRORS_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace shoal {

// Returns whether a system call that left `error` in errno may succeed later: a file server, a
// mount or the network is away, or the process or the machine lacks memory or open files now.
bool IsPassingError(int error);

// Returns whether getaddrinfo, which returned `result`, may find the name later: the name server
// does not answer, or the system lacks memory or open files now.
bool IsPassingLookup(int result);

// Returns "WHAT: the error's text" for a system call that left `error` in errno: UNAVAILABLE if it
// may succeed later, otherwise with the code of absl::ErrnoToStatus.
absl::Status StatusOfErrno(int error, absl::string_view what);

}  // namespace shoal

#endif  // SHOAL_BASE_PASSING_ERRORS_H_

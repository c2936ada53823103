// (testonly) Replaces waitpid, so that a process seems to hang after SIGKILL, as one does in a call
// of a file system that cannot be interrupted.
#ifndef SHOAL_RUNTIME_PROCESS_WITHHELD_END_H_
#define SHOAL_RUNTIME_PROCESS_WITHHELD_END_H_

#include <sys/types.h>

namespace shoal {

// Makes waitpid report from now on that the child still runs. Only one child at a time can be such.
// Thread-safe.
void WithholdEndOf(pid_t child);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_PROCESS_WITHHELD_END_H_

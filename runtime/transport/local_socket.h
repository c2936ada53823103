// Unix sockets that keep messages apart, by abstract name: how processes on one host find each
// other.
#ifndef SHOAL_RUNTIME_TRANSPORT_LOCAL_SOCKET_H_
#define SHOAL_RUNTIME_TRANSPORT_LOCAL_SOCKET_H_

#include <sys/types.h>
#include <unistd.h>

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "base/unique_fd.h"

namespace shoal {

// ALREADY_EXISTS: somebody else has the name. Non-blocking.
absl::StatusOr<UniqueFd> ListenLocal(const std::string& name);
// An abstract name has no file mode: who is at the other end is what the kernel says (SO_PEERCRED).
// UNAVAILABLE: nobody listens, or somebody who is not `user`, or who has not taken those who came
// before for a second. Blocking.
absl::StatusOr<UniqueFd> ConnectLocal(const std::string& name, uid_t user = geteuid());
// The next connection of `user`; others are closed. Invalid if there is none now. Non-blocking.
// `exhausted`, unless null: one waits, but this process or the system is out of files or memory.
UniqueFd AcceptLocal(const UniqueFd& listener, uid_t user = geteuid(), bool* exhausted = nullptr);

// One message, with a file if `attached` is valid. Waits while the other side does not read.
absl::Status SendMessage(int fd, const void* data, size_t bytes, const UniqueFd& attached);
// One message without waiting. RESOURCE_EXHAUSTED: the other side does not read what it has.
absl::Status SendMessageNow(int fd, const void* data, size_t bytes);
// A message of exactly `bytes`, and the file that came with it, if any. UNAVAILABLE: the other side
// is gone. `empty`, unless null: there is no message now; without it the call waits for one.
absl::Status ReceiveMessage(int fd, void* data, size_t bytes, UniqueFd* attached,
                            bool* empty = nullptr);

// Whether there is something to read within `timeout`.
bool WaitReadable(int fd, absl::Duration timeout);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_TRANSPORT_LOCAL_SOCKET_H_

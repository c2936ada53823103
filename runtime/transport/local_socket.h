// Unix sockets with message boundaries and abstract names, by which processes on one host find each
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

// Listens at the name. Returns ALREADY_EXISTS if another process has it. The socket is
// non-blocking.
absl::StatusOr<UniqueFd> ListenLocal(const std::string& name);
// Connects to the name. Abstract names have no file mode, so the kernel is asked for the peer's
// user (SO_PEERCRED). Returns UNAVAILABLE if no process listens, if it runs as another user than
// `user`, or if it has not accepted earlier connections for a second. The socket is blocking.
absl::StatusOr<UniqueFd> ConnectLocal(const std::string& name, uid_t user = geteuid());
// Accepts the next connection of `user` and closes those of other users. The result is invalid if
// there is none now. The socket is non-blocking. Sets `*exhausted` (may be null) if a connection
// waits but this process or the system is out of files or memory.
UniqueFd AcceptLocal(const UniqueFd& listener, uid_t user = geteuid(), bool* exhausted = nullptr);

// Sends one message, with a file if `attached` is valid. Blocks while the peer does not read.
absl::Status SendMessage(int fd, const void* data, size_t bytes, const UniqueFd& attached);
// Sends one message without waiting. Returns RESOURCE_EXHAUSTED if the peer has not read earlier
// messages.
absl::Status SendMessageNow(int fd, const void* data, size_t bytes);
// Receives a message of exactly `bytes`, and the file that came with it, if any. Returns
// UNAVAILABLE if the peer has disconnected. If `empty` is not null, the call does not wait, and
// sets it if there is no message now.
absl::Status ReceiveMessage(int fd, void* data, size_t bytes, UniqueFd* attached,
                            bool* empty = nullptr);

// Returns whether there is something to read within `timeout`.
bool WaitReadable(int fd, absl::Duration timeout);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_TRANSPORT_LOCAL_SOCKET_H_

#include "runtime/transport/local_socket.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace shoal {
namespace {

absl::Status SystemError(const char* call) {
  return absl::UnavailableError(absl::StrCat("local socket: ", call, ": ", std::strerror(errno)));
}

constexpr time_t kConnectSeconds = 1;

// The longest time that connect and send block; 0: for ever.
bool SetSendTimeout(int fd, time_t seconds) {
  timeval timeout = {};
  timeout.tv_sec = seconds;
  return setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout)) == 0;
}

// An abstract address: a zero byte, then the name.
socklen_t FillAddress(const std::string& name, sockaddr_un* address) {
  *address = {};
  address->sun_family = AF_UNIX;
  const size_t bytes = std::min(name.size(), sizeof(address->sun_path) - 1);
  std::memcpy(address->sun_path + 1, name.data(), bytes);
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + bytes);
}

bool IsFrom(uid_t user, int fd) {
  ucred peer = {};
  socklen_t bytes = sizeof(peer);
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 && peer.uid == user;
}

}  // namespace

absl::StatusOr<UniqueFd> ListenLocal(const std::string& name) {
  UniqueFd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.is_valid()) return SystemError("socket");
  sockaddr_un address;
  const socklen_t bytes = FillAddress(name, &address);
  if (bind(fd.get(), reinterpret_cast<sockaddr*>(&address), bytes) != 0) {
    if (errno != EADDRINUSE) return SystemError("bind");
    return absl::AlreadyExistsError(absl::StrCat("local socket ", name, " has an owner"));
  }
  if (listen(fd.get(), 128) != 0) return SystemError("listen");
  return fd;
}

absl::StatusOr<UniqueFd> ConnectLocal(const std::string& name, uid_t user) {
  UniqueFd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!fd.is_valid()) return SystemError("socket");
  sockaddr_un address;
  const socklen_t bytes = FillAddress(name, &address);
  // A listener whose queue is full would block us.
  if (!SetSendTimeout(fd.get(), kConnectSeconds)) return SystemError("setsockopt");
  if (connect(fd.get(), reinterpret_cast<sockaddr*>(&address), bytes) != 0) {
    return SystemError("connect");
  }
  if (!SetSendTimeout(fd.get(), 0)) return SystemError("setsockopt");
  if (!IsFrom(user, fd.get())) return absl::UnavailableError("local socket: another user's");
  return fd;
}

UniqueFd AcceptLocal(const UniqueFd& listener, uid_t user, bool* exhausted) {
  UniqueFd fd(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (exhausted != nullptr) {
    *exhausted = !fd.is_valid() &&
                 (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM);
  }
  if (fd.is_valid() && !IsFrom(user, fd.get())) fd.Reset();
  return fd;
}

absl::Status SendMessage(int fd, const void* data, size_t bytes, const UniqueFd& attached) {
  iovec part = {const_cast<void*>(data), bytes};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  if (attached.is_valid()) {
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    cmsghdr* item = CMSG_FIRSTHDR(&message);
    item->cmsg_level = SOL_SOCKET;
    item->cmsg_type = SCM_RIGHTS;
    item->cmsg_len = CMSG_LEN(sizeof(int));
    const int file = attached.get();
    std::memcpy(CMSG_DATA(item), &file, sizeof(file));
  }
  ssize_t sent = 0;
  do {
    sent = sendmsg(fd, &message, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(bytes) ? absl::OkStatus() : SystemError("sendmsg");
}

absl::Status SendMessageNow(int fd, const void* data, size_t bytes) {
  ssize_t sent = 0;
  do {
    sent = send(fd, data, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  if (sent == static_cast<ssize_t>(bytes)) return absl::OkStatus();
  if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS)) {
    return absl::ResourceExhaustedError("local socket: the other side does not read");
  }
  return SystemError("send");
}

absl::Status ReceiveMessage(int fd, void* data, size_t bytes, UniqueFd* attached, bool* empty) {
  iovec part = {data, bytes};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  ssize_t got = 0;
  do {
    got = recvmsg(fd, &message, MSG_CMSG_CLOEXEC | (empty != nullptr ? MSG_DONTWAIT : 0));
  } while (got < 0 && errno == EINTR);
  if (empty != nullptr) {
    *empty = got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
    if (*empty) return absl::OkStatus();
  }
  const cmsghdr* item = CMSG_FIRSTHDR(&message);
  if (got >= 0 && item != nullptr && item->cmsg_type == SCM_RIGHTS) {
    int file = -1;
    std::memcpy(&file, CMSG_DATA(item), sizeof(file));
    UniqueFd received(file);
    if (attached != nullptr) *attached = std::move(received);
  }
  if (got == 0) return absl::UnavailableError("local socket: the other side is gone");
  if (got < 0) return SystemError("recvmsg");
  const bool is_whole = got == static_cast<ssize_t>(bytes) && (message.msg_flags & MSG_TRUNC) == 0;
  return is_whole ? absl::OkStatus() : absl::InvalidArgumentError("local socket: a wrong message");
}

bool WaitReadable(int fd, absl::Duration timeout) {
  pollfd poll_fd = {fd, POLLIN, 0};
  return poll(&poll_fd, 1, static_cast<int>(absl::ToInt64Milliseconds(timeout))) > 0;
}

}  // namespace shoal

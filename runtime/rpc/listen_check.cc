#include "runtime/rpc/listen_check.h"

#include <netdb.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"

#include "base/passing_errors.h"
#include "base/unique_fd.h"

namespace shoal {
namespace {

// 0, or what the system says.
int ListenOnce(const addrinfo& at) {
  const UniqueFd socket_fd(socket(at.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket_fd.is_valid()) return errno;
  const int one = 1;
  // Like gRPC: lingering connections of an earlier process are not an obstacle.
  setsockopt(socket_fd.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
  if (bind(socket_fd.get(), at.ai_addr, at.ai_addrlen) != 0) return errno;
  return listen(socket_fd.get(), 1) == 0 ? 0 : errno;
}

absl::Status CannotListen(const std::string& address, absl::string_view why, bool may_pass,
                          absl::string_view remedy) {
  const std::string text =
      absl::StrCat("--listen_address: cannot listen at ", address, ": ", why, "; ",
                   may_pass ? "this may pass, so try again, or " : "", remedy);
  return may_pass ? absl::UnavailableError(text) : absl::FailedPreconditionError(text);
}

}  // namespace

absl::Status CheckCanListen(const std::string& address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos || address.rfind("unix:", 0) == 0) return absl::OkStatus();
  std::string host = address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[') host = host.substr(1, host.size() - 2);
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int unknown = getaddrinfo(host.c_str(), address.c_str() + colon + 1, &hints, &found);
  if (unknown != 0) {
    return CannotListen(address, gai_strerror(unknown), IsPassingLookup(unknown),
                        "name an address of this machine");
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owned(found, &freeaddrinfo);
  int error = 0;
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    error = ListenOnce(*at);
    if (error == 0) return absl::OkStatus();
  }
  return CannotListen(address, std::strerror(error), IsPassingError(error),
                      error == EADDRINUSE ? "end the process that has the port or name another "
                                            "address (port 0: any free one)"
                                          : "name an address of this machine, with a port that "
                                            "this user may take");
}

}  // namespace shoal

#include "runtime/process/route.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstring>
#include <memory>
#include <thread>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/notification.h"
#include "base/unique_fd.h"
#include "runtime/cluster/address.h"
#include "runtime/process/shutdown.h"

namespace shoal {
namespace {

constexpr absl::Duration kPause = absl::Milliseconds(500);
constexpr absl::Duration kLookForShutdownEvery = absl::Milliseconds(100);
constexpr absl::Duration kLogWaitingAfter = absl::Seconds(1);
constexpr absl::Duration kLogWaitingEvery = absl::Seconds(5);
// An address that is reserved for documentation (RFC 5737), so its route is the default route.
constexpr char kAnywhere[] = "192.0.2.1:9";

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

absl::StatusOr<AddressList> LookUp(const std::string& address) {
  const std::string host = GetHost(address);
  const std::string port(GetPort(address));
  addrinfo hints = {};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), port.c_str(), &hints, &found);
  if (error == 0) return AddressList(found, &freeaddrinfo);
  return absl::UnavailableError(
      absl::StrCat("cannot look up \"", host, "\": ", gai_strerror(error)));
}

// Returns the source address of the route to `peer`, or "".
std::string FindSource(const addrinfo& peer) {
  const UniqueFd socket_fd(socket(peer.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (socket_fd.get() < 0 || connect(socket_fd.get(), peer.ai_addr, peer.ai_addrlen) != 0)
    return "";
  sockaddr_storage own = {};
  socklen_t size = sizeof(own);
  if (getsockname(socket_fd.get(), reinterpret_cast<sockaddr*>(&own), &size) != 0) return "";
  char text[INET6_ADDRSTRLEN] = "";
  if (own.ss_family == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in&>(own).sin_addr, text, sizeof(text));
    return text;
  }
  inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6&>(own).sin6_addr, text, sizeof(text));
  return absl::StrCat("[", text, "]");
}

// Runs LocalHostToward on a separate thread, because it takes some 40 s if the name service does
// not answer (resolv.conf(5)).
struct Attempt {
  Notification done;
  absl::StatusOr<std::string> host;  // Once done.
};

// The thread ends with its call, whether somebody still waits for it or not.
std::shared_ptr<Attempt> Begin(const std::string& address) {
  auto attempt = std::make_shared<Attempt>();
  std::thread([attempt, address] {
    attempt->host = LocalHostToward(address);
    attempt->done.Notify();
  }).detach();
  return attempt;
}

}  // namespace

absl::StatusOr<std::string> LocalHostToward(const std::string& address) {
  absl::StatusOr<AddressList> peers = LookUp(address);
  if (!peers.ok()) return peers.status();
  std::string source;
  for (const addrinfo* peer = peers->get(); peer != nullptr && source.empty();
       peer = peer->ai_next) {
    source = FindSource(*peer);
  }
  if (source.empty()) return absl::UnavailableError(absl::StrCat("there is no route to ", address));
  if (!IsLoopbackAddress(absl::StrCat(source, ":1")) || IsLoopbackAddress(address) ||
      address == kAnywhere) {
    return source;
  }
  // The peer's name is this machine's own, as 127.0.1.1 in Debian's /etc/hosts; others need more.
  absl::StatusOr<std::string> toward_all = LocalHostToward(kAnywhere);
  return toward_all.ok() ? *toward_all : source;
}

absl::StatusOr<std::string> AwaitLocalHostToward(const std::string& address,
                                                 absl::Duration patience, const Clock& clock,
                                                 ShutdownNotification* shutdown) {
  const absl::Time deadline = clock.Now() + patience;
  absl::Time next_log = clock.Now() + kLogWaitingAfter;
  std::shared_ptr<Attempt> attempt = Begin(address);
  std::string why =
      absl::StrCat("cannot look up \"", GetHost(address), "\": no name service answers");
  while (true) {
    const bool answered = attempt->done.WaitFor(kLookForShutdownEvery);
    if (answered && attempt->host.ok()) return attempt->host;
    if (answered) why = std::string(attempt->host.status().message());
    const absl::Time now = clock.Now();
    if (now >= deadline) {
      return absl::DeadlineExceededError(absl::StrCat("--chief_host: ", why, " for ",
                                                      absl::FormatDuration(patience),
                                                      "; correct the name, or start the chief"));
    }
    if (now >= next_log) {
      next_log = now + kLogWaitingEvery;
      LOG(WARNING) << "waiting for the chief's name: " << why;
    }
    if (answered ? shutdown->WaitFor(kPause) : shutdown->requested())
      return absl::CancelledError("stopped while waiting for the chief");
    if (answered) attempt = Begin(address);
  }
}

}  // namespace shoal

#include "runtime/process/recent_peers.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"

namespace shoal {
namespace {

constexpr size_t kMaxNamed = 3;

// During a handshake a side sends fewer bytes than this, even with a long chain of certificates.
constexpr uint64_t kHandshakeBytes = 32 << 10;

using GetName = int (*)(int, sockaddr*, socklen_t*);

// None: not an IP socket, or not connected.
std::optional<sockaddr_in6> GetAddress(GetName get_name, int fd) {
  sockaddr_in6 name = {};  // An IPv4 socket uses only the first part.
  socklen_t size = sizeof(name);
  if (get_name(fd, reinterpret_cast<sockaddr*>(&name), &size) != 0) return std::nullopt;
  if (name.sin6_family != AF_INET && name.sin6_family != AF_INET6) return std::nullopt;
  return name;
}

std::string ToText(const sockaddr_in6& name) {
  char text[INET6_ADDRSTRLEN] = {};
  const uint16_t port = ntohs(name.sin6_port);  // At the same place in both kinds.
  if (name.sin6_family == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in&>(name).sin_addr, text, sizeof(text));
    return absl::StrCat(text, ":", port);
  }
  if (IN6_IS_ADDR_V4MAPPED(&name.sin6_addr)) {
    inet_ntop(AF_INET, &name.sin6_addr.s6_addr[12], text, sizeof(text));
    return absl::StrCat(text, ":", port);
  }
  inet_ntop(AF_INET6, &name.sin6_addr, text, sizeof(text));
  return absl::StrCat("[", text, "]:", port);
}

std::vector<int> OpenFiles() {
  std::vector<int> files;
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(opendir("/proc/self/fd"), closedir);
  if (directory == nullptr) return files;
  while (const dirent* entry = readdir(directory.get())) {
    int fd = 0;
    if (absl::SimpleAtoi(entry->d_name, &fd)) files.push_back(fd);
  }
  return files;
}

bool Listens(int fd) {
  int listens = 0;
  socklen_t size = sizeof(listens);
  return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 && listens != 0;
}

struct Traffic {
  uint64_t bytes = 0;  // received so far; never 0
  absl::Duration since_last;
};

// Returns nothing if no data arrived or the kernel does not provide the time.
std::optional<Traffic> TrafficFrom(int fd) {
  tcp_info info = {};
  socklen_t size = sizeof(info);
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return std::nullopt;
  if (info.tcpi_bytes_received == 0) return std::nullopt;
  return Traffic{info.tcpi_bytes_received, absl::Milliseconds(info.tcpi_last_data_recv)};
}

std::string Ending(absl::string_view words, std::vector<std::string> peers) {
  if (peers.size() > kMaxNamed) peers.resize(kMaxNamed);
  return peers.empty() ? "" : absl::StrCat(", ", words, absl::StrJoin(peers, " or "));
}

}  // namespace

std::vector<std::string> RecentPeers(const PeersWanted& wanted) {
  const std::vector<int> files = OpenFiles();
  std::set<uint16_t> served;  // ports, in network order
  for (const int fd : files) {
    const std::optional<sockaddr_in6> own = GetAddress(getsockname, fd);
    if (own.has_value() && Listens(fd)) served.insert(own->sin6_port);
  }
  std::vector<std::pair<uint64_t, std::string>> found;
  for (const int fd : files) {
    const std::optional<sockaddr_in6> own = GetAddress(getsockname, fd);
    const std::optional<sockaddr_in6> peer = GetAddress(getpeername, fd);
    if (!own.has_value() || !peer.has_value()) continue;
    const bool accepted = served.count(own->sin6_port) > 0;
    const std::optional<Traffic> traffic = TrafficFrom(fd);
    if (!traffic.has_value() || (!accepted && !wanted.dialled)) continue;
    if (traffic->since_last > wanted.within || traffic->bytes > wanted.at_most_bytes) continue;
    found.emplace_back(traffic->bytes, absl::StrCat(accepted ? "from " : "to ", ToText(*peer)));
  }
  std::sort(found.begin(), found.end());
  std::vector<std::string> peers;
  for (const auto& [bytes, peer] : found) peers.push_back(peer);
  return peers;
}

std::string CameFrom(absl::Duration within) {
  PeersWanted wanted;
  wanted.within = within;
  return Ending("it came ", RecentPeers(wanted));
}

std::string WasWith(absl::Duration within) {
  PeersWanted wanted;
  wanted.within = within;
  wanted.at_most_bytes = kHandshakeBytes;
  wanted.dialled = true;
  return Ending("the connection is ", RecentPeers(wanted));
}

}  // namespace shoal

// Addresses of tasks: host:port, [v6]:port or unix:path.
#ifndef SHOAL_RUNTIME_CLUSTER_ADDRESS_H_
#define SHOAL_RUNTIME_CLUSTER_ADDRESS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace shoal {

// The use of an address. Port 0, "any free port", is for listening only.
enum class AddressUse : uint8_t {
  kCall,        // host:port, [v6]:port, unix:path
  kListen,      // the same, also with port 0
  kListenHttp,  // host:port or [v6]:port, also with port 0
};

// Checks that the text is an address for that use. The error names `field`.
absl::Status CheckAddress(absl::string_view field, absl::string_view address,
                          AddressUse use = AddressUse::kCall);

// Returns whether the address is a path of this machine: unix:path.
bool IsUnixAddress(absl::string_view address);

// Returns whether a server there listens at every address of its host (0.0.0.0, [::]). Such an
// address cannot be dialed.
bool IsWildcardAddress(absl::string_view address);

// Returns the address that other tasks dial to reach a server there: the address itself or, for a
// wildcard address, this host's name and the port.
std::string DialledAddress(const std::string& listens_at);

// Returns where a server listens so that other tasks reach it at `address` under any name of its
// host: every address of the host, with the same port. A loopback address stays as it is.
std::string EverywhereAt(const std::string& address);

// The host alone, as a resolver wants it: without the port and the brackets of IPv6.
std::string HostOf(absl::string_view address);

// The port's digits; "" for unix:path.
absl::string_view PortOf(absl::string_view address);

// The same host with another port; unix:path as it is.
std::string WithPort(absl::string_view address, const absl::AlphaNum& port);

// "host:port"; a host with colons, of IPv6, gets brackets.
std::string JoinHostPort(absl::string_view host, const absl::AlphaNum& port);

// host:port, [v6]:port or unix:path on this machine. Names other than localhost are not looked up
// and do not count.
bool IsLoopbackAddress(absl::string_view address);

// "a:1,b:2" -> {"a:1", "b:2"}, each one checked. Empty text gives an empty list.
absl::StatusOr<std::vector<std::string>> ParseHostList(absl::string_view field,
                                                       absl::string_view text);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_CLUSTER_ADDRESS_H_

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

// Returns whether the address stands for every address of its host (0.0.0.0, [::]). A server can
// listen at it, but clients cannot dial it.
bool IsWildcardAddress(absl::string_view address);

// Returns the address that other tasks dial to reach a server that listens at `listens_at`: the
// address itself or, for a wildcard address, this host's name and the port.
std::string DialledAddress(const std::string& listens_at);

// Returns the address at which a server must listen so that other tasks can reach it under any name
// of its host: the wildcard address with the port of `address`. Returns a loopback address
// unchanged.
std::string OnAllInterfaces(const std::string& address);

// Returns the host for a resolver, without the port and the brackets of IPv6.
std::string GetHost(absl::string_view address);

// Returns the digits of the port; "" for unix:path.
absl::string_view GetPort(absl::string_view address);

// Returns the same host with another port; returns unix:path unchanged.
std::string WithPort(absl::string_view address, const absl::AlphaNum& port);

// Returns "host:port". An IPv6 host, which contains colons, gets brackets.
std::string JoinHostPort(absl::string_view host, const absl::AlphaNum& port);

// Returns whether only this machine can reach the address: a loopback address or unix:path. Host
// names other than localhost are not looked up; for them it returns false.
bool IsLoopbackAddress(absl::string_view address);

// Parses "a:1,b:2" into {"a:1", "b:2"} and checks each address. Empty text gives an empty list.
absl::StatusOr<std::vector<std::string>> ParseHostList(absl::string_view field,
                                                       absl::string_view text);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_CLUSTER_ADDRESS_H_

#include "runtime/cluster/address.h"

#include <arpa/inet.h>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

#include "base/host_name.h"

namespace shoal {
namespace {

absl::Status CheckForm(absl::string_view address, AddressUse use) {
  const auto wrong = [](absl::string_view what) { return absl::InvalidArgumentError(what); };
  if (address.empty()) return wrong("is empty");
  if (address.find_first_of(" \t\r\n,\"") != absl::string_view::npos) {
    return wrong("contains a space, comma or quote");
  }
  if (IsUnixAddress(address)) {
    if (use == AddressUse::kListenHttp) return wrong("is a unix socket");
    return address.size() > 5 ? absl::OkStatus() : wrong("names no path");
  }
  const size_t colon = address.rfind(':');
  if (colon == absl::string_view::npos || colon + 1 == address.size()) return wrong("has no port");
  const absl::string_view host = address.substr(0, colon);
  if (host.empty()) return wrong("has no host");
  const bool bracketed = host.front() == '[' && host.back() == ']' && host.size() > 2;
  if (!bracketed && host.find_first_of("[]:") != absl::string_view::npos) {
    return wrong("has a host with colons that is not in brackets");
  }
  const bool is_called = use == AddressUse::kCall;
  int port = 0;
  if (!absl::SimpleAtoi(address.substr(colon + 1), &port) || port < 0 || port > 65535) {
    return wrong(is_called
                     ? "has a port that is not a number from 1 to 65535"
                     : "has a port that is not a number from 1 to 65535, or 0 for any free one");
  }
  if (port == 0 && is_called) return wrong("has port 0, which others cannot call");
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckAddress(absl::string_view field, absl::string_view address, AddressUse use) {
  const absl::Status form = CheckForm(address, use);
  if (form.ok()) return form;
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": \"", address, "\" ", form.message(),
                   use == AddressUse::kListenHttp ? "; write host:port or [v6]:port"
                                                  : "; write host:port, [v6]:port or unix:path"));
}

bool IsUnixAddress(absl::string_view address) { return absl::StartsWith(address, "unix:"); }

bool IsWildcardAddress(absl::string_view address) {
  const absl::string_view host = address.substr(0, address.rfind(':'));
  return host == "0.0.0.0" || host == "[::]" || host == "*";
}

std::string DialledAddress(const std::string& listens_at) {
  if (!IsWildcardAddress(listens_at)) return listens_at;
  const std::string name = HostName();
  return JoinHostPort(name.empty() ? "localhost" : name, GetPort(listens_at));
}

std::string OnAllInterfaces(const std::string& address) {
  return IsLoopbackAddress(address) ? address : JoinHostPort("0.0.0.0", GetPort(address));
}

std::string GetHost(absl::string_view address) {
  absl::string_view host = address.substr(0, address.rfind(':'));
  if (host.size() > 2 && host.front() == '[') host = host.substr(1, host.size() - 2);
  return std::string(host);
}

absl::string_view GetPort(absl::string_view address) {
  const size_t colon = address.rfind(':');
  if (colon == absl::string_view::npos || IsUnixAddress(address)) return "";
  return address.substr(colon + 1);
}

std::string WithPort(absl::string_view address, const absl::AlphaNum& port) {
  const size_t colon = address.rfind(':');
  if (colon == absl::string_view::npos || IsUnixAddress(address)) return std::string(address);
  return absl::StrCat(address.substr(0, colon), ":", port);
}

std::string JoinHostPort(absl::string_view host, const absl::AlphaNum& port) {
  const bool is_bare_v6 = absl::StrContains(host, ":") && host.front() != '[';
  return is_bare_v6 ? absl::StrCat("[", host, "]:", port) : absl::StrCat(host, ":", port);
}

bool IsLoopbackAddress(absl::string_view address) {
  if (IsUnixAddress(address)) return true;
  const size_t colon = address.rfind(':');
  const std::string host(address.substr(0, colon));
  if (host == "localhost" || host == "[::1]") return true;
  in_addr v4;
  return inet_pton(AF_INET, host.c_str(), &v4) == 1 && ntohl(v4.s_addr) >> 24 == 127;
}

absl::StatusOr<std::vector<std::string>> ParseHostList(absl::string_view field,
                                                       absl::string_view text) {
  std::vector<std::string> addresses;
  if (text.empty()) return addresses;
  for (const absl::string_view piece : absl::StrSplit(text, ',')) {
    const absl::string_view address = absl::StripAsciiWhitespace(piece);
    const absl::Status status = CheckAddress(field, address);
    if (!status.ok()) return status;
    addresses.emplace_back(address);
  }
  return addresses;
}

}  // namespace shoal

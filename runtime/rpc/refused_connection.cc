#include "runtime/rpc/refused_connection.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "runtime/transport/call_status.h"

namespace shoal {
namespace {

// Returns the text of a server's guard about a certificate, without the text of gRPC before it.
std::string WordsOfGuard(absl::string_view text) {
  const size_t begin = text.find("PERMISSION_DENIED: ");
  return std::string(begin == absl::string_view::npos ? text
                                                      : text.substr(text.find(": ", begin) + 2));
}

}  // namespace

RefusedConnection FindRefusal(const absl::Status& status, bool secure) {
  if (!absl::IsUnavailable(status)) return {};
  const absl::string_view text = status.message();
  if (secure && (absl::StrContains(text, "may not call") ||
                 absl::StrContains(text, "is not of this run's scope"))) {
    return {absl::StrCat("it refuses this side's --tls_cert: ", WordsOfGuard(text)), true};
  }
  if (absl::StrContains(text, "build both programs from the same sources")) {
    return {std::string(text), true};
  }
  if (CodeFromBetween(status) == absl::StatusCode::kUnimplemented) {
    return {
        "the server at this address does not know this call: it is another task or a proxy; "
        "correct the address",
        false};
  }
  if (secure && absl::StrContains(text, "certificate verify failed")) {
    return {
        "the certificate there is not trusted: it is of an authority that --tls_ca does not name, "
        "or it has expired; give both sides certificates of one authority",
        true};
  }
  if (secure && absl::StrContains(text, "wrong version number")) {
    return {
        "the server at this address does not use TLS; drop --tls_cert, --tls_key and --tls_ca, or "
        "start it with them",
        true};
  }
  if (absl::StrContains(text, "Failed parsing HTTP/2")) {
    return {"the server at this address is not a Shoal task; correct the address", true};
  }
  const size_t wanted = text.find("wanted spiffe://");
  if (secure && wanted != absl::string_view::npos) {
    return {"another task listens there: " + std::string(text.substr(wanted)), true};
  }
  // A handshake that the other side has ended, or a plaintext preface that it did not like; not a
  // call that broke.
  if (absl::StrContains(text, "failed to connect") &&
      (absl::StrContains(text, "Socket closed") || absl::StrContains(text, "Connection reset"))) {
    return {secure ? "it closes the connection: it may not trust this side's --tls_cert (another "
                     "authority, expired), its log says so then; give both sides certificates of "
                     "one authority"
                   : "it closes the connection: if the run uses TLS, give --tls_ca, --tls_cert and "
                     "--tls_key",
            false};
  }
  return {};
}

std::string DescribeFailure(const absl::Status& status, const std::string& address, bool secure) {
  const RefusedConnection refused = FindRefusal(status, secure);
  const std::string what = refused.why.empty()
                               ? status.ToString()
                               : absl::StrCat(refused.why, " (", ShortReason(status), ")");
  return address.empty() ? what : absl::StrCat(address, ": ", what);
}

std::string ShortReason(const absl::Status& status) {
  if (absl::IsDeadlineExceeded(status)) return "no answer in time";
  const absl::string_view text = status.message();
  // The texts that gRPC writes at the end of the description of its attempts.
  constexpr std::pair<const char*, const char*> kReasons[] = {
      {"Connection refused", "connection refused"},
      {"Connection reset", "connection reset"},
      {"Socket closed", "the connection was closed"},
      {"Failed parsing HTTP/2", "it does not speak HTTP/2"},
      {"No route to host", "no route to the host"},
      {"Network is unreachable", "the network is unreachable"},
      {"No such file or directory", "there is no such socket"},
      {"Name or service not known", "the host's name is not known"},
      {"DNS resolution failed", "the host's name is not known"},
      {"imed out", "no answer in time"},
      {"imeout", "no answer in time"}};
  for (const auto& [phrase, reason] : kReasons) {
    if (absl::StrContains(text, phrase)) return reason;
  }
  return std::string(text);
}

}  // namespace shoal

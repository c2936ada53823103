#ifndef SHOAL_RUNTIME_RPC_REFUSED_CONNECTION_H_
#define SHOAL_RUNTIME_RPC_REFUSED_CONNECTION_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace shoal {

// Explains why a connection or call fails although a process listens at the address. gRPC has no
// status codes for this, so these functions parse the message of an UNAVAILABLE status (gRPC 1.51,
// OpenSSL 3; call_status.h). A server of that version that does not trust its client's certificate
// closes the connection without a TLS alert, so the client cannot know the reason.
struct RefusedConnection {
  // The reason and the remedy; empty if the call was not refused: the peer may be absent.
  std::string why;
  // If true, the listener cannot be a peer with the current settings. Otherwise it may also be a
  // proxy whose peer is absent, or a peer that is ending.
  bool certain = false;
};

// Returns the reason of `status`. `secure` says whether this side has certificates.
RefusedConnection FindRefusal(const absl::Status& status, bool secure);

// Returns the text of a warning about a failed call to `address`: the refusal with its remedy,
// otherwise the error itself.
std::string DescribeFailure(const absl::Status& status, const std::string& address, bool secure);

// Returns the reason in a call's error in a few words, such as "connection refused", otherwise its
// message.
std::string ShortReason(const absl::Status& status);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_RPC_REFUSED_CONNECTION_H_

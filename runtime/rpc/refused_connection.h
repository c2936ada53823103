#ifndef SHOAL_RUNTIME_RPC_REFUSED_CONNECTION_H_
#define SHOAL_RUNTIME_RPC_REFUSED_CONNECTION_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace shoal {

// Why no connection comes about, or no call gets through, although somebody listens there. gRPC has
// no codes for it: this reads the message of an UNAVAILABLE (gRPC 1.51, OpenSSL 3; call_status.h).
// A server of that version that does not trust its client's certificate closes the connection
// without an alert of TLS: the client cannot know why.
struct RefusedConnection {
  std::string why;  // With the remedy; empty: nothing of the kind, the peer may be absent.
  // What listens there is known to be no peer of ours as things stand. Else it may also be a proxy
  // whose peer is absent, or a peer that ends.
  bool certain = false;
};

// `secure`: this side has certificates.
RefusedConnection FindRefusal(const absl::Status& status, bool secure);

// What a warning says of a call to `address` that has failed: the refusal with its remedy, else the
// error as it is.
std::string DescribeFailure(const absl::Status& status, const std::string& address, bool secure);

// What a call's error says of the peer, in a few words: "connection refused". Else its message.
std::string ReasonOf(const absl::Status& status);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_RPC_REFUSED_CONNECTION_H_

#ifndef SHOAL_RUNTIME_RPC_LISTEN_CHECK_H_
#define SHOAL_RUNTIME_RPC_LISTEN_CHECK_H_

#include <string>

#include "absl/status/status.h"

namespace shoal {

// Checks whether this process can listen at host:port or [v6]:port, by doing so for a moment,
// because gRPC reports the reason of a failure only in its own log. unix:path is not checked.
// FAILED_PRECONDITION names --listen_address, the reason and the remedy; UNAVAILABLE does if the
// reason may pass, for example if the name server does not answer. Another process may take the
// port right after the check.
absl::Status CheckCanListen(const std::string& address);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_RPC_LISTEN_CHECK_H_

#ifndef SHOAL_RUNTIME_RPC_LISTEN_CHECK_H_
#define SHOAL_RUNTIME_RPC_LISTEN_CHECK_H_

#include <string>

#include "absl/status/status.h"

namespace shoal {

// Whether this process can listen at host:port, [v6]:port or unix:path (which is not looked at), by
// doing so for a moment: gRPC only says so in its own log, at length. FAILED_PRECONDITION names
// --listen_address, why and what to do. Somebody else may take the port just after it.
absl::Status CheckCanListen(const std::string& address);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_RPC_LISTEN_CHECK_H_

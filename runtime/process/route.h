// Finds the address of this machine at which others reach it.
#ifndef SHOAL_RUNTIME_PROCESS_ROUTE_H_
#define SHOAL_RUNTIME_PROCESS_ROUTE_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace shoal {

class Clock;
class ShutdownNotification;

// Returns the local address, such as "10.0.0.5" or "[fd00::5]", from which packets to `address`
// (host:port) leave this machine. If the peer is this machine itself, returns its address toward
// other machines. Sends no packet. Returns UNAVAILABLE if the name is unknown (yet) or there is no
// route.
absl::StatusOr<std::string> LocalHostToward(const std::string& address);

// The same, but waits while the name is unknown or the name service does not answer, and logs that
// every few seconds. DEADLINE_EXCEEDED names the address; CANCELLED means that shutdown was
// requested.
absl::StatusOr<std::string> AwaitLocalHostToward(const std::string& address,
                                                 absl::Duration patience, const Clock& clock,
                                                 ShutdownNotification* shutdown);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_PROCESS_ROUTE_H_

// Finds the address of this machine at which others reach it.
#ifndef SHOAL_RUNTIME_PROCESS_ROUTE_H_
#define SHOAL_RUNTIME_PROCESS_ROUTE_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace shoal {

class Clock;
class ShutdownNotification;

// The address that packets to `address` (host:port) leave this machine from, as it stands in an
// address: "10.0.0.5", "[fd00::5]". Where the peer is this machine itself, its address toward
// everyone else. No packet is sent. UNAVAILABLE: the name is not known (yet), or there is no way.
absl::StatusOr<std::string> LocalHostToward(const std::string& address);

// The same, but waits for a name that is not known yet, or a name service that does not answer, and
// says so every few seconds. DEADLINE_EXCEEDED names it; CANCELLED: shutdown was requested.
absl::StatusOr<std::string> AwaitLocalHostToward(const std::string& address,
                                                 absl::Duration patience, const Clock& clock,
                                                 ShutdownNotification* shutdown);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_PROCESS_ROUTE_H_

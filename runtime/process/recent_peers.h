// Finds the addresses of peers for the log, because gRPC reports a refusal without the peer.
#ifndef SHOAL_RUNTIME_PROCESS_RECENT_PEERS_H_
#define SHOAL_RUNTIME_PROCESS_RECENT_PEERS_H_

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace shoal {

struct PeersWanted {
  absl::Duration within;  // They sent something within this,
  uint64_t at_most_bytes = std::numeric_limits<uint64_t>::max();  // and no more than this so far.
  bool dialled = false;  // Those that this process has dialled too, not only who dialled it.
};

// The other ends ("10.0.0.7:41234", "[fd00::7]:41234") of this process's TCP connections: "from"
// those that it accepted, "to" those that it dialled. Those first that have sent least so far,
// which newcomers have. Asks the kernel; empty where it does not tell.
//
// gRPC's TLS handshakes and what looks at a call before the services do not know their connection.
// Asked while the handshake fails or the call is looked at, the peer is among these.
std::vector<std::string> RecentPeers(const PeersWanted& wanted);

// To end a line with: "" or ", it came from 10.0.0.7:41234", "… from 10.0.0.7:41234 or from …", of
// a call that a server looks at;
std::string CameFrom(absl::Duration within = absl::Milliseconds(200));
// of a handshake on either side, which a connection begins with.
std::string WasWith(absl::Duration within = absl::Milliseconds(200));

}  // namespace shoal

#endif  // SHOAL_RUNTIME_PROCESS_RECENT_PEERS_H_

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
  absl::Duration within;  // They sent data within this time.
  // They have sent at most this much so far.
  uint64_t at_most_bytes = std::numeric_limits<uint64_t>::max();
  // Includes peers that this process has dialled.
  bool dialled = false;
};

// Returns the peers ("10.0.0.7:41234", "[fd00::7]:41234") of this process's TCP connections, with
// "from" before those that it accepted and "to" before those that it dialled. New connections come
// first: the order is by the number of bytes received. The data come from the kernel; the result is
// empty if it does not provide them.
//
// Code that runs during gRPC's TLS handshakes, or before a call reaches its service, does not know
// the connection. Called at that moment, this function returns the peer among others.
std::vector<std::string> RecentPeers(const PeersWanted& wanted);

// Returns the end of a log line about a call that a server is checking: "", ", it came from
// 10.0.0.7:41234" or "… from 10.0.0.7:41234 or from …".
std::string CameFrom(absl::Duration within = absl::Milliseconds(200));
// The same for a failed handshake, on the client's or the server's side.
std::string WasWith(absl::Duration within = absl::Milliseconds(200));

}  // namespace shoal

#endif  // SHOAL_RUNTIME_PROCESS_RECENT_PEERS_H_

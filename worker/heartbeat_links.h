#ifndef SHOAL_WORKER_HEARTBEAT_LINKS_H_
#define SHOAL_WORKER_HEARTBEAT_LINKS_H_

#include <vector>

#include "absl/time/time.h"

#include "runtime/exchange/remote_exchanges.h"
#include "runtime/rpc/chief_session.h"

namespace shoal {

// Adds the state of the worker's links to the ps (indexed by ps) to its heartbeats. Without `links`
// the heartbeats say nothing about links.
void AddLinks(const std::vector<RemoteExchanges::Link>& links, absl::Time now,
              ChiefSession::Activity* activity);

}  // namespace shoal

#endif  // SHOAL_WORKER_HEARTBEAT_LINKS_H_

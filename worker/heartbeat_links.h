#ifndef SHOAL_WORKER_HEARTBEAT_LINKS_H_
#define SHOAL_WORKER_HEARTBEAT_LINKS_H_

#include <vector>

#include "absl/time/time.h"

#include "runtime/exchange/remote_exchanges.h"
#include "runtime/rpc/chief_session.h"

namespace shoal {

// Adds the state of the worker's links to the ps (indexed by ps) to its heartbeats: the ps that
// have not answered for 3 s, and whether all ps have answered. If `links` is empty, as
// before the worker's first view, the heartbeats name no ps and report that not all have answered.
void AddLinks(const std::vector<RemoteExchanges::Link>& links, absl::Time now,
              ChiefSession::Activity* activity);

}  // namespace shoal

#endif  // SHOAL_WORKER_HEARTBEAT_LINKS_H_

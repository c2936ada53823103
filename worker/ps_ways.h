#ifndef SHOAL_WORKER_PS_WAYS_H_
#define SHOAL_WORKER_PS_WAYS_H_

#include <vector>

#include "absl/time/time.h"

#include "runtime/rpc/chief_session.h"
#include "runtime/rpc/remote_exchanges.h"

namespace shoal {

// Adds what the worker's heartbeats say of its ways to the ps, which are given by index; with none
// nothing is known.
void AddWays(const std::vector<RemoteExchanges::Way>& ways, absl::Time now,
             ChiefSession::Activity* activity);

}  // namespace shoal

#endif  // SHOAL_WORKER_PS_WAYS_H_

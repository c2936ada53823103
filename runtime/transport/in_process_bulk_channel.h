// The bulk path inside one process, for runs and tests whose ps, workers and chief are objects of
// one program.
#ifndef SHOAL_RUNTIME_TRANSPORT_IN_PROCESS_BULK_CHANNEL_H_
#define SHOAL_RUNTIME_TRANSPORT_IN_PROCESS_BULK_CHANNEL_H_

#include <memory>

#include "runtime/transport/bulk.h"

namespace shoal {

// Returns a channel that calls `service` directly, on the channel's own thread, which also delivers
// the replies in order. Requests and replies are read without copies. `service` must outlive the
// channel and answer all its calls, but may do so after the channel was destroyed.
std::unique_ptr<BulkChannel> NewInProcessBulkChannel(BulkService* service);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_TRANSPORT_IN_PROCESS_BULK_CHANNEL_H_

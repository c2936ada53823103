// The bulk path inside one process: for runs and tests whose ps, workers and chief are objects of
// one program.
#ifndef SHOAL_RUNTIME_TRANSPORT_IN_PROCESS_BULK_CHANNEL_H_
#define SHOAL_RUNTIME_TRANSPORT_IN_PROCESS_BULK_CHANNEL_H_

#include <memory>

#include "runtime/transport/bulk.h"

namespace shoal {

// Calls `service` directly, on one thread of the channel's own that also delivers the replies, in
// the order in which things happen. The service reads requests, and the client replies, in the
// memory where they are. `service` must outlive the channel and answer all its calls, but may do so
// after the channel is gone.
std::unique_ptr<BulkChannel> NewInProcessBulkChannel(BulkService* service);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_TRANSPORT_IN_PROCESS_BULK_CHANNEL_H_

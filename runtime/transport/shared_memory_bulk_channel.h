// The bulk path through memory that client and server share, client's side.
#ifndef SHOAL_RUNTIME_TRANSPORT_SHARED_MEMORY_BULK_CHANNEL_H_
#define SHOAL_RUNTIME_TRANSPORT_SHARED_MEMORY_BULK_CHANNEL_H_

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

#include "runtime/transport/bulk.h"

namespace shoal {

// Connects to the SharedMemoryBulkServer that stands beside the TCP server of this address.
// UNAVAILABLE: there is none, or it is another user's; use gRPC. Start copies the payloads, so they
// are free when it returns; replies come on the channel's own thread. Once the server is gone every
// call ends with UNAVAILABLE.
absl::StatusOr<std::unique_ptr<BulkChannel>> ConnectSharedMemory(const std::string& address,
                                                                 size_t max_payload_bytes);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_TRANSPORT_SHARED_MEMORY_BULK_CHANNEL_H_

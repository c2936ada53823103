// The client's side of the bulk path over shared memory.
#ifndef SHOAL_RUNTIME_TRANSPORT_SHARED_MEMORY_BULK_CHANNEL_H_
#define SHOAL_RUNTIME_TRANSPORT_SHARED_MEMORY_BULK_CHANNEL_H_

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

#include "runtime/transport/bulk.h"

namespace shoal {

// Connects to the SharedMemoryBulkServer beside the TCP server of this address. Returns UNAVAILABLE
// if there is none or it belongs to another user; use gRPC then. Start copies the payloads, so they
// may change when it returns. Replies are delivered on the channel's own thread. Once the server
// has ended, every call ends with UNAVAILABLE.
absl::StatusOr<std::unique_ptr<BulkChannel>> ConnectSharedMemory(const std::string& address,
                                                                 size_t max_payload_bytes);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_TRANSPORT_SHARED_MEMORY_BULK_CHANNEL_H_

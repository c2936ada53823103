// (testonly) A channel that misbehaves on command.
#ifndef SHOAL_RUNTIME_TRANSPORT_FAULTY_BULK_CHANNEL_H_
#define SHOAL_RUNTIME_TRANSPORT_FAULTY_BULK_CHANNEL_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "runtime/transport/bulk.h"

namespace shoal {

// The faults of the next calls; each number counts down to zero. Thread-safe.
struct BulkFaults {
  // The server serves the call, but the client receives UNAVAILABLE.
  std::atomic<int> drop_replies{0};
  // The server receives the call twice; the client receives the second reply.
  std::atomic<int> repeat_requests{0};
  std::atomic<int> corrupt_payloads{0};   // One bit of the request's first payload flips.
  std::atomic<int> truncate_payloads{0};  // The request's last byte is lost.
  std::atomic<int> corrupt_replies{0};    // One bit of the reply's payload flips.
  // Not a fault: the payload bytes of all requests so far.
  std::atomic<uint64_t> sent_bytes{0};
};

// Returns a channel whose Cancel has no effect; calls end by themselves. `faults` must outlive the
// channel.
std::unique_ptr<BulkChannel> NewFaultyBulkChannel(std::unique_ptr<BulkChannel> channel,
                                                  BulkFaults* faults);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_TRANSPORT_FAULTY_BULK_CHANNEL_H_

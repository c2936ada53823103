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

// What happens to the next calls; each counts down to zero. Thread-safe.
struct BulkFaults {
  std::atomic<int> drop_replies{0};     // The server serves the call, the client hears UNAVAILABLE.
  std::atomic<int> repeat_requests{0};  // The server sees the call twice; the second reply counts.
  std::atomic<int> corrupt_payloads{0};   // One bit of the request's first payload flips.
  std::atomic<int> truncate_payloads{0};  // The request's last byte is lost.
  std::atomic<int> corrupt_replies{0};    // One bit of the reply's payload flips.
  // No fault: the payload bytes of all requests so far.
  std::atomic<uint64_t> sent_bytes{0};
};

// Cancel does nothing: calls end by themselves. `faults` must outlive the channel.
std::unique_ptr<BulkChannel> NewFaultyBulkChannel(std::unique_ptr<BulkChannel> channel,
                                                  BulkFaults* faults);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_TRANSPORT_FAULTY_BULK_CHANNEL_H_

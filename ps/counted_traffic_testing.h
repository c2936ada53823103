// (testonly) Counts the bytes of the messages between a worker and ps tasks.
#ifndef SHOAL_PS_COUNTED_TRAFFIC_TESTING_H_
#define SHOAL_PS_COUNTED_TRAFFIC_TESTING_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "runtime/transport/bulk.h"

namespace shoal {

// The messages of all connections of a worker.
struct Traffic {
  std::atomic<uint64_t> bytes{0};  // headers and payloads
  std::atomic<uint64_t> calls{0};
  std::atomic<uint64_t> largest{0};  // payload of one direction
};

// A call whose messages are counted. Deletes itself with its end.
class CountedCall : public BulkCall {
 public:
  CountedCall(BulkCall* original, Traffic* traffic) : original_(original), traffic_(*traffic) {
    header = original->header;
    payloads = original->payloads;
    timeout = original->timeout;
    uint64_t payload_bytes = 0;
    for (const PayloadRef& payload : payloads) payload_bytes += payload.bytes;
    traffic_.calls += 1;
    Count(header.size(), payload_bytes);
  }

  void OnReply(const absl::Status& status, absl::string_view reply_header,
               PayloadReader* payload) override {
    Count(reply_header.size(), payload->remaining());
    original_->is_answered = is_answered;
    original_->OnReply(status, reply_header, payload);
    delete this;
  }

 private:
  void Count(uint64_t header_bytes, uint64_t payload_bytes) {
    traffic_.bytes += header_bytes + payload_bytes;
    uint64_t largest = traffic_.largest;
    while (largest < payload_bytes &&
           !traffic_.largest.compare_exchange_weak(largest, payload_bytes)) {
    }
  }

  BulkCall* const original_;
  Traffic& traffic_;
};

// Passes calls on and counts them. `traffic` is borrowed.
class CountingChannel : public BulkChannel {
 public:
  CountingChannel(std::unique_ptr<BulkChannel> channel, Traffic* traffic)
      : channel_(std::move(channel)), traffic_(traffic) {}
  void Start(BulkCall* call) override { channel_->Start(new CountedCall(call, traffic_)); }
  void Cancel(BulkCall* /*call*/) override {}  // Calls end by their deadlines.
  bool needs_checksums() const override { return channel_->needs_checksums(); }

 private:
  const std::unique_ptr<BulkChannel> channel_;
  Traffic* const traffic_;
};

}  // namespace shoal

#endif  // SHOAL_PS_COUNTED_TRAFFIC_TESTING_H_

// The bulk path's seam: one call carries a small header and payload bytes that stay in the memory
// where they are.
//
// A client fills a `BulkCall` and starts it on a `BulkChannel`; the server's `BulkService` receives
// it as a `ServedCall` and answers it at once or later, from any thread. The forms (gRPC, shared
// memory, in-process) differ in how bytes travel, never in what arrives: a call ends exactly once,
// with the reply or with a status. What header and payload mean is proto/v1/bulk.proto and not
// known here.
#ifndef SHOAL_RUNTIME_TRANSPORT_BULK_H_
#define SHOAL_RUNTIME_TRANSPORT_BULK_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

#include "runtime/transport/payload_reader.h"

namespace shoal {

// A header is refused above this, on both sides and before it is parsed.
inline constexpr size_t kMaxBulkHeaderBytes = 64 << 10;
// Limit for the payload of one message unless the owner of the run sets another: 4 MiB of slices.
inline constexpr size_t kDefaultMaxBulkPayloadBytes = 4 << 20;

// Bytes to send, where they are. The memory must not change until `release` was called (replies) or
// the call ended (requests).
struct PayloadRef {
  const void* data = nullptr;
  size_t bytes = 0;
  // Called exactly once, from any thread and never blocking, when the transport reads the memory no
  // more. May be null.
  void (*release)(void* owner) = nullptr;
  void* owner = nullptr;
};

// The client's side of one call. The caller owns it, fills it, and may use it again after
// `OnReply`, also inside it.
class BulkCall {
 public:
  BulkCall() = default;
  virtual ~BulkCall() = default;
  BulkCall(const BulkCall&) = delete;
  BulkCall& operator=(const BulkCall&) = delete;

  // Called exactly once for each Start, on a thread of the transport that must not be blocked. When
  // `status` is OK, `header` and `payload` are good until it returns. From here on the transport
  // does not touch the payloads. UNAVAILABLE, DEADLINE_EXCEEDED, CANCELLED: unknown whether the
  // server saw the call. DATA_LOSS: the header of the request or of the reply arrived damaged.
  // Other codes come from the service, but for RESOURCE_EXHAUSTED of a message above the limits.
  // See call_status.h.
  virtual void OnReply(const absl::Status& status, absl::string_view header,
                       PayloadReader* payload) = 0;

  std::string header;
  std::vector<PayloadRef> payloads;  // Their `release` is not used.
  absl::Duration timeout = absl::Seconds(5);

 private:
  friend class BulkChannel;
  void* in_flight_ = nullptr;  // The channel's own state of the call; guarded by the channel.
};

// A connection to one server. Thread-safe. Calls overtake each other.
class BulkChannel {
 public:
  BulkChannel() = default;
  // Cancels what is in flight and waits until every call has ended. Not from inside OnReply.
  virtual ~BulkChannel() = default;
  BulkChannel(const BulkChannel&) = delete;
  BulkChannel& operator=(const BulkChannel&) = delete;

  // Never calls OnReply before it returns to the caller's frame: the caller may hold locks.
  virtual void Start(BulkCall* call) = 0;

  // Makes `call` end soon, with CANCELLED unless a reply was faster. Nothing happens if it is not
  // in flight.
  virtual void Cancel(BulkCall* call) = 0;

  // Whether bytes can change on the way, so that payloads should carry checksums.
  virtual bool needs_checksums() const = 0;

 protected:
  static void*& in_flight(BulkCall* call) { return call->in_flight_; }
};

// The server's side of one call; owned by the transport. It must be answered exactly once; `Reply`
// ends the object.
class ServedCall {
 public:
  virtual ~ServedCall() = default;

  // Header and payload of the request; good only until BulkService::Exchange returns.
  virtual absl::string_view header() const = 0;
  virtual PayloadReader* payload() = 0;
  virtual bool needs_checksums() const = 0;

  // Fill these, then call Reply. Payloads are released by the transport, also when it could not
  // send them.
  std::string reply_header;
  std::vector<PayloadRef> reply_payloads;

  // Sends the reply (OK) or the error (reply_header and reply_payloads are then dropped).
  // Thread-safe against everything but itself. The caller may hold locks.
  virtual void Reply(const absl::Status& status) = 0;

 protected:
  // Releases the reply's payloads and empties both fields.
  void DropReply();
};

// What a server does with calls. Exchange is called by the transport's threads, several at a time.
class BulkService {
 public:
  virtual ~BulkService() = default;
  virtual void Exchange(ServedCall* call) = 0;
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_TRANSPORT_BULK_H_

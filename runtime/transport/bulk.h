// The interface of the bulk path. One call carries a small header and payload bytes, which are sent
// from the caller's memory without an extra copy.
//
// A client fills a `BulkCall` and starts it on a `BulkChannel`; the server's `BulkService` receives
// it as a `ServedCall` and answers it at once or later, from any thread. There are three
// implementations (gRPC, shared memory, in-process). In all of them a call ends exactly once, with
// the reply or with a status. proto/v1/bulk.proto defines the meaning of header and payload, which
// this folder does not know.
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

// The largest header. Both sides refuse a larger one before they parse it.
inline constexpr size_t kMaxBulkHeaderBytes = 64 << 10;
// The default limit for the payload of one message: 4 MiB of slices.
inline constexpr size_t kDefaultMaxBulkPayloadBytes = 4 << 20;

// A reference to bytes to send. The memory must not change until `release` was called (replies) or
// the call ended (requests).
struct PayloadRef {
  const void* data = nullptr;
  size_t bytes = 0;
  // Called exactly once, from any thread, when the transport does not read the memory any more.
  // Must not block. May be null.
  void (*release)(void* owner) = nullptr;
  void* owner = nullptr;
};

// The client's side of one call. The caller owns it, fills it, and may reuse it once `OnReply` has
// been called, also inside `OnReply`.
class BulkCall {
 public:
  BulkCall() = default;
  virtual ~BulkCall() = default;
  BulkCall(const BulkCall&) = delete;
  BulkCall& operator=(const BulkCall&) = delete;

  // Called exactly once for each Start, on a thread of the transport that must not be blocked. If
  // `status` is OK, `header` and `payload` are valid until OnReply returns. The transport does not
  // access the call's payloads any more. After UNAVAILABLE, DEADLINE_EXCEEDED and CANCELLED it is
  // unknown whether the server received the call. DATA_LOSS means that the header of the request or
  // of the reply arrived damaged. Other codes come from the service, except for RESOURCE_EXHAUSTED
  // if a message exceeds the limits. See call_status.h.
  virtual void OnReply(const absl::Status& status, absl::string_view header,
                       PayloadReader* payload) = 0;

  // Set before OnReply: whether the service has answered, with OK or an error. Otherwise the status
  // comes from the connection, or from something in between.
  bool is_answered = false;

  std::string header;
  std::vector<PayloadRef> payloads;  // Their `release` is not used.
  absl::Duration timeout = absl::Seconds(5);

 private:
  friend class BulkChannel;
  void* in_flight_ = nullptr;  // The channel's state of the call; guarded by the channel.
};

// A connection to one server. Calls may complete in another order than they were started.
// Thread-safe.
class BulkChannel {
 public:
  BulkChannel() = default;
  // Cancels all calls in flight and waits until they have ended. Must not be called inside OnReply.
  virtual ~BulkChannel() = default;
  BulkChannel(const BulkChannel&) = delete;
  BulkChannel& operator=(const BulkChannel&) = delete;

  // Starts the call. Never calls OnReply before it returns, so the caller may hold locks.
  virtual void Start(BulkCall* call) = 0;

  // Makes `call` end soon, with CANCELLED unless a reply was faster. Has no effect if the call is
  // not in flight.
  virtual void Cancel(BulkCall* call) = 0;

  // Returns whether bytes can be damaged in transit, so that payloads should carry checksums.
  virtual bool needs_checksums() const = 0;

 protected:
  static void*& in_flight(BulkCall* call) { return call->in_flight_; }
};

// The server's side of one call, owned by the transport. It must be answered exactly once; `Reply`
// destroys the object.
class ServedCall {
 public:
  virtual ~ServedCall() = default;

  // Header and payload of the request; valid only until BulkService::Exchange returns.
  virtual absl::string_view header() const = 0;
  virtual PayloadReader* payload() = 0;
  virtual bool needs_checksums() const = 0;

  // Fill in these, then call Reply. The transport releases the payloads, also if it could not send
  // them.
  std::string reply_header;
  std::vector<PayloadRef> reply_payloads;

  // Sends the reply (OK) or the error; with an error reply_header and reply_payloads are dropped.
  // The caller may hold locks. Any thread may call it, but only once.
  virtual void Reply(const absl::Status& status) = 0;

 protected:
  // Releases the reply's payloads and clears both fields.
  void DropReply();
};

// The server's handler of calls. The transport's threads call Exchange, several at a time.
class BulkService {
 public:
  virtual ~BulkService() = default;
  virtual void Exchange(ServedCall* call) = 0;
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_TRANSPORT_BULK_H_

// Blocking unary calls with deadlines that can be cancelled together, and a stub that makes such
// calls. For the .cc files of the gRPC clients only.
#ifndef SHOAL_RUNTIME_RPC_CONTROL_CALLS_H_
#define SHOAL_RUNTIME_RPC_CONTROL_CALLS_H_

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/support/status.h>

#include <memory>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

#include "base/mutex.h"
#include "runtime/rpc/control_timeout.h"
#include "runtime/transport/call_status.h"
#include "runtime/transport/peer_channel.h"

namespace shoal {

// Thread-safe.
class ControlCalls {
 public:
  // Makes one call. Only this function and the bulk channel create client contexts, so that every
  // call has a deadline.
  template <typename Stub, typename Request, typename Response>
  absl::Status Call(Stub* stub,
                    grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                    absl::Duration timeout, const Request& request, Response* response) {
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
    if (!Add(&context)) return absl::CancelledError("the client is closed");
    const grpc::Status status = (stub->*method)(&context, request, response);
    Remove(&context);
    return StatusOfCall(context, status);
  }

  // Ends calls under way and all later ones with CANCELLED.
  void Close() {
    MutexLock lock(&mutex_);
    closed_ = true;
    for (grpc::ClientContext* context : contexts_) context->TryCancel();
  }

 private:
  bool Add(grpc::ClientContext* context) {
    MutexLock lock(&mutex_);
    if (closed_) return false;
    contexts_.insert(context);
    return true;
  }
  void Remove(grpc::ClientContext* context) {
    MutexLock lock(&mutex_);
    contexts_.erase(context);
  }

  Mutex mutex_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  std::set<grpc::ClientContext*> contexts_ ABSL_GUARDED_BY(mutex_);
};

// The stub of a generated Service, for one of our client classes. Thread-safe.
template <typename Service>
class ControlStub {
 public:
  using Stub = typename Service::Stub;

  explicit ControlStub(std::unique_ptr<PeerChannel> peer) : peer_(std::move(peer)) {}

  template <typename Request, typename Response>
  absl::Status Call(grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                    absl::Duration timeout, const Request& request, Response* response) {
    const std::shared_ptr<Stub> stub = NewestStub();
    return calls_.Call(stub.get(), method, timeout, request, response);
  }
  template <typename Request, typename Response>
  absl::Status Call(grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                    const Request& request, Response* response) {
    return Call(method, kControlTimeout, request, response);
  }
  void Close() { calls_.Close(); }

 private:
  std::shared_ptr<Stub> NewestStub() {
    std::shared_ptr<grpc::Channel> channel = peer_->channel();
    MutexLock lock(&mutex_);
    if (channel != channel_) {
      stub_ = std::make_shared<Stub>(channel);
      channel_ = std::move(channel);
    }
    return stub_;
  }

  const std::unique_ptr<PeerChannel> peer_;
  ControlCalls calls_;
  Mutex mutex_;
  std::shared_ptr<grpc::Channel> channel_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<Stub> stub_ ABSL_GUARDED_BY(mutex_);  // the stub on `channel_`
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_RPC_CONTROL_CALLS_H_

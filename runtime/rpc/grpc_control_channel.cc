#include "runtime/rpc/grpc_control_channel.h"

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/impl/client_unary_call.h>
#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/impl/rpc_method.h>

#include <set>
#include <utility>

#include "absl/time/clock.h"

#include "base/mutex.h"
#include "runtime/transport/call_status.h"
#include "runtime/transport/peer_channel.h"

namespace shoal {
namespace {

class GrpcControlChannel : public ControlChannel {
 public:
  explicit GrpcControlChannel(std::unique_ptr<PeerChannel> peer) : peer_(std::move(peer)) {}

  // Only this function and the bulk channel create client contexts, so that every call has a
  // deadline.
  absl::Status Make(const ControlCall& call) override {
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + call.timeout));
    if (!Add(&context)) return absl::CancelledError("the client is closed");
    const std::shared_ptr<grpc::Channel> channel = peer_->channel();
    // The generated stubs make the same call.
    const grpc::internal::RpcMethod method(call.path.c_str(),
                                           grpc::internal::RpcMethod::NORMAL_RPC);
    const grpc::Status status = grpc::internal::BlockingUnaryCall<google::protobuf::MessageLite,
                                                                  google::protobuf::MessageLite>(
        channel.get(), method, &context, *call.request, call.response);
    Remove(&context);
    return StatusOfCall(context, status);
  }

  void Close() override {
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

  const std::unique_ptr<PeerChannel> peer_;
  Mutex mutex_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  std::set<grpc::ClientContext*> contexts_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

std::unique_ptr<ControlChannel> NewGrpcControlChannel(std::unique_ptr<PeerChannel> peer) {
  return std::make_unique<GrpcControlChannel>(std::move(peer));
}

}  // namespace shoal

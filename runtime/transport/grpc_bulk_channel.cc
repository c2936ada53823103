#include "runtime/transport/grpc_bulk_channel.h"

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/async_unary_call.h>

#include <atomic>
#include <optional>
#include <utility>

#include "base/mutex.h"
#include "runtime/transport/call_status.h"
#include "runtime/transport/completion_loop.h"
#include "runtime/transport/grpc_bulk_frame.h"
#include "runtime/transport/peer_channel.h"

namespace shoal {
namespace {

class GrpcBulkChannel;

// One call in flight. Kept by the channel for the next call.
class Attempt : public CompletionTag {
 public:
  explicit Attempt(GrpcBulkChannel* channel) : channel_(channel) {}

  void Start(BulkCall* call, grpc::GenericStub* stub, grpc::CompletionQueue* queue);
  // Called by the channel, with its lock held.
  void Cancel() {
    if (context_.has_value()) context_->TryCancel();
  }
  // Lets go of gRPC's call: a call that was cut short holds its payloads until then.
  void EndCall() {
    reader_.reset();
    context_.reset();
  }
  bool OnCompleted(bool ok) override;

  // Called by the channel: resets the state for the next call.
  void Prepare(absl::Duration timeout);

 private:
  static void PayloadReleased(void* attempt) {
    static_cast<Attempt*>(attempt)->payloads_held_.fetch_sub(1, std::memory_order_acq_rel);
  }
  void Deliver(BulkCall* call);

  GrpcBulkChannel* const channel_;
  Mutex starting_;
  BulkCall* call_ = nullptr;
  std::optional<grpc::ClientContext> context_;
  std::unique_ptr<grpc::ClientAsyncResponseReader<grpc::ByteBuffer>> reader_;
  std::vector<PayloadRef> payloads_;
  std::atomic<int> payloads_held_{0};  // The number of payloads that gRPC may still read.
  grpc::ByteBuffer reply_;
  grpc::Status status_;
  absl::Status result_;  // Converts status_, once the call has ended.
  bool is_answered_ = false;
  ReceivedFrame frame_;
};

class GrpcBulkChannel : public BulkChannel {
 public:
  GrpcBulkChannel(std::unique_ptr<PeerChannel> peer, grpc::CompletionQueue* queue)
      : peer_(std::move(peer)), queue_(queue) {}
  ~GrpcBulkChannel() override;

  void Start(BulkCall* call) override;
  void Cancel(BulkCall* call) override;
  bool needs_checksums() const override { return true; }

  // Called by Attempt: removes the call from the channel, before and after its OnReply.
  void BeforeReply(BulkCall* call, Attempt* attempt);
  void AfterReply(Attempt* attempt);

 private:
  const std::unique_ptr<PeerChannel> peer_;
  grpc::CompletionQueue* const queue_;

  Mutex mutex_;
  CondVar idle_;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::unique_ptr<Attempt>> attempts_ ABSL_GUARDED_BY(mutex_);
  std::vector<Attempt*> free_ ABSL_GUARDED_BY(mutex_);
};

void Attempt::Prepare(absl::Duration timeout) {
  context_.emplace();
  context_->set_deadline(absl::ToChronoTime(absl::Now() + timeout));
  status_ = grpc::Status();
}

void Attempt::Start(BulkCall* call, grpc::GenericStub* stub, grpc::CompletionQueue* queue) {
  MutexLock lock(&starting_);
  call_ = call;
  payloads_.clear();
  for (const PayloadRef& payload : call->payloads) {
    payloads_.push_back({payload.data, payload.bytes, &PayloadReleased, this});
  }
  payloads_held_.store(static_cast<int>(payloads_.size()), std::memory_order_release);
  reader_ =
      stub->PrepareUnaryCall(&*context_, kBulkMethod, MakeFrame(call->header, payloads_), queue);
  // Nothing of this object is touched once the operation has begun: the loop may be done with it.
  auto* reader = reader_.get();
  reader->StartCall();
  BeforeOperation();
  reader->Finish(&reply_, &status_, static_cast<CompletionTag*>(this));
}

bool Attempt::OnCompleted(bool /*ok*/) {
  // A call that fails at once ends while Start is still on its way out.
  { MutexLock lock(&starting_); }
  is_answered_ = context_.has_value() && IsAnswered(*context_, status_);
  if (context_.has_value()) result_ = StatusOfCall(*context_, status_);
  channel_->BeforeReply(call_, this);
  // Bytes of a call that was cut short may still be on their way into the socket.
  if (payloads_held_.load(std::memory_order_acquire) != 0) return false;
  Deliver(call_);
  frame_.Clear();
  channel_->AfterReply(this);
  return true;
}

void Attempt::Deliver(BulkCall* call) {
  absl::Status status = std::move(result_);
  if (status.ok()) status = frame_.Parse(&reply_);
  reply_.Clear();
  call->is_answered = is_answered_;
  call->OnReply(status, frame_.header(), frame_.payload());
}

GrpcBulkChannel::~GrpcBulkChannel() {
  MutexLock lock(&mutex_);
  closing_ = true;
  for (const auto& attempt : attempts_) attempt->Cancel();
  while (free_.size() < attempts_.size()) idle_.Wait(&mutex_);
}

void GrpcBulkChannel::Start(BulkCall* call) {
  Attempt* attempt = nullptr;
  {
    MutexLock lock(&mutex_);
    if (free_.empty()) {
      attempts_.push_back(std::make_unique<Attempt>(this));
      free_.reserve(attempts_.size());
      attempt = attempts_.back().get();
    } else {
      attempt = free_.back();
      free_.pop_back();
    }
    attempt->Prepare(call->timeout);
    in_flight(call) = attempt;
    if (closing_) attempt->Cancel();
  }
  grpc::GenericStub stub(peer_->channel());
  attempt->Start(call, &stub, queue_);
}

void GrpcBulkChannel::Cancel(BulkCall* call) {
  MutexLock lock(&mutex_);
  if (in_flight(call) != nullptr) static_cast<Attempt*>(in_flight(call))->Cancel();
}

void GrpcBulkChannel::BeforeReply(BulkCall* call, Attempt* attempt) {
  MutexLock lock(&mutex_);
  in_flight(call) = nullptr;
  attempt->EndCall();
}

void GrpcBulkChannel::AfterReply(Attempt* attempt) {
  MutexLock lock(&mutex_);
  free_.push_back(attempt);
  idle_.NotifyAll();
}

}  // namespace

GrpcBulkClient::GrpcBulkClient(absl::Duration spin)
    : loop_(std::make_unique<CompletionLoop>(std::make_unique<grpc::CompletionQueue>(), spin)) {}

GrpcBulkClient::~GrpcBulkClient() = default;

std::unique_ptr<BulkChannel> GrpcBulkClient::NewChannel(std::unique_ptr<PeerChannel> peer) {
  return std::make_unique<GrpcBulkChannel>(std::move(peer), loop_->queue());
}

}  // namespace shoal

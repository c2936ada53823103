#include "runtime/transport/grpc_bulk_server.h"

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/server_builder.h>

#include <optional>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "runtime/transport/call_status.h"
#include "runtime/transport/completion_loop.h"
#include "runtime/transport/grpc_bulk_frame.h"
#include "runtime/transport/status_conversion.h"

namespace shoal {
namespace {

// The number of requests that a queue accepts from the network before it processes the first one.
constexpr int kCallsAhead = 4;
// The number of unused calls to keep for later requests. More are deleted, so that the memory of a
// peak is freed.
constexpr size_t kKeptCalls = 256;

class Call;

// The state that the calls of one queue share. Its lock is held while a reply is written, so each
// queue has its own.
struct Shared {
  Shared(grpc::AsyncGenericService* generic, BulkService* service)
      : generic(generic), service(service) {}

  grpc::AsyncGenericService* const generic;
  BulkService* const service;

  Mutex mutex;
  bool stopped ABSL_GUARDED_BY(mutex) = false;
  std::vector<std::unique_ptr<Call>> calls ABSL_GUARDED_BY(mutex);
  std::vector<Call*> free ABSL_GUARDED_BY(mutex);
};

// One call, from waiting for a request to the end of the reply. The object is then reused.
class Call : public CompletionTag, public ServedCall {
 public:
  explicit Call(Shared* shared) : shared_(shared) {}

  // Creates or destroys a call; requires the lock.
  static Call* Add(Shared* shared) ABSL_EXCLUSIVE_LOCKS_REQUIRED(shared->mutex);
  static void Remove(Call* call) ABSL_EXCLUSIVE_LOCKS_REQUIRED(call->shared_->mutex);

  // The caller holds the lock of shared_.
  void Request(grpc::ServerCompletionQueue* queue);
  bool OnCompleted(bool ok) override;

  absl::string_view header() const override { return frame_.header(); }
  PayloadReader* payload() override { return frame_.payload(); }
  bool needs_checksums() const override { return true; }
  void Reply(const absl::Status& status) override;

 private:
  enum class Stage { kRequested, kReading, kServing, kReplying };

  void End(const absl::Status& status, bool of_service);
  void OnRequested();
  void OnRead();
  // This object may be gone afterwards.
  void Retire();

  Shared* const shared_;
  size_t index_ = 0;  // The call's place among those of `shared_`; requires the lock.
  grpc::ServerCompletionQueue* queue_ = nullptr;
  Stage stage_ = Stage::kRequested;
  std::optional<grpc::GenericServerContext> context_;
  std::optional<grpc::GenericServerAsyncReaderWriter> stream_;
  grpc::ByteBuffer request_;
  ReceivedFrame frame_;
};

// A call that waits for the next request.
void RequestNext(Shared* shared, grpc::ServerCompletionQueue* queue)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(shared->mutex) {
  if (shared->stopped) return;
  Call* call = nullptr;
  if (shared->free.empty()) {
    call = Call::Add(shared);
  } else {
    call = shared->free.back();
    shared->free.pop_back();
  }
  call->Request(queue);
}

Call* Call::Add(Shared* shared) {
  shared->calls.push_back(std::make_unique<Call>(shared));
  shared->calls.back()->index_ = shared->calls.size() - 1;
  return shared->calls.back().get();
}

void Call::Remove(Call* call) {
  std::vector<std::unique_ptr<Call>>& calls = call->shared_->calls;
  const size_t index = call->index_;
  std::swap(calls[index], calls.back());
  calls[index]->index_ = index;
  calls.pop_back();
}

void Call::Request(grpc::ServerCompletionQueue* queue) {
  queue_ = queue;
  stage_ = Stage::kRequested;
  context_.emplace();
  stream_.emplace(&*context_);
  BeforeOperation();
  shared_->generic->RequestCall(&*context_, &*stream_, queue_, queue_,
                                static_cast<CompletionTag*>(this));
}

bool Call::OnCompleted(bool ok) {
  if (!ok || stage_ == Stage::kReplying) {
    Retire();
  } else if (stage_ == Stage::kRequested) {
    OnRequested();
  } else {
    OnRead();
  }
  return true;
}

void Call::OnRequested() {
  MutexLock lock(&shared_->mutex);
  RequestNext(shared_, queue_);
  if (shared_->stopped) return;
  stage_ = Stage::kReading;
  BeforeOperation();
  stream_->Read(&request_, static_cast<CompletionTag*>(this));
}

void Call::OnRead() {
  stage_ = Stage::kServing;
  if (context_->method() != kBulkMethod) {
    End(absl::UnimplementedError("no such method"), /*of_service=*/false);
    return;
  }
  const absl::Status status = frame_.Parse(&request_);
  request_.Clear();
  if (!status.ok()) {
    // It was damaged on its way. This task has found that: the client counts it and repeats it.
    End(status, /*of_service=*/true);
    return;
  }
  shared_->service->Exchange(this);
  // The reply's completion comes to this thread, so the call cannot be in use again yet.
  frame_.Clear();
}

void Call::Reply(const absl::Status& status) { End(status, /*of_service=*/true); }

void Call::End(const absl::Status& status, bool of_service) {
  MutexLock lock(&shared_->mutex);
  if (shared_->stopped) {
    DropReply();
    return;
  }
  stage_ = Stage::kReplying;
  BeforeOperation();
  auto* tag = static_cast<CompletionTag*>(this);
  if (status.ok()) {
    const grpc::ByteBuffer frame = MakeFrame(reply_header, reply_payloads);
    reply_header.clear();
    reply_payloads.clear();
    stream_->WriteAndFinish(frame, grpc::WriteOptions(), grpc::Status::OK, tag);
  } else {
    DropReply();
    stream_->Finish(of_service ? MarkAnswer(&*context_, status) : ToGrpcStatus(status), tag);
  }
}

void Call::Retire() {
  // The thread that began the last operation is finished with the call once it has left the lock.
  { MutexLock lock(&shared_->mutex); }
  frame_.Clear();
  request_.Clear();
  // Reply may have started the last operation a moment ago and still be inside it, with the lock.
  MutexLock lock(&shared_->mutex);
  // gRPC's call keeps the payloads of a reply that was cut short.
  stream_.reset();
  context_.reset();
  if (shared_->free.size() < kKeptCalls) {
    shared_->free.push_back(this);
  } else {
    Remove(this);
  }
}

}  // namespace

class GrpcBulkServer::Core {
 public:
  Core(BulkService* service, const Options& options) : service_(service), options_(options) {}

  void AddTo(grpc::ServerBuilder* builder) {
    builder->RegisterAsyncGenericService(&generic_);
    for (int i = 0; i < options_.num_threads; ++i) {
      shared_.push_back(std::make_unique<Shared>(&generic_, service_));
      // Not a polling queue of the server's own services, hence `is_frequently_polled`.
      queues_.push_back(builder->AddCompletionQueue(true));
    }
  }

  void Start() {
    for (size_t i = 0; i < queues_.size(); ++i) {
      grpc::ServerCompletionQueue* server_queue = queues_[i].get();
      loops_.push_back(std::make_unique<CompletionLoop>(std::move(queues_[i]), options_.spin));
      Shared* const shared = shared_[i].get();
      MutexLock lock(&shared->mutex);
      for (int ahead = 0; ahead < kCallsAhead; ++ahead) RequestNext(shared, server_queue);
    }
    queues_.clear();
  }

  void Stop() {
    for (const auto& shared : shared_) {
      MutexLock lock(&shared->mutex);
      shared->stopped = true;
    }
    for (auto& loop : loops_) loop->Stop();
    Drain();
  }

 private:
  // A server that was built and never started still wants its queues shut down.
  void Drain() {
    for (auto& queue : queues_) {
      queue->Shutdown();
      void* tag = nullptr;
      bool ok = false;
      while (queue->Next(&tag, &ok)) {
      }
    }
    queues_.clear();
  }

  BulkService* const service_;
  const Options options_;
  grpc::AsyncGenericService generic_;
  std::vector<std::unique_ptr<Shared>> shared_;  // By queue.
  std::vector<std::unique_ptr<grpc::ServerCompletionQueue>> queues_;
  std::vector<std::unique_ptr<CompletionLoop>> loops_;
};

GrpcBulkServer::GrpcBulkServer(BulkService* service, const Options& options)
    : core_(std::make_unique<Core>(service, options)) {}

GrpcBulkServer::~GrpcBulkServer() { Stop(); }

void GrpcBulkServer::AddTo(grpc::ServerBuilder* builder) { core_->AddTo(builder); }

void GrpcBulkServer::Start() { core_->Start(); }

void GrpcBulkServer::Stop() { core_->Stop(); }

}  // namespace shoal

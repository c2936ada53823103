#include "runtime/transport/in_process_bulk_channel.h"

#include <algorithm>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"

namespace shoal {
namespace {

class LocalCall;

// The state that a channel and its calls share; the calls may outlive the channel.
struct Shared {
  Mutex mutex;
  CondVar changed;
  bool closing ABSL_GUARDED_BY(mutex) = false;
  // Those whose OnReply is still owed.
  std::vector<std::shared_ptr<LocalCall>> in_flight ABSL_GUARDED_BY(mutex);
};

class LocalCall : public ServedCall {
 public:
  LocalCall(BulkCall* call, std::shared_ptr<Shared> shared, absl::Time now)
      : shared_(std::move(shared)),
        call_(call),
        header_(call->header),
        deadline_(now + call->timeout) {
    for (const PayloadRef& payload : call->payloads) payload_.Append(payload.data, payload.bytes);
  }
  ~LocalCall() override { DropReply(); }

  absl::string_view header() const override { return header_; }
  PayloadReader* payload() override { return &payload_; }
  bool needs_checksums() const override { return false; }
  void Reply(const absl::Status& status) override;

  BulkCall* call() const { return call_; }
  absl::Time deadline() const { return deadline_; }

  // The functions down to Deliver require the lock. The next action for the call, if any:
  enum class Next { kNothing, kServe, kDeliver };
  Next NextAt(absl::Time now) const;
  void KeepUntilReply(std::shared_ptr<LocalCall> self) { self_ = std::move(self); }
  void EndAs(absl::Status status);
  // A call that the service never saw gets no Reply.
  void ForgetIfNotServed() {
    shared_->mutex.AssertHeld();
    if (!serving_) self_.reset();
  }
  void SetServing() {
    shared_->mutex.AssertHeld();
    serving_ = true;
  }

  // Called without the lock, after the call has left in_flight.
  void Deliver();

 private:
  const std::shared_ptr<Shared> shared_;
  BulkCall* const call_;
  const std::string header_;
  const absl::Time deadline_;
  PayloadReader payload_;
  std::shared_ptr<LocalCall> self_;  // Keeps the object until Reply.

  bool serving_ ABSL_GUARDED_BY(shared_->mutex) = false;
  // Ended by the reply, the deadline or Cancel.
  bool ended_ ABSL_GUARDED_BY(shared_->mutex) = false;
  bool is_answered_ = false;
  absl::Status status_;
};

void LocalCall::Reply(const absl::Status& status) {
  // Destroyed, perhaps with this object, after the lock is released.
  const std::shared_ptr<LocalCall> self = std::move(self_);
  if (!status.ok()) DropReply();
  MutexLock lock(&shared_->mutex);
  if (ended_) return;
  is_answered_ = true;
  EndAs(status);
  shared_->changed.NotifyAll();
}

LocalCall::Next LocalCall::NextAt(absl::Time now) const {
  shared_->mutex.AssertHeld();
  if (ended_ || now >= deadline_) return Next::kDeliver;
  return serving_ ? Next::kNothing : Next::kServe;
}

void LocalCall::EndAs(absl::Status status) {
  shared_->mutex.AssertHeld();
  if (ended_) return;
  ended_ = true;
  status_ = std::move(status);
}

void LocalCall::Deliver() {
  PayloadReader reader;
  call_->is_answered = is_answered_;
  if (status_.ok()) {
    for (const PayloadRef& payload : reply_payloads) reader.Append(payload.data, payload.bytes);
    call_->OnReply(status_, reply_header, &reader);
    DropReply();
  } else {
    // The service may be filling the reply at this moment.
    call_->OnReply(status_, {}, &reader);
  }
}

class InProcessBulkChannel : public BulkChannel {
 public:
  explicit InProcessBulkChannel(BulkService* service)
      : service_(service), shared_(std::make_shared<Shared>()), thread_([this] { Run(); }) {}

  ~InProcessBulkChannel() override {
    {
      MutexLock lock(&shared_->mutex);
      shared_->closing = true;
      shared_->changed.NotifyAll();
    }
    thread_.join();
  }

  void Start(BulkCall* call) override {
    auto local = std::make_shared<LocalCall>(call, shared_, clock_.Now());
    local->KeepUntilReply(local);
    MutexLock lock(&shared_->mutex);
    in_flight(call) = local.get();
    shared_->in_flight.push_back(std::move(local));
    shared_->changed.NotifyAll();
  }

  void Cancel(BulkCall* call) override {
    MutexLock lock(&shared_->mutex);
    auto* local = static_cast<LocalCall*>(in_flight(call));
    if (local == nullptr) return;
    local->EndAs(absl::CancelledError("cancelled by the caller"));
    shared_->changed.NotifyAll();
  }

  bool needs_checksums() const override { return false; }

 private:
  void Run();
  // The first call for which something is to be done, else null after a wait.
  std::shared_ptr<LocalCall> WaitForWork() ABSL_EXCLUSIVE_LOCKS_REQUIRED(shared_->mutex);
  void TakeOut(LocalCall* local) ABSL_EXCLUSIVE_LOCKS_REQUIRED(shared_->mutex);
  bool IsDone() ABSL_EXCLUSIVE_LOCKS_REQUIRED(shared_->mutex) {
    return shared_->closing && shared_->in_flight.empty();
  }

  BulkService* const service_;
  const RealClock clock_;
  const std::shared_ptr<Shared> shared_;
  std::thread thread_;
};

void InProcessBulkChannel::TakeOut(LocalCall* local) {
  auto& calls = shared_->in_flight;
  calls.erase(std::find_if(calls.begin(), calls.end(),
                           [local](const auto& one) { return one.get() == local; }));
  in_flight(local->call()) = nullptr;
}

std::shared_ptr<LocalCall> InProcessBulkChannel::WaitForWork() {
  const absl::Time now = clock_.Now();
  absl::Time next = now + absl::Hours(1);
  for (const auto& call : shared_->in_flight) {
    if (shared_->closing) call->EndAs(absl::CancelledError("the channel is closing"));
    if (call->NextAt(now) != LocalCall::Next::kNothing) return call;
    next = std::min(next, call->deadline());
  }
  if (!IsDone()) shared_->changed.WaitFor(&shared_->mutex, next - now);
  return nullptr;
}

void InProcessBulkChannel::Run() {
  shared_->mutex.Lock();
  while (!IsDone()) {
    const std::shared_ptr<LocalCall> local = WaitForWork();
    if (local == nullptr) continue;
    const bool serve = local->NextAt(clock_.Now()) == LocalCall::Next::kServe;
    if (serve) {
      local->SetServing();
    } else {
      local->EndAs(absl::DeadlineExceededError("no reply in time"));
      local->ForgetIfNotServed();
      TakeOut(local.get());
    }
    shared_->mutex.Unlock();
    if (serve) {
      service_->Exchange(local.get());
    } else {
      local->Deliver();
    }
    shared_->mutex.Lock();
  }
  shared_->mutex.Unlock();
}

}  // namespace

std::unique_ptr<BulkChannel> NewInProcessBulkChannel(BulkService* service) {
  return std::make_unique<InProcessBulkChannel>(service);
}

}  // namespace shoal

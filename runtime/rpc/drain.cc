#include "runtime/rpc/drain.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "base/mutex.h"
#include "proto/v1/chief_service.grpc.pb.h"
#include "runtime/process/shutdown.h"
#include "runtime/rpc/chief_client.h"
#include "runtime/transport/call_status.h"

namespace shoal {
namespace {

constexpr absl::Duration kPoll = absl::Milliseconds(100);
// The time without an answer after which the chief counts as lost, so that there will be no
// checkpoint.
constexpr absl::Duration kPatience = absl::Seconds(3);

}  // namespace

struct Drain::Request {
  Mutex mutex;
  CondVar changed;
  bool leave ABSL_GUARDED_BY(mutex) = false;
  bool closing ABSL_GUARDED_BY(mutex) = false;
};

Drain::Drain(ShutdownNotification* shutdown, ChiefClient* chief, const Clock* clock,
             absl::Duration limit, std::function<void()> leave)
    : chief_(chief),
      clock_(clock),
      leave_(std::move(leave)),
      limit_(limit),
      request_(std::make_shared<Request>()),
      thread_([this] { Run(); }) {
  shutdown->Subscribe([request = request_] {
    MutexLock lock(&request->mutex);
    request->leave = true;
    request->changed.NotifyAll();
  });
}

Drain::~Drain() {
  {
    MutexLock lock(&request_->mutex);
    request_->closing = true;
    request_->changed.NotifyAll();
  }
  thread_.join();
}

void Drain::Run() {
  {
    MutexLock lock(&request_->mutex);
    while (!request_->leave && !request_->closing) request_->changed.Wait(&request_->mutex);
    if (request_->closing) return;
  }
  AwaitCheckpoint();
  leave_();
}

bool Drain::Pause(absl::Time until) {
  MutexLock lock(&request_->mutex);
  while (!request_->closing && clock_->WaitUntil(until, &request_->mutex, &request_->changed)) {
  }
  return !request_->closing;
}

absl::Status Drain::Ask(absl::Time end, const std::function<absl::Status()>& call) {
  const absl::Time give_up = std::min(end, clock_->Now() + kPatience);
  absl::Status status = call();
  while (IsOutcomeUnknown(status) && clock_->Now() < give_up && Pause(clock_->Now() + kPoll)) {
    status = call();
  }
  return status;
}

void Drain::AwaitCheckpoint() {
  const absl::Time end = clock_->Now() + limit_;
  v1::GetRunStatusResponse run;
  const auto trains = [&] {
    const absl::Status status = Ask(end, [&] {
      return chief_->Call(&v1::ChiefService::Service::GetRunStatus, v1::GetRunStatusRequest(),
                          &run);
    });
    return status.ok() && (run.state().phase() == v1::RunState::PHASE_TRAINING ||
                           run.state().phase() == v1::RunState::PHASE_STOPPING);
  };
  if (!trains()) return;
  LOG(INFO) << "this task was asked to end; it takes part in a checkpoint first";
  v1::RequestStopResponse requested;
  const absl::Status status = Ask(end, [&] {
    return chief_->Call(&v1::ChiefService::Service::RequestStop, v1::RequestStopRequest(),
                        &requested);
  });
  if (!status.ok()) return;
  while (clock_->Now() < end) {
    if (!trains() || run.last_checkpoint_step() >= requested.version()) return;
    if (!Pause(clock_->Now() + kPoll)) return;
  }
  LOG(WARNING) << "no checkpoint became durable within " << limit_
               << " (cluster.grace_seconds); this task ends without it";
}

}  // namespace shoal

// What others ask the chief.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/types/optional.h"

#include "base/log.h"
#include "chief/chief.h"
#include "runtime/rpc/control_timeout.h"

namespace shoal {
namespace {

// How long a heartbeat or a question for a norm may wait here.
constexpr absl::Duration kLongestPark = absl::Seconds(1);

// How long a registration waits for a taken place: less than its caller does. It asks again.
constexpr absl::Duration kLongestRegistration = absl::Seconds(4);

// With what the network and a busy chief take.
static_assert(kLongestRegistration < kControlTimeout && kLongestPark < kControlTimeout,
              "who waits longer than its caller answers nobody");

}  // namespace

absl::StatusOr<v1::RegisterTaskResponse> Chief::RegisterWhenFree(
    const std::function<bool()>& is_gone, const v1::RegisterTaskRequest& request) {
  const TaskId task = TaskOf(request.identity().member());
  const absl::Status closed =
      absl::UnavailableError("the run is over and its chief ends; its directory says how it ended");
  if (registration_closed_) return closed;
  const absl::Time start = options_.clock->Now();
  const absl::Time until =
      start + std::min(kLongestRegistration, options_.session.lease + 2 * options_.tick);
  absl::StatusOr<v1::RegisterTaskResponse> answer = session_.Register(start, request);
  // Whoever holds the place may have died a moment ago. A heartbeat proves that it lives; its
  // lease, until it ends, lets it act.
  const absl::optional<absl::Time> heard = session_.LastHeard(task);
  while (absl::IsAlreadyExists(answer.status())) {
    const absl::Time now = options_.clock->Now();
    if (is_gone()) return absl::CancelledError("the caller waits no more");
    if (registration_closed_) return closed;
    if (session_.LastHeard(task) != heard) return session_.Register(now, request);
    if (closing_ || now >= until) break;
    options_.clock->WaitUntil(std::min(until, now + options_.tick), &mutex_, &changed_);
  }
  return answer;
}

absl::Status Chief::RegisterTask(const v1::RegisterTaskRequest& request,
                                 v1::RegisterTaskResponse* response) {
  return RegisterFor([] { return false; }, request, response);
}

absl::Status Chief::RegisterFor(const std::function<bool()>& is_gone,
                                const v1::RegisterTaskRequest& request,
                                v1::RegisterTaskResponse* response) {
  MutexLock lock(&mutex_);
  absl::StatusOr<v1::RegisterTaskResponse> answer = RegisterWhenFree(is_gone, request);
  poked_ = true;
  poke_.NotifyAll();
  changed_.NotifyAll();
  if (!answer.ok()) {
    LOG(WARNING) << "refused " << TaskOf(request.identity().member()).ToString() << ": "
                 << answer.status();
    return answer.status();
  }
  *response = *std::move(answer);
  const v1::Member& member = request.identity().member();
  if (member.job() == v1::JOB_WORKER) told_.erase(member.index());  // This life has not heard.
  LOG(INFO) << TaskOf(request.identity().member()).ToString() << " registered, pid "
            << request.process_id() << " on " << request.host()
            << (request.address().empty() ? "" : ", serves at ") << request.address();
  return absl::OkStatus();
}

absl::Status Chief::Heartbeat(const v1::HeartbeatRequest& request,
                              v1::HeartbeatResponse* response) {
  MutexLock lock(&mutex_);
  absl::Status status = session_.Heartbeat(options_.clock->Now(), request);
  if (!status.ok()) return status;
  const absl::Time until = options_.clock->Now() +
                           std::min(kLongestPark, absl::Milliseconds(request.wait_milliseconds()));
  while (session_.state().number() == request.known_state() && !closing_ && !Over()) {
    if (!options_.clock->WaitUntil(until, &mutex_, &changed_)) break;
  }
  if (session_.state().number() != request.known_state()) {
    *response->mutable_state() = session_.state();
    if (request.known_state() != 0) response->mutable_state()->clear_run();
  }
  const v1::Member& member = request.identity().member();
  if (Over() && member.job() == v1::JOB_WORKER) told_.insert(member.index());
  return absl::OkStatus();
}

absl::Status Chief::ReportSteps(const v1::ReportStepsRequest& request,
                                v1::ReportStepsResponse* /*response*/) {
  MutexLock lock(&mutex_);
  absl::Status status = session_.ReportSteps(options_.clock->Now(), request);
  poked_ = true;
  poke_.NotifyAll();
  return status;
}

absl::Status Chief::ReportShard(const v1::ReportShardRequest& request,
                                v1::ReportShardResponse* /*response*/) {
  MutexLock lock(&mutex_);
  absl::Status status = session_.ReportShard(options_.clock->Now(), request);
  poked_ = true;
  poke_.NotifyAll();
  return status;
}

absl::Status Chief::ReportEvaluation(const v1::ReportEvaluationRequest& request,
                                     v1::ReportEvaluationResponse* /*response*/) {
  MutexLock lock(&mutex_);
  return session_.ReportEvaluation(options_.clock->Now(), request);
}

absl::Status Chief::ReportBadBatch(const v1::ReportBadBatchRequest& request,
                                   v1::ReportBadBatchResponse* /*response*/) {
  MutexLock lock(&mutex_);
  absl::Status status = session_.ReportBadBatch(options_.clock->Now(), request);
  poked_ = true;
  poke_.NotifyAll();
  return status;
}

absl::Status Chief::LeaseBatches(const v1::LeaseBatchesRequest& request,
                                 v1::LeaseBatchesResponse* response) {
  MutexLock lock(&mutex_);
  absl::StatusOr<v1::LeaseBatchesResponse> answer =
      session_.LeaseBatches(options_.clock->Now(), request);
  if (!answer.ok()) return answer.status();
  *response = *std::move(answer);
  // Finished batches may make a cut due; asking for more changes nothing.
  if (request.finished_size() > 0) {
    poked_ = true;
    poke_.NotifyAll();
  }
  return absl::OkStatus();
}

absl::Status Chief::ReportNorms(const v1::ReportNormsRequest& request,
                                v1::ReportNormsResponse* response) {
  MutexLock lock(&mutex_);
  absl::Status status = session_.ReportNorms(options_.clock->Now(), request);
  if (!status.ok()) return status;
  changed_.NotifyAll();
  const absl::Time until = options_.clock->Now() + kLongestPark;
  while (true) {
    const std::optional<double> scale =
        session_.NormScale(request.identity().lineage(), request.step());
    if (scale.has_value()) {
      response->set_ready(true);
      response->set_scale(*scale);
      return absl::OkStatus();
    }
    if (closing_ || !options_.clock->WaitUntil(until, &mutex_, &changed_)) return absl::OkStatus();
  }
}

absl::Status Chief::RequestStop(const v1::RequestStopRequest& request,
                                v1::RequestStopResponse* response) {
  MutexLock lock(&mutex_);
  absl::StatusOr<uint64_t> version = session_.RequestStop(options_.clock->Now(), request);
  poked_ = true;
  poke_.NotifyAll();
  changed_.NotifyAll();
  if (!version.ok()) return version.status();
  response->set_version(*version);
  return absl::OkStatus();
}

void Chief::OnDisconnect(const v1::Identity& member) {
  MutexLock lock(&mutex_);
  session_.Disconnect(options_.clock->Now(), member);
}

absl::Status Chief::GetRunStatus(const v1::GetRunStatusRequest& /*request*/,
                                 v1::GetRunStatusResponse* response) {
  {
    MutexLock lock(&mutex_);
    *response = session_.Status(options_.clock->Now());
  }
  options_.recorder->Describe(response);
  return absl::OkStatus();
}

}  // namespace shoal

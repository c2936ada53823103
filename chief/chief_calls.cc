// The calls of other tasks to the chief.
#include <algorithm>
#include <optional>
#include <utility>

#include "chief/chief.h"

namespace shoal {

template <typename Call, typename Response>
absl::Status Chief::Await(Call* call, Response* response) {
  while (true) {
    std::optional<absl::StatusOr<Response>> answer = call->Poll(options_.clock->Now());
    if (!answer.has_value()) {
      options_.clock->WaitUntil(call->wake(), &mutex_, &changed_);
      continue;
    }
    if (!answer->ok()) return answer->status();
    *response = **std::move(answer);
    return absl::OkStatus();
  }
}

absl::Status Chief::RegisterFor(const std::function<bool()>& is_gone,
                                const v1::RegisterTaskRequest& request,
                                v1::RegisterTaskResponse* response) {
  MutexLock lock(&mutex_);
  ChiefLogic::Registration registration(&logic_, request, is_gone);
  const absl::Status status = Await(&registration, response);
  PokeAll();
  return status;
}

absl::Status Chief::Heartbeat(const v1::HeartbeatRequest& request,
                              v1::HeartbeatResponse* response) {
  MutexLock lock(&mutex_);
  ChiefLogic::Heartbeat heartbeat(&logic_, request);
  return Await(&heartbeat, response);
}

absl::Status Chief::ReportSteps(const v1::ReportStepsRequest& request,
                                v1::ReportStepsResponse* response) {
  MutexLock lock(&mutex_);
  absl::StatusOr<v1::ReportStepsResponse> answer =
      logic_.ReportSteps(options_.clock->Now(), request);
  Poke();
  if (!answer.ok()) return answer.status();
  *response = *std::move(answer);
  return absl::OkStatus();
}

absl::Status Chief::ReportShard(const v1::ReportShardRequest& request,
                                v1::ReportShardResponse* response) {
  MutexLock lock(&mutex_);
  absl::StatusOr<v1::ReportShardResponse> answer =
      logic_.ReportShard(options_.clock->Now(), request);
  Poke();
  if (!answer.ok()) return answer.status();
  *response = *std::move(answer);
  return absl::OkStatus();
}

absl::Status Chief::ReportEvaluation(const v1::ReportEvaluationRequest& request,
                                     v1::ReportEvaluationResponse* /*response*/) {
  MutexLock lock(&mutex_);
  return logic_.ReportEvaluation(options_.clock->Now(), request);
}

absl::Status Chief::ReportBadBatch(const v1::ReportBadBatchRequest& request,
                                   v1::ReportBadBatchResponse* /*response*/) {
  MutexLock lock(&mutex_);
  absl::Status status = logic_.ReportBadBatch(options_.clock->Now(), request);
  Poke();
  return status;
}

absl::Status Chief::LeaseBatches(const v1::LeaseBatchesRequest& request,
                                 v1::LeaseBatchesResponse* response) {
  MutexLock lock(&mutex_);
  absl::StatusOr<v1::LeaseBatchesResponse> answer =
      logic_.LeaseBatches(options_.clock->Now(), request);
  if (!answer.ok()) return answer.status();
  *response = *std::move(answer);
  // Finished batches may make a cut due; asking for more changes nothing.
  if (request.finished_size() > 0) Poke();
  return absl::OkStatus();
}

absl::Status Chief::ReportNorms(const v1::ReportNormsRequest& request,
                                v1::ReportNormsResponse* response) {
  MutexLock lock(&mutex_);
  ChiefLogic::NormsReport report(&logic_, request);
  // The norms may be all that others wait for.
  changed_.NotifyAll();
  return Await(&report, response);
}

absl::Status Chief::RequestStop(const v1::RequestStopRequest& request,
                                v1::RequestStopResponse* response) {
  MutexLock lock(&mutex_);
  absl::StatusOr<uint64_t> version = logic_.RequestStop(options_.clock->Now(), request);
  PokeAll();
  if (!version.ok()) return version.status();
  response->set_version(*version);
  return absl::OkStatus();
}

void Chief::OnDisconnect(const v1::Identity& member) {
  MutexLock lock(&mutex_);
  logic_.Disconnect(options_.clock->Now(), member);
}

absl::Status Chief::GetRunStatus(const v1::GetRunStatusRequest& /*request*/,
                                 v1::GetRunStatusResponse* response) {
  {
    MutexLock lock(&mutex_);
    *response = logic_.Status(options_.clock->Now());
  }
  options_.recorder->Describe(response);
  return absl::OkStatus();
}

}  // namespace shoal

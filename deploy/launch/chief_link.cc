#include "deploy/launch/chief_link.h"

#include <algorithm>
#include <utility>

#include "absl/time/time.h"

#include "proto/v1/chief_service.grpc.pb.h"
#include "runtime/transport/call_status.h"

namespace shoal {
namespace {

constexpr absl::Duration kPeriod = absl::Milliseconds(200);
// The period while the run ends, because the chief's last answer has the result of the run.
constexpr absl::Duration kPeriodAtTheEnd = absl::Milliseconds(20);

}  // namespace

ChiefLink::ChiefLink(std::unique_ptr<ChiefClient> client)
    : client_(std::move(client)), thread_([this] { Loop(); }) {}

ChiefLink::~ChiefLink() {
  {
    MutexLock lock(&mutex_);
    closing_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
}

std::optional<v1::GetRunStatusResponse> ChiefLink::status() const {
  MutexLock lock(&mutex_);
  return status_;
}

void ChiefLink::RequestCheckpoint(End end, const std::string& reason) {
  v1::RequestStopRequest request;
  request.set_stop(end != End::kNone);
  request.set_no_more_steps(end == End::kWithoutSteps);
  request.set_reason(reason);
  MutexLock lock(&mutex_);
  stops_.push_back(std::move(request));
  changed_.NotifyAll();
}

void ChiefLink::ReportCrash(TaskId worker, const std::optional<MarkedBatch>& batch,
                            const std::string& detail) {
  if (!batch.has_value()) return;  // it died of something else
  v1::ReportBadBatchRequest request;
  request.set_reason(v1::ReportBadBatchRequest::REASON_CRASH);
  request.set_detail(detail);
  *request.mutable_died() = ToProto(worker);
  *request.mutable_batch() = ToProto(batch->batch);
  request.mutable_identity()->set_incarnation(batch->incarnation);
  MutexLock lock(&mutex_);
  crashes_.push_back(std::move(request));
  changed_.NotifyAll();
}

void ChiefLink::Loop() {
  while (true) {
    Poll();
    SendRequests();
    MutexLock lock(&mutex_);
    if (closing_) return;
    const bool ends =
        status_.has_value() && status_->state().phase() >= v1::RunState::PHASE_STOPPING;
    changed_.WaitFor(&mutex_, ends ? kPeriodAtTheEnd : kPeriod);
    if (closing_) return;
  }
}

uint64_t ChiefLink::ListedIncarnation(TaskId task) const {
  const std::optional<v1::GetRunStatusResponse> newest = status();
  if (!newest.has_value()) return 0;
  for (const v1::GetRunStatusResponse::Task& listed : newest->tasks()) {
    if (ToTaskId(listed.member()) == task) return listed.incarnation();
  }
  return 0;
}

bool ChiefLink::IsOutOfRun(TaskId worker) const {
  const std::optional<v1::GetRunStatusResponse> newest = status();
  if (!newest.has_value() || newest->tasks().empty()) return false;
  return std::none_of(newest->tasks().begin(), newest->tasks().end(),
                      [&](const auto& task) { return ToTaskId(task.member()) == worker; });
}

void ChiefLink::Poll() {
  v1::GetRunStatusResponse response;
  if (!client_->Call(&v1::ChiefService::Service::GetRunStatus, v1::GetRunStatusRequest(), &response)
           .ok())
    return;
  MutexLock lock(&mutex_);
  status_ = std::move(response);
}

void ChiefLink::SendRequests() {
  std::vector<v1::RequestStopRequest> stops;
  std::vector<v1::ReportBadBatchRequest> crashes;
  {
    MutexLock lock(&mutex_);
    stops.swap(stops_);
    crashes.swap(crashes_);
  }
  for (v1::RequestStopRequest& request : stops) {
    v1::RequestStopResponse response;
    const absl::Status status =
        client_->Call(&v1::ChiefService::Service::RequestStop, request, &response);
    MutexLock lock(&mutex_);
    if (IsOutcomeUnknown(status)) stops_.push_back(std::move(request));
  }
  for (v1::ReportBadBatchRequest& request : crashes) {
    v1::ReportBadBatchResponse response;
    const absl::Status status =
        client_->Call(&v1::ChiefService::Service::ReportBadBatch, request, &response);
    MutexLock lock(&mutex_);
    if (IsOutcomeUnknown(status)) crashes_.push_back(std::move(request));
  }
}

}  // namespace shoal

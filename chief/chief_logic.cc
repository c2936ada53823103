#include "chief/chief_logic.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/log.h"
#include "base/status_macros.h"
#include "runtime/rpc/control_timeout.h"
#include "runtime/rpc/norms_call.h"
#include "runtime/rpc/refused_connection.h"
#include "runtime/rpc/retry.h"

namespace shoal {
namespace {

// The longest time that a heartbeat or a report of norms waits here.
constexpr absl::Duration kLongestPark = absl::Seconds(1);

// The longest time that a registration waits for a taken place. The caller waits longer, and then
// calls again.
constexpr absl::Duration kLongestRegistration = absl::Seconds(4);

// The call times out only after that, so the network and a busy chief have time left.
static_assert(kLongestRegistration < kControlTimeout && kLongestPark < kControlTimeout,
              "the chief must answer before the caller gives up");

// The longest time between two calls while the chief's process runs, because it checks its session
// often; at most half of a lease.
constexpr absl::Duration kLongestGap = absl::Seconds(2);

// The longest time after the end in which a ps acknowledges it.
constexpr absl::Duration kFinishWait = absl::Seconds(10);

}  // namespace

ChiefLogic::ChiefLogic(Options options)
    : options_(std::move(options)),
      longest_gap_(std::min(kLongestGap, options_.session.lease / 2)),
      session_(options_.session) {}

absl::Time ChiefLogic::At(absl::Time now) {
  const absl::Duration gap = now - last_call_;
  last_call_ = now;
  if (gap > longest_gap_) {
    stood_still_ += gap;
    session_.OnPause(now - stood_still_, gap);
  }
  return now - stood_still_;
}

// Calls that may wait.

std::optional<absl::StatusOr<v1::RegisterTaskResponse>> ChiefLogic::Registration::Poll(
    absl::Time now) {
  TrainingSession& session = logic_->session_;
  const absl::Time session_now = logic_->At(now);
  if (logic_->registration_closed_) {
    return Finish(absl::UnavailableError(
        "the run is over and its chief ends; its directory says how it ended"));
  }
  const TaskId task = ToTaskId(request_.identity().member());
  if (!has_asked_) {
    has_asked_ = true;
    until_ = now + std::min(kLongestRegistration,
                            logic_->options_.session.lease + 2 * logic_->options_.tick);
    absl::StatusOr<v1::RegisterTaskResponse> answer = session.Register(session_now, request_);
    if (!absl::IsAlreadyExists(answer.status())) return Finish(std::move(answer));
    // The holder of the place may have died a moment ago. A heartbeat proves that it lives; its
    // lease, until it ends, lets it act.
    taken_ = answer.status();
    holder_ = session.LastContact(task);
  }
  if (is_gone_()) return Finish(absl::CancelledError("the caller has disconnected"));
  if (session.LastContact(task) != holder_) return Finish(session.Register(session_now, request_));
  if (logic_->closing_) return Finish(taken_);
  // The holder may be dead: its lease decides, however long this chief has given it.
  if (now >= until_) {
    return Finish(absl::UnavailableError(
        absl::StrCat("the process that holds the place is silent, and its lease has not ended: ",
                     taken_.message())));
  }
  wake_ = std::min(until_, now + logic_->options_.tick);
  return std::nullopt;
}

absl::StatusOr<v1::RegisterTaskResponse> ChiefLogic::Registration::Finish(
    absl::StatusOr<v1::RegisterTaskResponse> answer) {
  const v1::Member& member = request_.identity().member();
  if (!answer.ok()) {
    LOG(WARNING) << "refused " << ToTaskId(member).ToString() << ": " << answer.status();
    return answer;
  }
  // This process of the worker has not received the end.
  if (member.job() == v1::JOB_WORKER) logic_->notified_workers_.erase(member.index());
  return answer;
}

std::optional<absl::StatusOr<v1::HeartbeatResponse>> ChiefLogic::Heartbeat::Poll(absl::Time now) {
  TrainingSession& session = logic_->session_;
  if (!has_asked_) {
    has_asked_ = true;
    const absl::Status status = session.Heartbeat(logic_->At(now), request_);
    if (!status.ok()) return status;
    until_ = now + std::min(kLongestPark, absl::Milliseconds(request_.wait_milliseconds()));
  }
  const v1::Member& member = request_.identity().member();
  const bool may_know_end = member.job() != v1::JOB_WORKER || !logic_->must_export_first();
  const bool is_over = logic_->is_over() && may_know_end;
  const bool knows_all = session.state().number() == request_.known_state() || !may_know_end;
  if (knows_all && now < until_ && !logic_->closing_ && !is_over) return std::nullopt;
  v1::HeartbeatResponse response;
  if (!knows_all) {
    *response.mutable_state() = session.state();
    if (request_.known_state() != 0) response.mutable_state()->clear_run();
  }
  if (is_over && member.job() == v1::JOB_WORKER) logic_->notified_workers_.insert(member.index());
  return response;
}

std::optional<absl::StatusOr<v1::ReportNormsResponse>> ChiefLogic::NormsReport::Poll(
    absl::Time now) {
  TrainingSession& session = logic_->session_;
  if (!has_asked_) {
    has_asked_ = true;
    const absl::Status status = session.ReportNorms(logic_->At(now), request_);
    if (!status.ok()) return status;
    until_ = now + kLongestPark;
  }
  const std::optional<double> scale =
      session.NormScale(request_.identity().lineage(), request_.step());
  const bool is_last = request_.slices_size() < kMostNormsInACall;
  if (!scale.has_value() && is_last && now < until_ && !logic_->closing_) return std::nullopt;
  v1::ReportNormsResponse response;
  if (scale.has_value()) {
    response.set_ready(true);
    response.set_scale(*scale);
  }
  return response;
}

// Calls that are answered at once.

absl::StatusOr<v1::ReportStepsResponse> ChiefLogic::ReportSteps(
    absl::Time now, const v1::ReportStepsRequest& request) {
  RETURN_IF_ERROR(session_.ReportSteps(At(now), request));
  v1::ReportStepsResponse response;
  response.set_newest_step(session_.reported_steps());
  return response;
}

absl::StatusOr<v1::ReportShardResponse> ChiefLogic::ReportShard(
    absl::Time now, const v1::ReportShardRequest& request) {
  RETURN_IF_ERROR(session_.ReportShard(At(now), request));
  v1::ReportShardResponse response;
  response.set_export_wanted(!request.is_export() && request.error().empty() &&
                             session_.exports().IsWanted(request.version()));
  return response;
}

absl::Status ChiefLogic::ReportEvaluation(absl::Time now,
                                          const v1::ReportEvaluationRequest& request) {
  return session_.ReportEvaluation(At(now), request);
}

absl::Status ChiefLogic::ReportBadBatch(absl::Time now, const v1::ReportBadBatchRequest& request) {
  return session_.ReportBadBatch(At(now), request);
}

absl::StatusOr<v1::LeaseBatchesResponse> ChiefLogic::LeaseBatches(
    absl::Time now, const v1::LeaseBatchesRequest& request) {
  return session_.LeaseBatches(At(now), request);
}

absl::StatusOr<uint64_t> ChiefLogic::RequestStop(absl::Time now,
                                                 const v1::RequestStopRequest& request) {
  return session_.RequestStop(At(now), request);
}

void ChiefLogic::Disconnect(absl::Time now, const v1::Identity& identity) {
  session_.Disconnect(At(now), identity);
}

v1::GetRunStatusResponse ChiefLogic::Status(absl::Time now) const {
  return session_.Status(now - stood_still_);
}

// Commands.

std::vector<PsCommand> ChiefLogic::TakeCommands(absl::Time now) {
  return session_.TakeCommands(At(now));
}

void ChiefLogic::OnAnswer(absl::Time now, const PsCommand& command,
                          absl::StatusOr<PsResponse> answer) {
  if (answer.ok()) return session_.OnAnswer(At(now), command, *answer);
  absl::Status status = answer.status();
  if (IsOutcomeUnknown(status)) {
    status = absl::Status(status.code(), DescribeFailure(status, command.address, options_.secure));
  }
  if (std::holds_alternative<v1::LoadSlicesRequest>(command.request)) {
    return session_.OnLoadFailed(At(now), command, status);
  }
  LOG(WARNING) << "ps/" << command.ps << " did not answer: " << status.message();
  session_.OnUndelivered(At(now), command);
}

// Records.

void ChiefLogic::EndWork(const absl::Status& status) {
  --work_under_way_;
  FenceIfAborted(status);
}

void ChiefLogic::OnRecorded(const absl::Status& status) { FenceIfAborted(status); }

bool ChiefLogic::OnManifestWritten(absl::Time now, const ManifestToWrite& write,
                                   const absl::Status& status) {
  FenceIfAborted(status);
  session_.OnManifestWritten(At(now), write, status);
  return session_.checkpoints().RestsOn(write.directory);
}

void ChiefLogic::OnExported(absl::Time now, const ModelExport& made, const absl::Status& status) {
  FenceIfAborted(status);
  session_.OnExported(At(now), made, status);
}

void ChiefLogic::FenceIfAborted(const absl::Status& status) {
  if (absl::IsAborted(status)) session_.Fence(std::string(status.message()));
}

// Time and the end.

void ChiefLogic::Tick(absl::Time now) { session_.Tick(At(now)); }

void ChiefLogic::LookForEnd(absl::Time now, bool has_records) {
  if (has_records || work_under_way_ > 0 || !is_over() || session_.exports().is_pending()) return;
  over_since_ = std::min(over_since_, now);
  if (session_.all_finished() || now - over_since_ > kFinishWait) drained_ = true;
}

bool ChiefLogic::must_export_first() const {
  return !options_.session.run.program().file().empty() && !closing_ &&
         !session_.phases().is_interrupted() && session_.exports().is_under_way();
}

bool ChiefLogic::is_over() const {
  const v1::RunState::Phase phase = session_.state().phase();
  return phase == v1::RunState::PHASE_DONE || phase == v1::RunState::PHASE_FAILED;
}

absl::Status ChiefLogic::result() const {
  if (session_.state().phase() == v1::RunState::PHASE_FAILED) return session_.failure();
  if (session_.phases().is_interrupted()) return absl::CancelledError("stopped on request");
  return absl::OkStatus();
}

bool ChiefLogic::all_notified() const {
  return notified_workers_.size() >= options_.session.run.deployment().num_replicas() &&
         session_.all_finished();
}

bool ChiefLogic::CloseRegistration(bool if_all_notified) {
  if (if_all_notified && !all_notified()) return false;
  registration_closed_ = true;
  return true;
}

}  // namespace shoal

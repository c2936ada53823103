#include "chief/session/training_session.h"

#include <memory>
#include <utility>
#include <variant>

#include "absl/strings/str_format.h"

#include "base/status_macros.h"
#include "chief/session/unplanned_mode.h"
#include "runtime/transport/call_status.h"
#include "runtime/variables/metric_messages.h"

namespace shoal {
namespace {

// Checks that the ps that counts the steps reports them, and that they count from 1.
absl::Status CheckSteps(const SessionContext& context, const v1::ReportStepsRequest& request) {
  const v1::Member& member = request.identity().member();
  if (context.plan == nullptr) {
    return absl::FailedPreconditionError("steps: the run has no plan yet");
  }
  if (request.steps_size() == 0) return absl::OkStatus();
  if (member.index() != context.reporter()) {
    return absl::InvalidArgumentError(
        absl::StrFormat("identity.member: ps/%d reports steps, but ps/%d counts them",
                        member.index(), context.reporter()));
  }
  for (const v1::StepReport& report : request.steps()) {
    if (report.step() == 0) return absl::InvalidArgumentError("steps: they count from 1");
  }
  return absl::OkStatus();
}

}  // namespace

TrainingSession::TrainingSession(Options options)
    : context_(std::move(options)),
      roster_(&context_),
      admission_(&context_, &roster_),
      bad_batches_(&context_, &admission_),
      exports_(&context_),
      checkpoints_(&context_, &exports_),
      rollout_(&context_, &bad_batches_, &exports_, &checkpoints_),
      waits_(&context_, &admission_, &roster_),
      full_ps_watch_(&context_),
      commands_(&context_, &bad_batches_.decisions(), &exports_),
      status_(&context_, &roster_, &waits_, &checkpoints_) {
  context_.SetMode(std::make_unique<UnplannedMode>(&context_, &bad_batches_));
  bad_batches_.Publish();
}

absl::StatusOr<v1::RegisterTaskResponse> TrainingSession::Register(
    absl::Time now, const v1::RegisterTaskRequest& request) {
  RETURN_IF_ERROR(admission_.Check(request));
  const TaskId task = ToTaskId(request.identity().member());
  if (task.job == Job::kWorker) {
    const bool had_plan = context_.plan != nullptr;
    RETURN_IF_ERROR(admission_.CheckModelOrPlan(request));
    if (!had_plan) RETURN_IF_ERROR(rollout_.OnPlan());
    if (request.only_check()) return v1::RegisterTaskResponse();
    admission_.TakeInitialValues(task.index, request.model().initial_values());
  }
  ASSIGN_OR_RETURN(const Admission::Place place, admission_.TakePlace(now, request));
  if (task.job == Job::kPs) {
    if (place.is_new) OnPsReplaced(now, task.index, place.incarnation);
  } else {
    context_.mode->OnTaskLost(task, place.incarnation - 1);
    if (place.is_new) context_.reachability.ForgetWorker(task.index);
    roster_.UpdateWorkers();
  }
  roster_.PrepareIfComplete();
  roster_.UpdateMissing();
  v1::RegisterTaskResponse response;
  response.set_run_id(context_.options.run_id);
  response.set_term(context_.options.term);
  response.set_incarnation(place.incarnation);
  return response;
}

void TrainingSession::OnPsReplaced(absl::Time now, uint32_t index, uint64_t incarnation) {
  PsState& ps = context_.ps[index];
  // The lost process may have served, and others may have used its values, though its answer was
  // lost.
  const bool has_lost_state = ps.asked_lineage == context_.phases.lineage();
  ps = PsState();
  ps.incarnation = incarnation;
  exports_.OnPsLost(index);
  context_.tables.OnPsLost(index);
  context_.reachability.ForgetPs(index);
  roster_.UpdatePsAddresses();
  context_.mode->OnTaskLost(TaskId{Job::kPs, index}, incarnation);
  if (has_lost_state && context_.mode->RollsBackAllPs()) {
    GoBack(now, absl::StrFormat("ps/%d came back without its state", index));
  }
}

absl::Status TrainingSession::Heartbeat(absl::Time now, const v1::HeartbeatRequest& request) {
  RETURN_IF_ERROR(admission_.CheckIdentity(now, request.identity()));
  if (full_ps_watch_.OnHeartbeat(now, request)) Progress(now);
  if (!roster_.OnHeartbeat(now, request)) return absl::OkStatus();
  context_.mode->OnTaskLost(ToTaskId(request.identity().member()),
                            request.identity().incarnation());
  roster_.UpdateWorkers();
  roster_.UpdateMissing();
  return absl::OkStatus();
}

std::vector<SessionRecord> TrainingSession::TakeRecords() {
  std::vector<SessionRecord> records = context_.log.Take();
  for (SessionRecord& record : records) {
    auto* const line = std::get_if<StepLine>(&record);
    if (line == nullptr) continue;
    line->tables = context_.tables.TakeForLine(/*is_evaluated=*/line->evaluation.has_value());
  }
  return records;
}

void TrainingSession::Disconnect(absl::Time now, const v1::Identity& identity) {
  context_.membership.Disconnect(now, ToTaskId(identity.member()), identity.incarnation());
}

absl::Status TrainingSession::ReportSteps(absl::Time now, const v1::ReportStepsRequest& request) {
  RETURN_IF_ERROR(admission_.CheckReport(now, request.identity(), Job::kPs));
  RETURN_IF_ERROR(CheckSteps(context_, request));
  for (const v1::PoisonedSlice& poisoned : request.poisoned()) {
    RETURN_IF_ERROR(bad_batches_.ReportPoisoned(poisoned));
  }
  const absl::Status status = context_.mode->ReportSteps(now, request);
  Progress(now);
  return status;
}

uint64_t TrainingSession::reported_steps() const {
  return context_.phases.is_over() ? UINT64_MAX : mode().reported_steps();
}

absl::Status TrainingSession::ReportShard(absl::Time now, const v1::ReportShardRequest& request) {
  RETURN_IF_ERROR(admission_.CheckReport(now, request.identity(), Job::kPs));
  if (context_.plan == nullptr) {
    return absl::FailedPreconditionError("version: the run has no plan yet");
  }
  if (request.is_export()) {
    exports_.ReportPart(request);
  } else {
    RETURN_IF_ERROR(checkpoints_.ReportShard(now, request));
  }
  Progress(now);
  return absl::OkStatus();
}

absl::Status TrainingSession::ReportEvaluation(absl::Time now,
                                               const v1::ReportEvaluationRequest& request) {
  RETURN_IF_ERROR(admission_.CheckReport(now, request.identity(), Job::kWorker));
  if (!context_.evaluations.has_value()) {
    return absl::FailedPreconditionError("nothing to evaluate yet");
  }
  const uint64_t num_blocks = context_.evaluations->num_blocks();
  if (request.block() >= num_blocks) {
    return absl::InvalidArgumentError(
        absl::StrFormat("block: %d, but there are only %d", request.block(), num_blocks));
  }
  EvaluationSums sums{request.loss_sum(), request.correct(), request.examples(), {}};
  RETURN_IF_ERROR(FromProto(request.metrics(), &sums.metrics));
  RETURN_IF_ERROR(context_.mode->AddEvaluation(now, request, sums));
  Progress(now);
  return absl::OkStatus();
}

absl::Status TrainingSession::ReportBadBatch(absl::Time now,
                                             const v1::ReportBadBatchRequest& request) {
  RETURN_IF_ERROR(bad_batches_.Report(now, request));
  Decide(now);
  Progress(now);
  return absl::OkStatus();
}

absl::StatusOr<v1::LeaseBatchesResponse> TrainingSession::LeaseBatches(
    absl::Time now, const v1::LeaseBatchesRequest& request) {
  RETURN_IF_ERROR(admission_.CheckReport(now, request.identity(), Job::kWorker));
  absl::StatusOr<v1::LeaseBatchesResponse> response = context_.mode->LeaseBatches(now, request);
  Progress(now);
  return response;
}

absl::Status TrainingSession::ReportNorms(absl::Time now, const v1::ReportNormsRequest& request) {
  RETURN_IF_ERROR(admission_.CheckReport(now, request.identity(), Job::kPs));
  return context_.mode->ReportNorms(request);
}

std::optional<double> TrainingSession::NormScale(uint64_t lineage, uint64_t step) const {
  if (lineage != context_.phases.lineage()) return std::nullopt;
  return mode().NormScale(step);
}

absl::StatusOr<uint64_t> TrainingSession::RequestStop(absl::Time now,
                                                      const v1::RequestStopRequest& request) {
  if (!request.run_id().empty() && request.run_id() != context_.options.run_id) {
    return absl::FailedPreconditionError(
        absl::StrFormat("run_id is %s, not %s", context_.options.run_id, request.run_id()));
  }
  if (request.stop() && !context_.phases.is_interrupted()) {
    context_.phases.Interrupt(request.reason());
  }
  if (request.stop() && request.no_more_steps()) context_.phases.EndSteps();
  ASSIGN_OR_RETURN(const uint64_t version, checkpoints_.Request(now, request.stop()));
  Progress(now);
  return version;
}

// Takes what the ps answer to commands.
class TrainingSession::AnswerHandler {
 public:
  AnswerHandler(TrainingSession* session, absl::Time now, const PsCommand& command)
      : session_(*session),
        context_(session->context_),
        ps_(session->context_.ps[command.ps]),
        now_(now),
        command_(command) {}

  void operator()(const v1::LoadSlicesResponse& response) const {
    if (!IsOfThisLineage<v1::LoadSlicesRequest>()) return;
    ps_.load_trouble.clear();
    ps_.loaded_lineage = context_.phases.lineage();
    context_.mode->reloads().OnLoaded(command_.ps, ps_.incarnation, response);
    session_.rollout_.TrainIfLoaded();
    session_.Progress(now_);
  }
  void operator()(const v1::GetAppliedResponse& response) const {
    if (!IsOfThisLineage<v1::GetAppliedRequest>()) return;
    const uint32_t epoch = std::get<v1::GetAppliedRequest>(command_.request).epoch();
    if (!context_.mode->reloads().OnApplied(command_.ps, epoch, response)) return;
    session_.rollout_.TrainIfLoaded();
    session_.Progress(now_);
  }
  void operator()(const v1::RequestCutResponse& response) const {
    if (!IsOfThisLineage<v1::RequestCutRequest>()) return;
    const uint64_t version = std::get<v1::RequestCutRequest>(command_.request).version();
    context_.cuts.OnAnswer(command_.ps, version,
                           {response.passed(), response.waits(), response.newest_version()});
  }
  void operator()(const v1::WithholdBatchResponse& response) const {
    session_.bad_batches_.OnWithheld(command_, response);
    session_.Decide(now_);
  }
  void operator()(const v1::DecideBatchResponse& /*response*/) const {
    session_.bad_batches_.OnDecisionAcknowledged(command_);
  }
  void operator()(const v1::FinishResponse& /*response*/) const {
    if (IsOfThisProcess()) ps_.finished = true;
  }

 private:
  bool IsOfThisProcess() const { return command_.incarnation == ps_.incarnation; }
  template <typename Request>
  bool IsOfThisLineage() const {
    return IsOfThisProcess() &&
           std::get<Request>(command_.request).identity().lineage() == context_.phases.lineage();
  }

  TrainingSession& session_;
  SessionContext& context_;
  PsState& ps_;
  const absl::Time now_;
  const PsCommand& command_;
};

void TrainingSession::OnAnswer(absl::Time now, const PsCommand& command,
                               const PsResponse& response) {
  std::visit(AnswerHandler(this, now, command), response);
}

void TrainingSession::OnLoadFailed(absl::Time now, const PsCommand& command,
                                   const absl::Status& why) {
  const auto& request = std::get<v1::LoadSlicesRequest>(command.request);
  PsState& ps = context_.ps[command.ps];
  if (command.incarnation != ps.incarnation ||
      request.identity().lineage() != context_.phases.lineage()) {
    return;
  }
  if (!MayHeal(why)) {
    context_.phases.Fail(absl::StrFormat("ps/%d cannot load: %s", command.ps, why.message()),
                         why.code());
    return;
  }
  const bool is_new = ps.load_trouble != why.message();
  if (is_new) {
    ps.load_trouble = std::string(why.message());
    context_.log.Warn(absl::StrFormat("ps/%d has not loaded yet: %s; the chief asks it again",
                                      command.ps, why.message()));
  }
  if (is_new && IsOutcomeUnknown(why)) {
    commands_.OnUndelivered(now, command);
  } else {
    commands_.OnLoadFailed(now, command);
  }
}

void TrainingSession::OnUndelivered(absl::Time now, const PsCommand& command) {
  commands_.OnUndelivered(now, command);
}

void TrainingSession::OnManifestWritten(absl::Time now, const ManifestToWrite& write,
                                        const absl::Status& status) {
  if (checkpoints_.OnManifestWritten(now, write, status)) Progress(now);
}

void TrainingSession::OnExported(absl::Time now, const ModelExport& made,
                                 const absl::Status& status) {
  if (!exports_.OnExported(made, status)) exports_.Advance(now);
}

void TrainingSession::Tick(absl::Time now) {
  for (const Roster::Lost& lost : roster_.TakePlacesOfLost(now)) {
    context_.mode->OnTaskLost(lost.task, lost.incarnation);
  }
  roster_.UpdateWorkers();
  roster_.UpdateMissing();
  Decide(now);
  checkpoints_.SaveIfDue(now);
  checkpoints_.RepeatIfDue(now);
  Progress(now);
  checkpoints_.Watch(now);
}

void TrainingSession::Decide(absl::Time now) {
  const std::string why_back = bad_batches_.Decide();
  if (!why_back.empty()) GoBack(now, why_back);
}

void TrainingSession::GoBack(absl::Time now, const std::string& reason) {
  if (rollout_.GoBack(reason)) waits_.Check(now);
}

void TrainingSession::Progress(absl::Time now) {
  TrainingMode& mode = *context_.mode;
  mode.Advance(now);
  const std::optional<uint64_t> newest = mode.NewestWrittenVersion(now);
  if (newest.has_value()) checkpoints_.WriteManifests(now, *newest);
  mode.FinishIfDurable(now);
  waits_.Check(now);
  exports_.Advance(now);
}

std::optional<EvaluationSums> TrainingSession::Evaluation(uint64_t version) const {
  if (!context_.evaluations.has_value() || context_.evaluations->num_blocks() == 0) {
    return std::nullopt;
  }
  return context_.evaluations->Total(version);
}

bool TrainingSession::all_finished() const {
  for (uint32_t i = 0; i < context_.ps.size(); ++i) {
    if (!context_.ps[i].finished && context_.IsLivePs(i)) return false;
  }
  return true;
}

}  // namespace shoal

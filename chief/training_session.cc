// Who may take part, and the answers of ps. What tasks report is in training_session_reports.cc,
// what follows from it all in training_session_flow.cc.
#include "chief/training_session.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "base/status_macros.h"
#include "runtime/config/run_config.h"
#include "runtime/process/protocol_version.h"
#include "runtime/rpc/receiver_rules.h"
#include "runtime/rpc/run_state.h"
#include "runtime/transport/call_status.h"

namespace shoal {
namespace {

// A worker tries a ps again every 2 s at most, and reports it with the next heartbeat: a shorter
// silence may be the end of a disturbance that is over, as of a chief that stood still.
constexpr absl::Duration kShortestSilence = absl::Seconds(6);

// How often a task's word about a later term makes the chief read a file.
constexpr absl::Duration kBetweenDoubts = absl::Seconds(1);

// A program of its own may be older or newer than the chief's.
absl::Status CheckProtocol(TaskId task, const v1::RegisterTaskRequest& request) {
  const uint32_t theirs = std::max(1u, request.protocol());
  if (theirs == kProtocolVersion) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrFormat("%s speaks protocol %d, the chief %d; build both programs from the same "
                      "sources",
                      task.ToString(), theirs, kProtocolVersion));
}

// Workers beyond replicas_to_aggregate, which repeat what others compute, are of num_replicas too.
absl::Status CheckIndex(TaskId task, uint32_t num_ps_tasks, const v1::DeploymentOptions& run) {
  if (task.job == Job::kPs && task.index >= num_ps_tasks) {
    return absl::FailedPreconditionError(
        absl::StrFormat("%s: this run has num_ps_tasks=%d; use a --task_index below it",
                        task.ToString(), num_ps_tasks));
  }
  if (task.index >= kMaxMemberIndex) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "identity.member: %s; use a --task_index below %d", task.ToString(), kMaxMemberIndex));
  }
  if (task.job == Job::kWorker && run.has_num_replicas() && task.index >= run.num_replicas()) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "%s: this run has num_replicas=%d; use a --task_index below it, or stop the run and start "
        "it again with more --num_replicas",
        task.ToString(), run.num_replicas()));
  }
  return absl::OkStatus();
}

// A task that was told other numbers of tasks than the chief was started for another run.
absl::Status CheckCounts(TaskId task, const v1::RegisterTaskRequest& request,
                         const v1::DeploymentOptions& run) {
  const auto check = [&](const char* field, uint32_t told, bool known, uint32_t ours) {
    if (told == 0 || !known || told == ours) return absl::OkStatus();
    return absl::FailedPreconditionError(
        absl::StrFormat("%s: %s was told %d, but the chief's run has %d; drop the flag or make "
                        "them agree",
                        field, task.ToString(), told, ours));
  };
  RETURN_IF_ERROR(
      check("num_ps_tasks", request.num_ps_tasks(), run.has_num_ps_tasks(), run.num_ps_tasks()));
  return check("num_replicas", request.num_replicas(), run.has_num_replicas(), run.num_replicas());
}

absl::Status CheckSharedRun(TaskId task, const v1::RunConfig& theirs, const v1::RunConfig& ours) {
  const std::optional<RunDifference> difference = FirstDifference(ours, theirs);
  if (!difference.has_value()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      difference->field, ": ", difference->second, " at ", task.ToString(), ", but ",
      difference->first, " at the chief; give all tasks the same --run", " and the same flags"));
}

}  // namespace

TrainingSession::TrainingSession(Options options)
    : options_(std::move(options)),
      membership_(Membership::Options{options_.lease, options_.grace, options_.term,
                                      /*revives=*/IsSynchronous(options_.run)}),
      reachability_(std::max(options_.lease, kShortestSilence)),
      decisions_(options_.num_ps_tasks),
      cuts_(options_.num_ps_tasks),
      exports_(options_.export_every.value_or(0)),
      ps_(options_.num_ps_tasks) {
  state_.set_number(1);
  state_.set_phase(v1::RunState::PHASE_WAITING);
  state_.set_lineage(1);
  state_.set_synchronous(IsSynchronous(options_.run));
  if (options_.manifest.has_value()) {
    const v1::Manifest& manifest = *options_.manifest;
    state_.set_lineage(manifest.lineage() + 1);
    newest_step_ = manifest.step();
    saved_step_ = manifest.step();
    cuts_.Restore(manifest.step(), options_.manifest_directory);
    std::vector<BatchKey> skipped;
    for (const v1::SkippedBatch& skip : manifest.skipped()) skipped.push_back(KeyOf(skip.batch()));
    decisions_.RestoreSkips(skipped);
  }
  UpdateDecisions();
}

TrainingSession::~TrainingSession() = default;

absl::Status TrainingSession::CheckIdentity(absl::Time now, const v1::Identity& identity) {
  if (identity.run_id() != options_.run_id) {
    return absl::FailedPreconditionError(
        absl::StrFormat("run_id is %s and this chief runs %s; check --chief_host",
                        identity.run_id(), options_.run_id));
  }
  if (identity.term() < options_.term)
    return absl::AbortedError("fenced term: a newer chief runs here");
  if (identity.term() > options_.term) return DoubtTerm(now, identity.term());
  const TaskId task = TaskOf(identity.member());
  const bool was_live = membership_.IsLive(task);
  RETURN_IF_ERROR(membership_.Renew(now, task, identity.incarnation()));
  if (!was_live) Revived(task);
  return absl::OkStatus();
}

absl::Status TrainingSession::CheckReport(absl::Time now, const v1::Identity& identity, Job job) {
  const TaskId task = TaskOf(identity.member());
  if (task.job != job) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "identity.member: %s sends what only a %s may send", task.ToString(), JobName(job)));
  }
  RETURN_IF_ERROR(CheckIdentity(now, identity));
  if (identity.lineage() != state_.lineage()) {
    return absl::AbortedError(
        absl::StrFormat("moved: lineage is %d, not %d", state_.lineage(), identity.lineage()));
  }
  return absl::OkStatus();
}

// A ps still holds its variables: had there been a rollback meanwhile, it would load as the others
// do. What a worker contributed counts once, whoever computed it meanwhile.
void TrainingSession::Revived(TaskId task) {
  Note(absl::StrCat(task.ToString(), " is back; nobody had taken its place"));
  UpdateView();
  StartIfComplete();  // It may be the last one that was missing.
  UpdateWaitingFor();
}

absl::Status TrainingSession::DoubtTerm(absl::Time now, uint64_t claimed) {
  if (now >= term_doubted_ + kBetweenDoubts) {
    term_doubted_ = now;
    records_.push_back(TermInDoubt());
  }
  // The sender may be right. It asks again, and finds the newer chief when this one has ended.
  return absl::UnavailableError(absl::StrFormat(
      "term %d is not known here: this chief is of term %d and reads the run's file TERM", claimed,
      options_.term));
}

absl::StatusOr<v1::RegisterTaskResponse> TrainingSession::Register(
    absl::Time now, const v1::RegisterTaskRequest& request) {
  const v1::Identity& identity = request.identity();
  if (!identity.run_id().empty() && identity.run_id() != options_.run_id) {
    return absl::FailedPreconditionError(
        absl::StrFormat("run_id is %s and this chief runs %s; check --chief_host",
                        identity.run_id(), options_.run_id));
  }
  const TaskId task = TaskOf(identity.member());
  if (task.job != Job::kPs && task.job != Job::kWorker) {
    return absl::InvalidArgumentError(absl::StrCat("identity.member: ", task.ToString(),
                                                   " registers, but only ps and workers do"));
  }
  RETURN_IF_ERROR(CheckProtocol(task, request));
  RETURN_IF_ERROR(CheckCounts(task, request, options_.run.deployment()));
  RETURN_IF_ERROR(CheckIndex(task, options_.num_ps_tasks, options_.run.deployment()));
  if (options_.shared_run.has_value()) {
    RETURN_IF_ERROR(CheckSharedRun(task, request.run(), *options_.shared_run));
  }
  if (state_.phase() == v1::RunState::PHASE_FAILED) return AnswerOfAFailedRun();
  if (task.job == Job::kWorker) RETURN_IF_ERROR(AdmitWorker(request));
  const Member* const before = membership_.Find(task);
  const uint64_t last_incarnation = before == nullptr ? 0 : before->incarnation;
  ASSIGN_OR_RETURN(
      uint64_t incarnation,
      membership_.Register(now, Membership::Application{task, request.nonce(), request.address(),
                                                        request.host(), request.process_id()}));
  issued_.Issue(task, incarnation);
  if (task.job == Job::kPs) {
    AdmitPs(now, task.index, incarnation);
  } else {
    if (async_ != nullptr) async_->OnWorkerLost(task.index, incarnation - 1);
    if (incarnation != last_incarnation) reachability_.ForgetWorker(task.index);
    UpdateView();
  }
  if (incarnation != last_incarnation) WarnOfAnotherDirectory(task, request.run_directory());
  StartIfComplete();
  UpdateWaitingFor();
  v1::RegisterTaskResponse response;
  response.set_run_id(options_.run_id);
  response.set_term(options_.term);
  response.set_incarnation(incarnation);
  return response;
}

absl::Status TrainingSession::AnswerOfAFailedRun() const {
  const absl::Status why = FailureOf(state_);
  // Who is told that the outcome is unknown asks again. ABORTED ends the task as UNAVAILABLE does:
  // another try helps.
  return IsOutcomeUnknown(why) ? absl::AbortedError(why.message()) : why;
}

void TrainingSession::WarnOfAnotherDirectory(TaskId task, const std::string& directory) {
  const std::string& ours = options_.run.out();
  if (directory.empty() || ours.empty() || directory == ours) return;
  records_.push_back(
      SessionNote{absl::StrFormat("--out: %s at %s, but %s at the chief; give all tasks the same, "
                                  "unless these are two names of one directory",
                                  directory, task.ToString(), ours),
                  /*is_warning=*/true});
}

absl::Status TrainingSession::AdmitWorker(const v1::RegisterTaskRequest& request) {
  if (model_.has_value()) {
    return CheckSameModel(*model_, request.model(), options_.run.sync().allow_mixed_compute());
  }
  const v1::Manifest* manifest = options_.manifest.has_value() ? &*options_.manifest : nullptr;
  if (manifest != nullptr) {
    const absl::Status fits = CheckSameAsCheckpoint(options_.run, request.model(), *manifest);
    if (!fits.ok()) return RefuseWorker(request.identity().member().index(), fits);
  }
  absl::StatusOr<std::unique_ptr<RunPlan>> plan =
      PlanRun(options_.run, options_.num_ps_tasks, request.model(), manifest);
  if (!plan.ok()) {
    Fail(std::string(plan.status().message()));
    return absl::FailedPreconditionError(plan.status().message());
  }
  last_refusal_.clear();
  model_ = request.model();
  plan_ = *std::move(plan);
  if (plan_->other_batches_from.has_value()) {
    decisions_.ForgetSkipsFrom(*plan_->other_batches_from);
    UpdateDecisions();
  }
  std::vector<CutLedger::Part> parts(options_.num_ps_tasks, {false, false});
  for (uint32_t slice = 0; slice < plan_->table.size(); ++slice) {
    CutLedger::Part& part = parts[plan_->shard_map.owner(static_cast<int>(slice))];
    part.has_slices = true;
    part.has_versions = part.has_versions || plan_->table.slice_is_versioned(slice);
  }
  cuts_.SetParts(parts);
  evaluations_.emplace(plan_->evaluation_blocks);
  if (!state_.synchronous()) RETURN_IF_ERROR(StartAsync());
  if (state_.synchronous() && options_.run.optimizer().clip_by_global_norm() > 0) {
    uint64_t num_slices = 0;
    for (uint32_t slice = 0; slice < plan_->table.size(); ++slice) {
      if (HasGradient(slice)) ++num_slices;
    }
    norms_.emplace(options_.run.optimizer().clip_by_global_norm(), num_slices);
  }
  plan_->steps.ToProto(state_.mutable_plan());
  *state_.mutable_shard_map() = plan_->shard_map;
  for (const v1::VariableSpec& variable : plan_->variables) *state_.add_variables() = variable;
  *state_.mutable_run() = options_.run;
  state_.set_last_step(plan_->last_step);
  state_.set_evaluate_every(options_.run.eval_every());
  Changed();
  return absl::OkStatus();
}

absl::Status TrainingSession::RefuseWorker(uint32_t index, const absl::Status& why) {
  refused_workers_.insert(index);
  last_refusal_ = absl::StrCat("worker/", index, " was refused: ", why.message());
  if (refused_workers_.size() >= num_replicas()) Fail(std::string(why.message()));
  return why;
}

void TrainingSession::AdmitPs(absl::Time now, uint32_t index, uint64_t incarnation) {
  PsState& ps = ps_[index];
  if (ps.incarnation == incarnation) return;
  // It may have served, and others may have gone on with it, though its answer was lost.
  const bool lost_state = ps.told_lineage == state_.lineage();
  ps = PsState();
  exports_.OnPsLost(index);
  ps.incarnation = incarnation;
  reachability_.ForgetPs(index);
  UpdatePsAddresses();
  if (async_ != nullptr) {
    OnAsyncTaskLost(TaskId{Job::kPs, index}, incarnation);
  } else if (lost_state && state_.phase() != v1::RunState::PHASE_DONE) {
    Rollback(now, absl::StrFormat("ps/%d came back without its state", index));
  }
}

absl::Status TrainingSession::Heartbeat(absl::Time now, const v1::HeartbeatRequest& request) {
  RETURN_IF_ERROR(CheckIdentity(now, request.identity()));
  const TaskId task = TaskOf(request.identity().member());
  Member* member = membership_.FindMutable(task);
  member->step = request.step();
  member->activity = request.activity();
  member->has_batch = request.has_batch();
  member->batch = KeyOf(request.batch());
  if (!request.computing() || !member->computing || request.computed() != member->computed) {
    member->computing_since = now;
  }
  if (request.computed() != member->computed && request.has_batch()) NoteInHand(now, member->batch);
  member->computing = request.computing();
  member->computed = request.computed();
  if (task.job == Job::kWorker) {
    const std::set<uint32_t> silent(request.silent_ps().begin(), request.silent_ps().end());
    if (reachability_.OnReport(now, task.index, silent, request.reaches_all_ps())) {
      Note(absl::StrCat(task.ToString(), " reaches all ps now and gets work"));
      UpdateView();
    }
  }
  if (request.leaving()) {
    membership_.Leave(task, request.identity().incarnation(), request.told());
    OnAsyncTaskLost(task, request.identity().incarnation());
    UpdateView();
    UpdateWaitingFor();
  }
  return absl::OkStatus();
}

void TrainingSession::OnLoadAnswer(absl::Time now, const PsCommand& command,
                                   const absl::StatusOr<v1::LoadSlicesResponse>& response) {
  const auto& request = std::get<v1::LoadSlicesRequest>(command.request);
  PsState& ps = ps_[command.ps];
  if (command.incarnation != ps.incarnation || request.identity().lineage() != state_.lineage())
    return;
  if (!response.ok()) return OnLoadFailed(now, command, response.status());
  ps.load_trouble.clear();
  ps.loaded_lineage = state_.lineage();
  if (async_ != nullptr) async_->OnLoaded(command.ps, ps.incarnation, *response);
  StartTrainingIfLoaded();
  Progress(now);
}

void TrainingSession::OnLoadFailed(absl::Time now, const PsCommand& command,
                                   const absl::Status& why) {
  if (!MayHeal(why)) {
    Fail(absl::StrFormat("ps/%d cannot load: %s", command.ps, why.message()), why.code());
    return;
  }
  PsState& ps = ps_[command.ps];
  if (ps.load_trouble != why.message()) {
    ps.load_trouble = std::string(why.message());
    records_.push_back(SessionNote{
        absl::StrFormat("ps/%d cannot load yet: %s; it tries again", command.ps, why.message()),
        /*is_warning=*/true});
  }
  Reissue(command, now + options_.reload);
}

void TrainingSession::OnCutAnswer(const PsCommand& command,
                                  const v1::RequestCutResponse& response) {
  const auto& request = std::get<v1::RequestCutRequest>(command.request);
  if (request.identity().lineage() != state_.lineage()) return;
  if (async_ != nullptr && command.incarnation != ps_[command.ps].incarnation) return;
  cuts_.OnAnswer(command.ps, request.version(), response.passed(), response.newest_version());
}

void TrainingSession::OnFinishAnswer(const PsCommand& command) {
  if (command.incarnation == ps_[command.ps].incarnation) ps_[command.ps].finished = true;
}

std::optional<EvaluationSums> TrainingSession::Evaluation(uint64_t version) const {
  if (!evaluations_.has_value() || evaluations_->num_blocks() == 0) return std::nullopt;
  return evaluations_->Total(version);
}

bool TrainingSession::all_finished() const {
  for (uint32_t i = 0; i < ps_.size(); ++i) {
    if (!ps_[i].finished && membership_.IsLive(TaskId{Job::kPs, i})) return false;
  }
  return true;
}

absl::Status TrainingSession::failure() const {
  const absl::Status status = FailureOf(state_);
  // Another try of this chief would only fence the newer one.
  return is_fenced_ && absl::IsAborted(status) ? absl::FailedPreconditionError(status.message())
                                               : status;
}

}  // namespace shoal

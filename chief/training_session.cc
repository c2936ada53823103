// Messages in. What follows from them is in training_session_flow.cc.
#include "chief/training_session.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "base/status_macros.h"
#include "runtime/process/protocol_version.h"
#include "runtime/rpc/run_state.h"

namespace shoal {
namespace {

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

}  // namespace

TrainingSession::TrainingSession(Options options)
    : options_(std::move(options)),
      membership_(Membership::Options{options_.lease, options_.grace, options_.term}),
      decisions_(options_.num_ps_tasks, options_.broken),
      cuts_(options_.num_ps_tasks),
      ps_(options_.num_ps_tasks) {
  state_.set_number(1);
  state_.set_phase(v1::RunState::PHASE_WAITING);
  state_.set_lineage(1);
  state_.set_synchronous(!options_.run.sync().has_sync_replicas() ||
                         options_.run.sync().sync_replicas());
  if (options_.manifest.has_value()) {
    const v1::Manifest& manifest = *options_.manifest;
    state_.set_lineage(manifest.lineage() + 1);
    newest_step_ = manifest.step();
    cuts_.Restore(manifest.step(), options_.manifest_directory);
    std::vector<BatchKey> skipped;
    for (const v1::SkippedBatch& skip : manifest.skipped()) skipped.push_back(KeyOf(skip.batch()));
    decisions_.RestoreSkips(skipped);
  }
  UpdateDecisions();
}

TrainingSession::~TrainingSession() = default;

absl::Status TrainingSession::CheckIdentity(absl::Time now, const v1::Identity& identity,
                                            bool check_lineage) {
  if (identity.run_id() != options_.run_id) {
    return absl::FailedPreconditionError(
        absl::StrFormat("run_id is %s and this chief runs %s; check --chief_host",
                        identity.run_id(), options_.run_id));
  }
  if (identity.term() < options_.term)
    return absl::AbortedError("fenced term: a newer chief runs here");
  if (identity.term() > options_.term) {
    Fence(absl::StrFormat("a newer chief, of term %d, has taken this run over", identity.term()));
    return absl::AbortedError("fenced term: this chief is an older one");
  }
  RETURN_IF_ERROR(membership_.Renew(now, TaskOf(identity.member()), identity.incarnation()));
  if (check_lineage && identity.lineage() != state_.lineage()) {
    return absl::AbortedError(
        absl::StrFormat("moved: lineage is %d, not %d", state_.lineage(), identity.lineage()));
  }
  return absl::OkStatus();
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
  if (options_.config_fingerprint != 0 &&
      request.config_fingerprint() != options_.config_fingerprint) {
    return absl::FailedPreconditionError(
        absl::StrCat("the run file of ", task.ToString(),
                     " differs from the chief's (model, data, optimizer, batch_size, seed, ...); "
                     "give all tasks the same --run"));
  }
  if (state_.phase() == v1::RunState::PHASE_FAILED)
    return absl::FailedPreconditionError(state_.message());
  if (task.job == Job::kWorker) RETURN_IF_ERROR(AdmitWorker(request));
  ASSIGN_OR_RETURN(
      uint64_t incarnation,
      membership_.Register(now, Membership::Application{task, request.nonce(), request.address(),
                                                        request.host(), request.process_id()}));
  if (task.job == Job::kPs) {
    AdmitPs(now, task.index, incarnation);
  } else {
    if (async_ != nullptr) async_->OnWorkerLost(task.index, incarnation - 1);
    UpdateView();
  }
  StartIfComplete();
  UpdateWaitingFor();
  v1::RegisterTaskResponse response;
  response.set_run_id(options_.run_id);
  response.set_term(options_.term);
  response.set_incarnation(incarnation);
  return response;
}

absl::Status TrainingSession::AdmitWorker(const v1::RegisterTaskRequest& request) {
  if (model_.has_value()) {
    return CheckSameModel(*model_, request.model(), options_.run.sync().allow_mixed_compute());
  }
  const v1::Manifest* manifest = options_.manifest.has_value() ? &*options_.manifest : nullptr;
  absl::StatusOr<std::unique_ptr<RunPlan>> plan =
      PlanRun(options_.run, options_.num_ps_tasks, request.model(), manifest);
  if (!plan.ok()) {
    Fail(std::string(plan.status().message()));
    return absl::FailedPreconditionError(plan.status().message());
  }
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
    for (const Slice& slice : plan_->table.slices()) {
      if (plan_->variables[slice.variable].update() == v1::UPDATE_KIND_OPTIMIZER) ++num_slices;
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

void TrainingSession::AdmitPs(absl::Time now, uint32_t index, uint64_t incarnation) {
  PsState& ps = ps_[index];
  if (ps.incarnation == incarnation) return;
  const bool lost_state = ps.loaded_lineage != 0;
  ps = PsState();
  ps.incarnation = incarnation;
  UpdatePsAddresses();
  if (async_ != nullptr) {
    OnAsyncTaskLost(TaskId{Job::kPs, index}, incarnation);
  } else if (lost_state && state_.phase() != v1::RunState::PHASE_DONE) {
    Rollback(now, absl::StrFormat("ps/%d came back without its state", index));
  }
}

absl::Status TrainingSession::Heartbeat(absl::Time now, const v1::HeartbeatRequest& request) {
  RETURN_IF_ERROR(CheckIdentity(now, request.identity(), false));
  const TaskId task = TaskOf(request.identity().member());
  Member* member = membership_.FindMutable(task);
  member->step = request.step();
  member->activity = request.activity();
  member->has_batch = request.has_batch();
  member->batch = KeyOf(request.batch());
  if (!request.computing() || !member->computing || request.computed() != member->computed) {
    member->computing_since = now;
  }
  if (request.computed() != member->computed) progress_ = now;
  member->computing = request.computing();
  member->computed = request.computed();
  if (request.leaving()) {
    membership_.Leave(task, request.identity().incarnation());
    OnAsyncTaskLost(task, request.identity().incarnation());
    UpdateView();
    UpdateWaitingFor();
  }
  return absl::OkStatus();
}

absl::Status TrainingSession::ReportSteps(absl::Time now, const v1::ReportStepsRequest& request) {
  RETURN_IF_ERROR(CheckIdentity(now, request.identity(), true));
  for (const v1::PoisonedSlice& poisoned : request.poisoned()) {
    RETURN_IF_ERROR(ReportPoisoned(poisoned));
  }
  if (async_ != nullptr) {
    const absl::Status status = ReportAsyncSteps(request);
    progress_ = now;
    Progress(now);
    return status;
  }
  if (state_.phase() == v1::RunState::PHASE_DONE) return absl::OkStatus();
  for (const v1::StepReport& report : request.steps()) {
    if (report.step() <= newest_step_) continue;
    if (report.step() != newest_step_ + 1) {
      return absl::FailedPreconditionError(absl::StrFormat(
          "steps: %d reported after %d; report them in order", report.step(), newest_step_));
    }
    newest_step_ = report.step();
    progress_ = now;
    held_lines_.push_back(report);
  }
  Progress(now);
  return absl::OkStatus();
}

absl::Status TrainingSession::ReportShard(absl::Time now, const v1::ReportShardRequest& request) {
  RETURN_IF_ERROR(CheckIdentity(now, request.identity(), true));
  const TaskId task = TaskOf(request.identity().member());
  if (task.job != Job::kPs)
    return absl::InvalidArgumentError("identity.member: only ps report shards");
  if (!request.error().empty()) {
    Note(absl::StrFormat("no checkpoint at step %d: %s: %s", request.version(), task.ToString(),
                         request.error()));
    GiveUpCut(request.version(), request.error());
  } else {
    progress_ = now;
    cuts_.AddShard(task.index, request.version(), request.directory(), request.file());
    if (async_ != nullptr) {
      async_->OnShard(task.index, request.version(), request.reported_steps());
    }
  }
  Progress(now);
  return absl::OkStatus();
}

absl::Status TrainingSession::ReportEvaluation(absl::Time now,
                                               const v1::ReportEvaluationRequest& request) {
  RETURN_IF_ERROR(CheckIdentity(now, request.identity(), true));
  if (!evaluations_.has_value()) return absl::FailedPreconditionError("nothing to evaluate yet");
  progress_ = now;
  const EvaluationSums sums{request.loss_sum(), request.correct(), request.examples()};
  if (request.block() < evaluations_->num_blocks() && async_ != nullptr) {
    AddAsyncEvaluation(request, sums);
  } else if (!evaluations_->Add(request.version(), request.block(), sums)) {
    return absl::InvalidArgumentError(absl::StrFormat("block: %d, but there are only %d",
                                                      request.block(), evaluations_->num_blocks()));
  }
  Progress(now);
  return absl::OkStatus();
}

absl::Status TrainingSession::ReportNorms(absl::Time now, const v1::ReportNormsRequest& request) {
  RETURN_IF_ERROR(CheckIdentity(now, request.identity(), true));
  if (request.identity().member().job() != v1::JOB_PS)
    return absl::InvalidArgumentError("identity.member: only ps report norms");
  if (!norms_.has_value())
    return absl::FailedPreconditionError("this run does not clip by global norm");
  if (request.slices_size() != request.squared_norms_size()) {
    return absl::InvalidArgumentError("squared_norms: one for each of slices");
  }
  for (int i = 0; i < request.slices_size(); ++i) {
    norms_->Add(request.step(), request.slices(i), request.squared_norms(i));
  }
  if (request.step() > 4) norms_->ForgetBelow(request.step() - 4);
  return absl::OkStatus();
}

std::optional<double> TrainingSession::NormScale(uint64_t lineage, uint64_t step) const {
  if (lineage != state_.lineage() || !norms_.has_value()) return std::nullopt;
  return norms_->Scale(step);
}

bool TrainingSession::CanCut() const {
  const v1::RunState::Phase phase = state_.phase();
  if (phase == v1::RunState::PHASE_TRAINING) return true;
  if (async_ == nullptr) return phase == v1::RunState::PHASE_STOPPING && cuts_.requested();
  return phase == v1::RunState::PHASE_PREPARING || phase == v1::RunState::PHASE_STOPPING;
}

absl::StatusOr<uint64_t> TrainingSession::RequestStop(absl::Time now,
                                                      const v1::RequestStopRequest& request) {
  if (!request.run_id().empty() && request.run_id() != options_.run_id) {
    return absl::FailedPreconditionError(
        absl::StrFormat("run_id is %s, not %s", options_.run_id, request.run_id()));
  }
  if (!request.stop() && !CanCut()) {
    const std::string why = absl::StrFormat(
        "no checkpoint can be made in %s at step %d; the newest is of step %d",
        v1::RunState::Phase_Name(state_.phase()), newest_step(), cuts_.durable_version());
    Note(why);  // Whoever asked by a signal reads it there.
    return absl::FailedPreconditionError(why);
  }
  if (request.stop() && !stopping_) {
    stopping_ = true;
    stop_deadline_ = now + options_.stop_wait;
    Note(absl::StrCat("stopping: ", request.reason()));
  }
  if (async_ != nullptr && state_.phase() != v1::RunState::PHASE_WAITING) {
    async_->WantCut();
    const uint64_t name = async_->NextCutName();
    Progress(now);
    return name;
  }
  if (state_.phase() == v1::RunState::PHASE_TRAINING) {
    cuts_.Request(newest_step_ + 2);
    return cuts_.requested_version();
  }
  if (state_.phase() == v1::RunState::PHASE_STOPPING && cuts_.requested()) {
    return cuts_.requested_version();  // On its way.
  }
  if (state_.phase() == v1::RunState::PHASE_PREPARING) return newest_step_ + 2;  // Asked for then.
  if (stopping_ && state_.phase() == v1::RunState::PHASE_WAITING) FinishIfDurable();
  return cuts_.durable_version();
}

void TrainingSession::OnLoadAnswer(absl::Time now, const PsCommand& command,
                                   const absl::StatusOr<v1::LoadSlicesResponse>& response) {
  const auto& request = std::get<v1::LoadSlicesRequest>(command.request);
  PsState& ps = ps_[command.ps];
  if (command.incarnation != ps.incarnation || request.identity().lineage() != state_.lineage())
    return;
  if (!response.ok()) {
    Fail(absl::StrFormat("ps/%d cannot load: %s", command.ps, response.status().message()),
         response.status().code());
    return;
  }
  ps.loaded_lineage = state_.lineage();
  if (async_ != nullptr) async_->OnLoaded(command.ps, *response);
  StartTrainingIfLoaded();
  Progress(now);
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

absl::Status TrainingSession::failure() const { return FailureOf(state_); }

}  // namespace shoal

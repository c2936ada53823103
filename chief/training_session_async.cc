// What a session does differently in ASYNC.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "base/status_macros.h"
#include "chief/training_session.h"

namespace shoal {

const std::map<BatchKey, std::string>& TrainingSession::skipped() const {
  return async_ == nullptr ? decisions_.skipped() : async_->ledger().skipped();
}

absl::Status TrainingSession::StartAsync() {
  AsyncSession::Options options;
  const v1::RunConfig& run = options_.run;
  options.ledger.num_workers =
      run.deployment().has_num_replicas() ? std::max(1u, run.deployment().num_replicas()) : 1;
  options.ledger.max_steps = run.max_steps();
  options.ledger.num_epochs = run.num_epochs();
  options.ledger.evaluate_every = run.eval_every();
  options.ledger.evaluation_blocks = plan_->evaluation_blocks;
  if (run.sync().has_clock_bound()) options.ledger.clock_bound = run.sync().clock_bound();
  options.num_ps = options_.num_ps_tasks;
  options.reporter = reporter();
  options.save_every = run.checkpoint().save_every();
  if (options_.manifest.has_value()) options.resumed_cut = options_.manifest->step();
  auto async = std::make_unique<AsyncSession>(options, plan_->steps);
  if (options_.manifest.has_value()) {
    const absl::Status status = async->Restore(options_.manifest->ledger());
    if (!status.ok()) {
      Fail(std::string(status.message()));
      return absl::FailedPreconditionError(status.message());
    }
  }
  async_ = std::move(async);
  UpdateDecisions();
  return absl::OkStatus();
}

void TrainingSession::OnAsyncTaskLost(TaskId task, uint64_t incarnation) {
  if (async_ == nullptr) return;
  if (task.job == Job::kWorker) {
    async_->OnWorkerLost(task.index, incarnation);
  } else if (task.job == Job::kPs) {
    async_->OnPsLost(task.index);
    cuts_.OnRollback();  // no cut can be completed without it
    ps_[task.index].loaded_lineage = 0;
  }
}

absl::StatusOr<v1::LeaseBatchesResponse> TrainingSession::LeaseBatches(
    absl::Time now, const v1::LeaseBatchesRequest& request) {
  if (state_.synchronous()) {
    return absl::FailedPreconditionError("sync.sync_replicas is true: batches are not leased");
  }
  RETURN_IF_ERROR(CheckReport(now, request.identity(), Job::kWorker));
  if (async_ == nullptr) return absl::UnavailableError("the run has no plan yet");
  if (request.finished_size() > 0) WentOn(now);
  if (!reachability_.MayWork(request.identity().member().index())) {
    // Neither batches nor blocks of the test split: nobody must wait for it.
    v1::LeaseBatchesResponse later;
    later.set_epoch_ending(true);
    return later;
  }
  const bool may_lease = state_.phase() == v1::RunState::PHASE_TRAINING && !stopping_;
  v1::LeaseBatchesResponse response = async_->LeaseBatches(request, may_lease);
  Progress(now);
  return response;
}

absl::Status TrainingSession::ReportAsyncSteps(absl::Time now,
                                               const v1::ReportStepsRequest& request) {
  for (v1::StepReport report : request.steps()) {
    report.set_classifies(model_->classifies());
    const absl::Status added = async_->lines().Add(request.identity().incarnation(), report);
    if (absl::IsFailedPrecondition(added)) {
      NoteGap(now, report.step(), async_->lines().newest());
      break;
    }
    RETURN_IF_ERROR(added);
  }
  return absl::OkStatus();
}

void TrainingSession::AddAsyncEvaluation(absl::Time now, const v1::ReportEvaluationRequest& request,
                                         const EvaluationSums& sums) {
  const uint64_t version = request.version();
  if (!async_->ledger().FinishBlock(version, request.block())) return;
  WentOn(now);
  evaluations_->Add(version, request.block(), sums);
  evaluations_->ForgetBelow(version);
  const std::optional<EvaluationSums> total = evaluations_->Total(version);
  if (total.has_value()) async_->lines().SetEvaluation(version, *total);
}

void TrainingSession::ReportAsyncBadBatch(const BatchKey& batch, TaskId task, uint64_t incarnation,
                                          bool certain, const std::string& detail) {
  DataLedger& ledger = async_->ledger();
  const bool skipped =
      certain ? ledger.Skip(batch, detail) : ledger.ReportCrash(batch, task.index, incarnation);
  if (!skipped) return;
  Note(absl::StrCat(ToString(batch), " is skipped: ", ledger.skipped().at(batch)));
  // Who had the batch before may wake up and push it: the ps refuse it.
  decisions_.Announce(batch);
  UpdateDecisions();
  FailIfDiverging(ledger.skipped());
}

void TrainingSession::OnAppliedAnswer(absl::Time now, const PsCommand& command,
                                      const v1::GetAppliedResponse& response) {
  const auto& request = std::get<v1::GetAppliedRequest>(command.request);
  if (async_ == nullptr || command.incarnation != ps_[command.ps].incarnation ||
      request.identity().lineage() != state_.lineage()) {
    return;
  }
  if (!async_->AddApplied(command.ps, request.epoch(), response)) return;
  // Workers that know this view push to the new process.
  state_.set_view(state_.view() + 1);
  Changed();
  const absl::Status status = async_->Serve(command.ps, state_.view());
  if (!status.ok()) {
    Fail(std::string(status.message()));
    return;
  }
  if (state_.phase() != v1::RunState::PHASE_PREPARING) {
    Note(absl::StrFormat("ps/%d serves again, from %s; what it lacks is computed again", command.ps,
                         has_checkpoint()
                             ? absl::StrCat("the checkpoint of step ", cuts_.durable_version())
                             : "its first values, as there is no checkpoint yet"));
  }
  StartTrainingIfLoaded();
  Progress(now);
}

void TrainingSession::ProgressAsync(absl::Time now) {
  const v1::RunState::Phase phase = state_.phase();
  if (phase == v1::RunState::PHASE_DONE || phase == v1::RunState::PHASE_FAILED) {
    async_->lines().Flush();
  }
  TakeAsyncLines();
  if (phase == v1::RunState::PHASE_TRAINING || phase == v1::RunState::PHASE_STOPPING) {
    // A ps that is lost at the end takes the run back to training.
    SetPhase(stopping_ || async_->ledger().is_done() ? v1::RunState::PHASE_STOPPING
                                                     : v1::RunState::PHASE_TRAINING);
    const std::optional<uint64_t> cut = async_->BeginCut(stopping_);
    if (cut.has_value()) cuts_.Request(*cut);
  }
  if (LinesOfCutAreOut(now)) WriteManifestIfComplete(UINT64_MAX);
  FinishAsync();
  NoteSlowWorker(now);
  CheckWaits(now);
  ExportIfComplete(now);
}

// With a clock bound: names the worker that others may not leave behind. It makes progress, or it
// is taken for hung in the end (ExpireStalled).
void TrainingSession::NoteSlowWorker(absl::Time now) {
  const std::optional<DataLedger::HeldUp> held_up = async_->ledger().WhoIsHeldUp();
  if (!held_up.has_value() || held_up->slowest != slowest_) {
    slowest_ = held_up.has_value() ? std::optional<uint32_t>(held_up->slowest) : std::nullopt;
    slow_note_ = now + options_.wait_note;
  }
  if (!held_up.has_value() || now < slow_note_) return;
  slow_note_ = now + options_.wait_note;
  const Member* member = membership_.Find(TaskId{Job::kWorker, held_up->slowest});
  Note(absl::StrFormat(
      "worker/%d gets no batches: it is %d ahead of worker/%d (%s), and "
      "sync.clock_bound is %d; worker/%d counts as hung when it computes one "
      "batch for %s",
      held_up->worker, held_up->ahead, held_up->slowest, member == nullptr ? "" : member->activity,
      options_.run.sync().clock_bound(), held_up->slowest, absl::FormatDuration(options_.stall)));
}

void TrainingSession::TakeAsyncLines() {
  for (SessionRecord& record : async_->lines().Take()) records_.push_back(std::move(record));
}

// Whether the manifest of the cut under way may be written, as far as metrics.jsonl goes.
bool TrainingSession::LinesOfCutAreOut(absl::Time now) {
  const bool are_out = async_->LinesOfCutAreOut(stopping_);
  TakeAsyncLines();
  if (are_out || !cuts_.has_complete() || async_->ledger().is_evaluating()) {
    lines_deadline_ = absl::InfiniteFuture();
    return are_out;
  }
  lines_deadline_ = std::min(lines_deadline_, now + options_.lines_wait);
  if (now < lines_deadline_) return false;
  Note(absl::StrFormat(
      "metrics.jsonl lacks lines of the checkpoint of step %d: ps/%d did not "
      "report them within %s",
      async_->cut()->name, async_->reporter(), absl::FormatDuration(options_.lines_wait)));
  lines_deadline_ = absl::InfiniteFuture();
  return true;
}

void TrainingSession::FinishAsync() {
  const v1::RunState::Phase phase = state_.phase();
  if (phase == v1::RunState::PHASE_FAILED || phase == v1::RunState::PHASE_DONE) return;
  const bool at_end = async_->final_cut_is_durable();
  const bool stopped =
      stopping_ && (phase == v1::RunState::PHASE_WAITING || async_->last_cut_is_durable());
  if (at_end) stopping_ = false;
  if (at_end || stopped) SetPhase(v1::RunState::PHASE_DONE);
}

}  // namespace shoal

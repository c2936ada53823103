#include "chief/session/async_mode.h"

#include <algorithm>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "base/status_macros.h"

namespace shoal {
namespace {

AsyncSession::Options OptionsFrom(const SessionContext& context) {
  AsyncSession::Options options;
  const v1::RunConfig& run = context.options.run;
  options.ledger.num_workers = context.num_replicas();
  options.ledger.max_steps = run.max_steps();
  options.ledger.num_epochs = run.num_epochs();
  options.ledger.evaluate_every = run.eval_every();
  options.ledger.evaluation_blocks = context.plan->evaluation_blocks;
  options.ledger.clock_bound = run.sync().clock_bound();
  options.num_ps = context.options.num_ps_tasks;
  options.reporter = context.reporter();
  options.save_every = run.checkpoint().save_every();
  if (context.options.manifest.has_value()) {
    options.resumed_cut = context.options.manifest->step();
  }
  return options;
}

}  // namespace

absl::StatusOr<std::unique_ptr<AsyncMode>> AsyncMode::Create(SessionContext* context,
                                                             BadBatches* bad_batches) {
  auto mode = absl::WrapUnique(new AsyncMode(context, bad_batches, OptionsFrom(*context)));
  if (context->options.manifest.has_value()) {
    const absl::Status status = mode->async_.Restore(context->options.manifest->ledger());
    if (!status.ok()) return absl::FailedPreconditionError(status.message());
  }
  return mode;
}

AsyncMode::AsyncMode(SessionContext* context, BadBatches* bad_batches,
                     const AsyncSession::Options& options)
    : context_(*context),
      bad_batches_(*bad_batches),
      async_(options, context->plan->steps),
      reloads_(context, &async_) {}

void AsyncMode::OnTaskLost(TaskId task, uint64_t incarnation) {
  if (task.job == Job::kWorker) {
    async_.OnWorkerLost(task.index, incarnation);
  } else if (task.job == Job::kPs) {
    async_.OnPsLost(task.index);
    context_.cuts.OnRollback();  // No cut can be completed without the ps.
    context_.ps[task.index].loaded_lineage = 0;
  }
}

absl::Status AsyncMode::ReportSteps(absl::Time now, const v1::ReportStepsRequest& request) {
  AsyncLines& lines = async_.lines();
  const uint64_t newest = lines.newest();
  absl::Status status;
  for (v1::StepReport report : request.steps()) {
    context_.NameFigures(&report);
    status = lines.Add(request.identity().incarnation(), report);
    if (status.ok()) continue;
    if (absl::IsFailedPrecondition(status)) {
      context_.NoteGap(now, report.step(), lines.newest());
      status = absl::OkStatus();
    }
    break;
  }
  if (lines.newest() != newest) context_.progress.OnProgress(now);
  return status;
}

absl::Status AsyncMode::AddEvaluation(absl::Time now, const v1::ReportEvaluationRequest& request,
                                      const EvaluationSums& sums) {
  const uint64_t version = request.version();
  if (!async_.ledger().FinishBlock(version, request.block())) return absl::OkStatus();
  context_.progress.OnProgress(now);
  EvaluationLedger& evaluations = *context_.evaluations;
  evaluations.Add(version, request.block(), sums);
  evaluations.ForgetBelow(version);
  const std::optional<EvaluationSums> total = evaluations.Total(version);
  if (total.has_value()) async_.lines().SetEvaluation(version, *total);
  return absl::OkStatus();
}

void AsyncMode::ReportBadBatch(const BadBatchReport& report) {
  DataLedger& ledger = async_.ledger();
  const BatchKey& batch = report.batch;
  const bool skipped = report.is_certain
                           ? ledger.Skip(batch, report.detail)
                           : ledger.ReportCrash(batch, report.worker.index, report.incarnation);
  if (!skipped) return;
  // A worker that had the batch before may wake up and push it: the ps refuse it.
  bad_batches_.decisions().Announce(batch);
  bad_batches_.Publish();
  bad_batches_.EndIfDiverging(ledger.skipped());
}

absl::StatusOr<v1::LeaseBatchesResponse> AsyncMode::LeaseBatches(
    absl::Time now, const v1::LeaseBatchesRequest& request) {
  if (request.finished_size() > 0) context_.progress.OnProgress(now);
  if (!context_.reachability.MayWork(request.identity().member().index())) {
    // It gets neither batches nor blocks of the test split: no other worker may have to wait for
    // it.
    v1::LeaseBatchesResponse later;
    later.set_epoch_ending(true);
    return later;
  }
  const bool may_lease =
      context_.phases.phase() == v1::RunState::PHASE_TRAINING && !context_.phases.is_interrupted();
  return async_.ledger().LeaseBatches(request, may_lease);
}

bool AsyncMode::CanCut() const {
  return context_.phases.is_running() || context_.phases.phase() == v1::RunState::PHASE_PREPARING;
}

uint64_t AsyncMode::RequestCut() {
  if (context_.phases.phase() == v1::RunState::PHASE_WAITING) {
    return context_.cuts.durable_version();
  }
  async_.WantCut();
  return async_.NextCutName();
}

bool AsyncMode::SaveNow() {
  async_.WantCut();
  return true;
}

uint64_t AsyncMode::StepsPerEpoch() const { return context_.plan->steps.batches_per_epoch(); }

void AsyncMode::OnShard(uint32_t ps, const v1::ReportShardRequest& shard) {
  async_.OnShard(ps, shard.version(), shard.reported_steps());
}

void AsyncMode::OnManifestBegun(uint64_t version, v1::Manifest* manifest) {
  if (async_.cut() != nullptr) manifest->set_ledger(async_.cut()->ledger);
  async_.OnManifestBegun(version);
}

void AsyncMode::OnCutDurable(uint64_t version, const std::string& directory) {
  CutLedger& cuts = context_.cuts;
  // The cut is good even if a ps was lost meanwhile, which has made the ledger forget it. The first
  // one may contain no update.
  if (!context_.has_checkpoint() || version > cuts.durable_version()) {
    cuts.Restore(version, directory);
  }
  async_.OnCutDurable(version);
  if (cuts.requested() && cuts.requested_version() <= version) cuts.EndRequest();
}

std::optional<uint64_t> AsyncMode::AwaitedFinalCut() const {
  if (async_.cut() == nullptr || !async_.cut()->is_final) return std::nullopt;
  return async_.cut()->name;
}

void AsyncMode::OnCutFailed(uint64_t version) {
  if (IsFinalCut(version)) final_cut_has_failed_ = true;
  async_.OnCutFailed(version);
}

void AsyncMode::Advance(absl::Time now) {
  RunPhases& phases = context_.phases;
  if (phases.is_over()) async_.lines().Flush();
  TakeLines();
  if (!phases.is_running()) return;
  // A ps that is lost at the end takes the run back to training.
  const bool stops = phases.is_interrupted() || async_.ledger().is_done();
  phases.Set(stops ? v1::RunState::PHASE_STOPPING : v1::RunState::PHASE_TRAINING);
  if (std::exchange(final_cut_has_failed_, false)) next_cut_ = now + kFinalRetry;
  if (now < next_cut_) return;
  const std::optional<uint64_t> cut = async_.BeginCut(phases.is_interrupted());
  if (cut.has_value()) context_.cuts.Request(*cut);
}

void AsyncMode::TakeLines() {
  for (SessionRecord& record : async_.lines().Take()) context_.log.Add(std::move(record));
}

std::optional<uint64_t> AsyncMode::NewestWrittenVersion(absl::Time now) {
  if (!LinesOfCutAreWritten(now)) return std::nullopt;
  return UINT64_MAX;
}

bool AsyncMode::LinesOfCutAreWritten(absl::Time now) {
  const bool are_written = async_.LinesOfCutAreOut(context_.phases.is_interrupted());
  TakeLines();
  if (are_written || !context_.cuts.has_complete() || async_.ledger().is_evaluating()) {
    lines_deadline_ = absl::InfiniteFuture();
    return are_written;
  }
  const absl::Duration wait = context_.options.lines_wait;
  lines_deadline_ = std::min(lines_deadline_, now + wait);
  if (now < lines_deadline_) return false;
  context_.log.Note(absl::StrFormat(
      "metrics.jsonl lacks lines of the checkpoint of step %d: ps/%d did not report them within %s",
      async_.cut()->name, async_.reporter(), absl::FormatDuration(wait)));
  lines_deadline_ = absl::InfiniteFuture();
  return true;
}

void AsyncMode::FinishIfDurable(absl::Time now) {
  RunPhases& phases = context_.phases;
  if (!phases.is_over()) {
    const bool is_stopped =
        phases.is_interrupted() &&
        (phases.phase() == v1::RunState::PHASE_WAITING || async_.last_cut_is_durable());
    if (async_.final_cut_is_durable()) {
      phases.Finish(/*at_end=*/true, context_.LastCheckpoint());
    } else if (is_stopped) {
      context_.FinishInterrupted();
    }
  }
  NoteSlowWorker(now);
}

// The worker makes progress, or it counts as hung in the end and loses its place.
void AsyncMode::NoteSlowWorker(absl::Time now) {
  const std::optional<DataLedger::HeldUp> held_up = async_.ledger().FindHeldUpWorker();
  if (!held_up.has_value() || held_up->slowest != slowest_) {
    slowest_ = held_up.has_value() ? std::optional<uint32_t>(held_up->slowest) : std::nullopt;
    slow_note_ = now + context_.options.wait_note;
  }
  if (!held_up.has_value() || now < slow_note_) return;
  slow_note_ = now + context_.options.wait_note;
  const Member* member = context_.membership.Find(TaskId{Job::kWorker, held_up->slowest});
  context_.log.NoteEvent(absl::StrFormat(
      "worker/%d gets no batches: it is %d ahead of worker/%d (%s), and sync.clock_bound is %d; "
      "worker/%d counts as hung when it computes one batch for %s",
      held_up->worker, held_up->ahead, held_up->slowest, member == nullptr ? "" : member->activity,
      context_.options.run.sync().clock_bound(), held_up->slowest,
      absl::FormatDuration(context_.options.stall)));
}

void AsyncMode::OnRunOver() {
  async_.lines().Flush();
  TakeLines();
}

}  // namespace shoal

#include "chief/session/sync_mode.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"

namespace shoal {

SyncMode::SyncMode(SessionContext* context, BadBatches* bad_batches)
    : context_(*context),
      bad_batches_(*bad_batches),
      newest_step_(context->cuts.durable_version()) {
  const double clip = context_.options.run.optimizer().clip_by_global_norm();
  if (clip <= 0) return;
  uint64_t num_slices = 0;
  for (uint32_t slice = 0; slice < context_.plan->table.size(); ++slice) {
    if (HasGradient(slice)) ++num_slices;
  }
  norms_.emplace(clip, num_slices);
}

bool SyncMode::HasGradient(uint32_t slice) const {
  const RunPlan& plan = *context_.plan;
  return slice < plan.table.size() &&
         plan.variables[plan.table[slice].variable].update() == v1::UPDATE_KIND_OPTIMIZER;
}

uint32_t SyncMode::num_epochs() const { return context_.plan->steps.At(newest_step_).epoch; }

void SyncMode::OnRollback(uint64_t version) {
  if (norms_.has_value()) norms_->Clear();
  // Lines up to the cut still wait for their evaluations.
  while (!held_lines_.empty() && held_lines_.back().step() > version) held_lines_.pop_back();
  newest_step_ = version;
}

void SyncMode::OnTrainingStarts() {
  if (context_.phases.is_interrupted()) context_.cuts.Request(newest_step_ + 2);
}

absl::Status SyncMode::ReportSteps(absl::Time now, const v1::ReportStepsRequest& request) {
  if (context_.phases.is_over()) return absl::OkStatus();
  for (const v1::StepReport& report : request.steps()) {
    if (report.step() <= newest_step_) continue;
    if (report.step() != newest_step_ + 1) {
      context_.NoteGap(now, report.step(), newest_step_);
      break;
    }
    newest_step_ = report.step();
    context_.progress.OnProgress(now);
    held_lines_.push_back(report);
  }
  return absl::OkStatus();
}

absl::Status SyncMode::AddEvaluation(absl::Time now, const v1::ReportEvaluationRequest& request,
                                     const EvaluationSums& sums) {
  const uint64_t version = request.version();
  if (!context_.plan->evaluations.Contains(context_.plan->steps, version)) {
    return absl::InvalidArgumentError(
        absl::StrFormat("version: this run does not evaluate version %d", version));
  }
  EvaluationLedger& evaluations = *context_.evaluations;
  const uint64_t missing = evaluations.NumMissing(version);
  evaluations.Add(version, request.block(), sums);
  if (evaluations.NumMissing(version) < missing) context_.progress.OnProgress(now);
  return absl::OkStatus();
}

absl::Status SyncMode::ReportNorms(const v1::ReportNormsRequest& request) {
  if (!norms_.has_value()) return TrainingMode::ReportNorms(request);
  if (request.slices_size() != request.squared_norms_size()) {
    return absl::InvalidArgumentError("squared_norms: one for each of slices");
  }
  if (request.step() > context_.plan->last_step) {
    return absl::InvalidArgumentError(absl::StrFormat("step: %d, but the run ends at %d",
                                                      request.step(), context_.plan->last_step));
  }
  for (const uint32_t slice : request.slices()) {
    if (!HasGradient(slice)) {
      return absl::InvalidArgumentError(absl::StrFormat("slices: %d has no gradient", slice));
    }
  }
  for (int i = 0; i < request.slices_size(); ++i) {
    norms_->Add(request.step(), request.slices(i), request.squared_norms(i));
  }
  if (request.step() > 4) norms_->ForgetBelow(request.step() - 4);
  return absl::OkStatus();
}

std::optional<double> SyncMode::NormScale(uint64_t step) const {
  return norms_.has_value() ? norms_->Scale(step) : std::nullopt;
}

void SyncMode::ReportBadBatch(const BadBatchReport& report) {
  bad_batches_.decisions().Report(report.batch, report.incarnation, report.is_certain,
                                  report.detail);
}

absl::StatusOr<v1::LeaseBatchesResponse> SyncMode::LeaseBatches(
    absl::Time /*now*/, const v1::LeaseBatchesRequest& /*request*/) {
  return absl::FailedPreconditionError("sync.sync_replicas is true: batches are not leased");
}

bool SyncMode::CanCut() const {
  const v1::RunState::Phase phase = context_.phases.phase();
  return phase == v1::RunState::PHASE_TRAINING ||
         (phase == v1::RunState::PHASE_STOPPING && context_.cuts.requested());
}

uint64_t SyncMode::RequestCut() {
  const v1::RunState::Phase phase = context_.phases.phase();
  // OnTrainingStarts asks for it.
  if (phase == v1::RunState::PHASE_PREPARING) return newest_step_ + 2;
  if (phase == v1::RunState::PHASE_TRAINING) context_.cuts.Request(newest_step_ + 2);
  if (context_.phases.is_running() && context_.cuts.requested()) {
    return context_.cuts.requested_version();
  }
  return context_.cuts.durable_version();
}

bool SyncMode::CanReachCut() const {
  const std::vector<uint32_t> owners = context_.cuts.PsWithSlices();
  const bool all_live = std::all_of(owners.begin(), owners.end(),
                                    [this](uint32_t ps) { return context_.IsLivePs(ps); });
  return all_live && context_.cuts.requested() && !context_.cuts.SomePsWaits() &&
         held_lines_.empty();
}

bool SyncMode::IsNearEnd() const { return newest_step_ + 2 >= context_.plan->last_step; }

bool SyncMode::SaveNow() {
  if (IsNearEnd()) return false;
  context_.cuts.Request(newest_step_ + 2);
  return true;
}

uint64_t SyncMode::StepsPerEpoch() const { return context_.plan->steps.steps_per_epoch(); }

absl::Status SyncMode::CheckVersion(uint64_t version) const {
  if (version <= context_.plan->last_step) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrFormat("version: %d, but the run ends at %d", version, context_.plan->last_step));
}

void SyncMode::OnCutDurable(uint64_t version, const std::string& /*directory*/) {
  CutLedger& cuts = context_.cuts;
  // The request of a stop lasts until FinishIfDurable has seen it.
  if (context_.phases.is_interrupted()) return;
  if (cuts.requested() && cuts.requested_version() <= version) cuts.EndRequest();
}

bool SyncMode::IsFinalCut(uint64_t version) const { return version == context_.plan->last_step; }

std::optional<uint64_t> SyncMode::AwaitedFinalCut() const {
  if (newest_step_ != context_.plan->last_step) return std::nullopt;
  return newest_step_;
}

void SyncMode::OnCutFailed(uint64_t /*version*/) { has_failed_cut_ = true; }

void SyncMode::RequestLastCut(absl::Time now) {
  if (std::exchange(has_failed_cut_, false)) next_cut_ = now + kFinalRetry;
  if (context_.phases.phase() != v1::RunState::PHASE_TRAINING) return;
  if (context_.EndsWithoutSteps()) {
    context_.cuts.RequestReached(newest_step_);
  } else if (context_.phases.is_interrupted() && now >= next_cut_) {
    context_.cuts.Request(newest_step_ +
                          2);  // Has no effect unless the cut of the stop has failed.
  }
}

void SyncMode::Advance(absl::Time now) {
  const RunPlan& plan = *context_.plan;
  EvaluationLedger& evaluations = *context_.evaluations;
  while (!held_lines_.empty()) {
    StepLine line{held_lines_.front(), std::nullopt};
    context_.NameFigures(&line.report);
    const uint64_t step = line.report.step();
    if (plan.evaluations.Contains(plan.steps, step) && evaluations.num_blocks() > 0) {
      line.evaluation = evaluations.Total(step);
      if (!line.evaluation.has_value()) {
        if (!WillLackEvaluation(step)) break;
        context_.log.NoteTrouble(
            absl::StrFormat("no evaluation of step %d: %s", step,
                            context_.phases.steps_have_ended()
                                ? "the steps ended before workers had sent every part of it"
                                : "a worker died with a part of it"));
      }
    }
    context_.log.Add(std::move(line));
    held_lines_.pop_front();
    if (step > 1) evaluations.ForgetBelow(std::min(step, context_.cuts.durable_version()));
  }
  RequestLastCut(now);
}

bool SyncMode::WillLackEvaluation(uint64_t step) const {
  // A worker that contributes to a later step has evaluated its blocks before. A block that is
  // missing then was with a worker that died and whose batch is skipped.
  const uint64_t last_step = context_.plan->last_step;
  const bool last_is_evaluated =
      step + 1 == last_step && context_.evaluations->NumMissing(last_step) == 0;
  return newest_step_ >= step + 2 || last_is_evaluated || context_.phases.steps_have_ended();
}

// A durable cut has all its lines: those of later steps are void if the run goes back to it.
std::optional<uint64_t> SyncMode::NewestWrittenVersion(absl::Time /*now*/) {
  return held_lines_.empty() ? newest_step_ : held_lines_.front().step() - 1;
}

bool SyncMode::IsAtEnd() const {
  const uint64_t last_step = context_.plan->last_step;
  const EvaluationLedger& evaluations = *context_.evaluations;
  return context_.cuts.durable_version() == last_step && held_lines_.empty() &&
         newest_step_ == last_step && evaluations.NumMissing(last_step) == 0;
}

void SyncMode::FinishIfDurable(absl::Time /*now*/) {
  RunPhases& phases = context_.phases;
  if (phases.is_over()) return;
  const CutLedger& cuts = context_.cuts;
  if (IsAtEnd()) return phases.Finish(/*at_end=*/true, context_.LastCheckpoint());
  const bool is_stopped =
      phases.is_interrupted() &&
      (phases.phase() == v1::RunState::PHASE_WAITING ||
       (cuts.requested() && cuts.durable_version() >= cuts.requested_version()));
  if (!is_stopped) return;
  ForgetLinesAbove(cuts.newest_taken());
  context_.FinishInterrupted();
}

void SyncMode::ForgetLinesAbove(uint64_t version) {
  if (newest_step_ <= version) return;
  newest_step_ = version;
  held_lines_.clear();  // A durable cut has all its lines.
  context_.log.Add(RolledBack{version, "stopped", /*lines_only=*/true});
}

}  // namespace shoal

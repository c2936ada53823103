// What tasks report: steps, shards, evaluations, norms. Bad batches are in
// training_session_faults.cc.
#include "absl/strings/str_format.h"

#include "base/status_macros.h"
#include "chief/training_session.h"
#include "runtime/rpc/receiver_rules.h"

namespace shoal {

absl::Status TrainingSession::CheckReporter(const v1::ReportStepsRequest& request) const {
  const v1::Member& member = request.identity().member();
  if (plan_ == nullptr) return absl::FailedPreconditionError("steps: the run has no plan yet");
  if (request.steps_size() == 0) return absl::OkStatus();
  if (member.index() != reporter()) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "identity.member: ps/%d reports steps, but ps/%d counts them", member.index(), reporter()));
  }
  for (const v1::StepReport& report : request.steps()) {
    if (report.step() == 0) return absl::InvalidArgumentError("steps: they count from 1");
  }
  return absl::OkStatus();
}

uint32_t TrainingSession::reporter() const {
  const auto slice = static_cast<int>(plan_->table.report_slice());
  return slice < plan_->shard_map.owner_size() ? plan_->shard_map.owner(slice) : 0;
}

absl::Status TrainingSession::ReportSteps(absl::Time now, const v1::ReportStepsRequest& request) {
  RETURN_IF_ERROR(CheckReport(now, request.identity(), Job::kPs));
  RETURN_IF_ERROR(CheckReporter(request));
  for (const v1::PoisonedSlice& poisoned : request.poisoned()) {
    RETURN_IF_ERROR(ReportPoisoned(poisoned));
  }
  if (async_ != nullptr) {
    const uint64_t newest = async_->lines().newest();
    const absl::Status status = ReportAsyncSteps(now, request);
    if (async_->lines().newest() != newest) WentOn(now);
    Progress(now);
    return status;
  }
  if (state_.phase() == v1::RunState::PHASE_DONE) return absl::OkStatus();
  for (const v1::StepReport& report : request.steps()) {
    if (report.step() <= newest_step_) continue;
    if (report.step() != newest_step_ + 1) {
      NoteGap(now, report.step(), newest_step_);
      break;
    }
    newest_step_ = report.step();
    WentOn(now);
    held_lines_.push_back(report);
  }
  Progress(now);
  return absl::OkStatus();
}

void TrainingSession::NoteGap(absl::Time now, uint64_t step, uint64_t newest) {
  NoteRefusal(now, absl::StrFormat("ps/%d reports step %d after step %d: it is to send those "
                                   "between them first",
                                   reporter(), step, newest));
}

uint64_t TrainingSession::reported_steps() const {
  if (state_.phase() == v1::RunState::PHASE_DONE || state_.phase() == v1::RunState::PHASE_FAILED) {
    return UINT64_MAX;
  }
  return async_ == nullptr ? newest_step_ : async_->lines().newest();
}

absl::Status TrainingSession::ReportShard(absl::Time now, const v1::ReportShardRequest& request) {
  RETURN_IF_ERROR(CheckReport(now, request.identity(), Job::kPs));
  const TaskId task = TaskOf(request.identity().member());
  if (plan_ == nullptr) return absl::FailedPreconditionError("version: the run has no plan yet");
  if (request.is_export()) return ReportExport(now, request);
  if (async_ == nullptr && request.version() > plan_->last_step) {
    return absl::InvalidArgumentError(absl::StrFormat("version: %d, but the run ends at %d",
                                                      request.version(), plan_->last_step));
  }
  const bool is_under_way = async_ == nullptr || async_->IsUnderWay(request.version());
  // What this ps has left there, be it a whole shard, is of no use.
  if (cuts_.HasFailed(request.version())) records_.push_back(CutGivenUp{request.directory(), ""});
  if (!request.error().empty()) {
    Note(absl::StrFormat("no checkpoint at step %d: %s: %s", request.version(), task.ToString(),
                         request.error()));
    if (is_under_way) GiveUpCut(request.version(), request.directory(), request.error());
  } else if (is_under_way) {
    WentOn(now);
    cuts_.AddShard(task.index, request.version(), request.directory(), request.file());
    if (options_.export_every.has_value()) {
      exports_.OnShard(request.version(), stopping_ || IsFinalCut(request.version()));
    }
    if (async_ != nullptr) {
      async_->OnShard(task.index, request.version(), request.reported_steps());
    }
  }
  Progress(now);
  return absl::OkStatus();
}

absl::Status TrainingSession::ReportEvaluation(absl::Time now,
                                               const v1::ReportEvaluationRequest& request) {
  RETURN_IF_ERROR(CheckReport(now, request.identity(), Job::kWorker));
  if (!evaluations_.has_value()) return absl::FailedPreconditionError("nothing to evaluate yet");
  if (request.block() >= evaluations_->num_blocks()) {
    return absl::InvalidArgumentError(absl::StrFormat("block: %d, but there are only %d",
                                                      request.block(), evaluations_->num_blocks()));
  }
  const EvaluationSums sums{request.loss_sum(), request.correct(), request.examples()};
  if (async_ != nullptr) {
    AddAsyncEvaluation(now, request, sums);
  } else {
    RETURN_IF_ERROR(AddEvaluation(now, request, sums));
  }
  Progress(now);
  return absl::OkStatus();
}

absl::Status TrainingSession::AddEvaluation(absl::Time now,
                                            const v1::ReportEvaluationRequest& request,
                                            const EvaluationSums& sums) {
  const uint64_t version = request.version();
  if (!plan_->evaluations.Contains(plan_->steps, version)) {
    return absl::InvalidArgumentError(
        absl::StrFormat("version: this run does not evaluate version %d", version));
  }
  const uint64_t missing = evaluations_->NumMissing(version);
  evaluations_->Add(version, request.block(), sums);
  if (evaluations_->NumMissing(version) < missing) WentOn(now);
  return absl::OkStatus();
}

absl::Status TrainingSession::ReportNorms(absl::Time now, const v1::ReportNormsRequest& request) {
  RETURN_IF_ERROR(CheckReport(now, request.identity(), Job::kPs));
  if (!norms_.has_value())
    return absl::FailedPreconditionError("this run does not clip by global norm");
  if (request.slices_size() != request.squared_norms_size()) {
    return absl::InvalidArgumentError("squared_norms: one for each of slices");
  }
  if (request.step() > plan_->last_step)
    return absl::InvalidArgumentError(
        absl::StrFormat("step: %d, but the run ends at %d", request.step(), plan_->last_step));
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

bool TrainingSession::HasGradient(uint32_t slice) const {
  return slice < plan_->table.size() &&
         plan_->variables[plan_->table[slice].variable].update() == v1::UPDATE_KIND_OPTIMIZER;
}

std::optional<double> TrainingSession::NormScale(uint64_t lineage, uint64_t step) const {
  if (lineage != state_.lineage() || !norms_.has_value()) return std::nullopt;
  return norms_->Scale(step);
}

}  // namespace shoal

// Batches that are not finite or that crash, and updates that are not finite.
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "base/status_macros.h"
#include "chief/training_session.h"

namespace shoal {
namespace {

// A run that skips so many batches next to each other will not recover (docs/failure_model.md).
constexpr uint64_t kMostSkipsInARow = 20;

}  // namespace

absl::Status TrainingSession::ReportBadBatch(absl::Time now,
                                             const v1::ReportBadBatchRequest& request) {
  TaskId task = TaskOf(request.identity().member());
  const uint64_t incarnation = request.identity().incarnation();
  const BatchKey batch = KeyOf(request.batch());
  bool certain = request.reason() == v1::ReportBadBatchRequest::REASON_NON_FINITE;
  std::string detail = request.detail();
  if (request.has_died()) {  // From a launcher, which is no member.
    if (request.identity().run_id() != options_.run_id && !request.identity().run_id().empty()) {
      return absl::FailedPreconditionError("run_id: another run");
    }
    task = TaskOf(request.died());
    if (task.job != Job::kWorker) {
      return absl::InvalidArgumentError("died: only workers compute batches");
    }
    RETURN_IF_ERROR(issued_.Check(task, incarnation));
    membership_.Disconnect(now, task, incarnation);
    certain = false;
    detail = absl::StrCat(task.ToString(), " crashed on it: ", request.detail());
  } else {
    RETURN_IF_ERROR(CheckReport(now, request.identity(), Job::kWorker));
  }
  if (plan_ == nullptr || !plan_->steps.Covers(batch)) {
    return absl::InvalidArgumentError(
        absl::StrCat("batch: this run has no ", ToString(batch), " to compute"));
  }
  if (request.has_died()) RETURN_IF_ERROR(issued_.RecordDeath(task, incarnation, batch));
  if (async_ != nullptr) {
    ReportAsyncBadBatch(batch, task, incarnation, certain, detail);
    Progress(now);
  } else {
    decisions_.Report(batch, incarnation, certain, detail);
    Decide(now);
  }
  return absl::OkStatus();
}

void TrainingSession::OnWithholdAnswer(absl::Time now, const PsCommand& command,
                                       const v1::WithholdBatchResponse& response) {
  const auto& request = std::get<v1::WithholdBatchRequest>(command.request);
  if (request.identity().lineage() != state_.lineage() || response.ignored()) return;
  decisions_.OnWithheld(command.ps, KeyOf(request.batch()), request.number(), response.all_have(),
                        response.none_has());
  Decide(now);
}

void TrainingSession::OnDecideAnswer(const PsCommand& command) {
  const auto& request = std::get<v1::DecideBatchRequest>(command.request);
  if (request.identity().lineage() != state_.lineage()) return;
  decisions_.OnDecisionAcknowledged(command.ps, KeyOf(request.batch()), request.number());
}

void TrainingSession::Decide(absl::Time now) {
  const uint64_t changes = decisions_.changes();
  const bool rollback = decisions_.Decide();
  UpdateDecisions();
  if (decisions_.changes() != changes && FailIfDiverging(decisions_.skipped())) return;
  if (rollback) Rollback(now, "a bad batch had reached some slices; it is skipped now");
}

void TrainingSession::UpdateDecisions() {
  const uint64_t changes = decisions_.changes() + (async_ == nullptr ? 0 : skipped().size());
  if (decisions_seen_ == changes) return;
  decisions_seen_ = changes;
  state_.clear_skipped();
  state_.clear_delivered();
  for (const auto& [batch, reason] : skipped()) *state_.add_skipped() = ToProto(batch);
  for (const BatchKey& batch : decisions_.delivered()) *state_.add_delivered() = ToProto(batch);
  Changed();
}

bool TrainingSession::FailIfDiverging(const std::map<BatchKey, std::string>& skipped) {
  if (MostSkippedInARow(skipped) < kMostSkipsInARow) return false;
  Fail(absl::StrFormat(
      "%d batches in a row are not finite: training diverges; lower --learning_rate or clip "
      "gradients. %s",
      kMostSkipsInARow, StandingCheckpoint()));
  return true;
}

absl::Status TrainingSession::ReportPoisoned(const v1::PoisonedSlice& poisoned) {
  if (plan_ == nullptr || poisoned.slice() >= plan_->table.size()) {
    return absl::InvalidArgumentError("poisoned.slice: there is no such slice");
  }
  const v1::VariableSpec& variable = plan_->variables[plan_->table[poisoned.slice()].variable];
  Fail(absl::StrFormat(
      "variable %s is not finite after the update of step %d: training diverges; lower "
      "--learning_rate (%g there) or clip gradients. %s",
      variable.name(), poisoned.step(), poisoned.learning_rate(), StandingCheckpoint()));
  return absl::OkStatus();
}

std::string TrainingSession::StandingCheckpoint() const {
  if (!has_checkpoint()) return "There is no checkpoint yet";
  return absl::StrFormat("The checkpoint of step %d, %s, stands", cuts_.durable_version(),
                         cuts_.durable_directory());
}

}  // namespace shoal

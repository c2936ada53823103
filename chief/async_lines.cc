#include "chief/async_lines.h"

#include <utility>

#include "absl/strings/str_format.h"

namespace shoal {

absl::Status AsyncLines::Add(uint64_t incarnation, const v1::StepReport& report) {
  if (incarnation < incarnation_) return absl::OkStatus();
  if (incarnation > incarnation_) {
    incarnation_ = incarnation;
    newest_ = report.step() - 1;
    if (held_.has_value() && held_->report.step() > newest_) held_.reset();
    if (held_.has_value()) records_.push_back(*std::exchange(held_, std::nullopt));
    records_.push_back(RolledBack{newest_, "the ps that counts steps came back", true});
  }
  if (report.step() <= newest_) return absl::OkStatus();
  if (report.step() != newest_ + 1) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "steps: %d reported after %d; report them in order", report.step(), newest_));
  }
  if (held_.has_value()) records_.push_back(*std::move(held_));
  held_ = StepLine{report, std::nullopt};
  newest_ = report.step();
  if (evaluation_.has_value() && newest_ >= evaluation_->updates) Attach();
  return absl::OkStatus();
}

void AsyncLines::Attach() {
  if (!held_.has_value() || !evaluation_.has_value()) return;
  held_->evaluation = std::exchange(evaluation_, std::nullopt)->sums;
}

void AsyncLines::SetEvaluation(uint64_t updates, const EvaluationSums& sums) {
  Attach();  // one that still waits would be lost
  evaluation_ = Evaluation{updates, sums};
  if (newest_ >= updates) Attach();
}

void AsyncLines::Flush() {
  Attach();
  if (held_.has_value()) records_.push_back(*std::exchange(held_, std::nullopt));
}

std::vector<SessionRecord> AsyncLines::Take() { return std::exchange(records_, {}); }

}  // namespace shoal

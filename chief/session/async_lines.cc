#include "chief/session/async_lines.h"

#include <utility>

#include "absl/strings/str_format.h"

namespace shoal {
namespace {

constexpr size_t kRememberedEvaluations = 64;

}  // namespace

absl::Status AsyncLines::Add(uint64_t incarnation, const v1::StepReport& report) {
  if (report.step() == 0) return absl::InvalidArgumentError("steps: they count from 1");
  if (incarnation < incarnation_) return absl::OkStatus();
  if (incarnation > incarnation_) {
    incarnation_ = incarnation;
    newest_ = report.step() - 1;
    CutBack();
  }
  if (report.step() <= newest_) return absl::OkStatus();
  if (report.step() != newest_ + 1) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "steps: %d reported after %d; report them in order", report.step(), newest_));
  }
  if (held_.has_value()) records_.push_back(*std::move(held_));
  held_ = StepLine{report, std::nullopt};
  newest_ = report.step();
  Attach(false);
  return absl::OkStatus();
}

void AsyncLines::Restart(uint64_t incarnation, uint64_t step) {
  if (incarnation <= incarnation_) return;
  newest_ = step;
  CutBack();
}

void AsyncLines::Release(uint64_t step) {
  if (held_.has_value() && held_->report.step() == step) {
    records_.push_back(*std::exchange(held_, std::nullopt));
  }
}

void AsyncLines::CutBack() {
  if (held_.has_value() && held_->report.step() > newest_) held_.reset();
  if (held_.has_value()) records_.push_back(*std::exchange(held_, std::nullopt));
  const auto first = placed_.upper_bound(newest_);
  for (auto it = first; it != placed_.end(); ++it) {
    waiting_[it->second.updates] = it->second.sums;
  }
  placed_.erase(first, placed_.end());
  records_.push_back(RolledBack{newest_, "the ps that counts steps came back", true});
}

void AsyncLines::Attach(bool must) {
  if (!held_.has_value() || held_->evaluation.has_value() || waiting_.empty()) return;
  const auto [updates, sums] = *waiting_.begin();
  if (updates > newest_ && !must) return;
  waiting_.erase(waiting_.begin());
  held_->evaluation = sums;
  placed_[newest_] = Evaluation{updates, sums};
  if (placed_.size() > kRememberedEvaluations) placed_.erase(placed_.begin());
}

void AsyncLines::SetEvaluation(uint64_t updates, const EvaluationSums& sums) {
  waiting_[updates] = sums;
  Attach(false);
}

void AsyncLines::Flush() {
  Attach(true);
  if (held_.has_value()) records_.push_back(*std::exchange(held_, std::nullopt));
}

std::vector<SessionRecord> AsyncLines::Take() { return std::exchange(records_, {}); }

}  // namespace shoal

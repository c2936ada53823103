#include "runtime/checkpoint/finish_detector.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

#include "base/file_system.h"
#include "runtime/checkpoint/checkpoint_directory.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/checkpoint/training_complete.h"
#include "runtime/observability/summary.h"

namespace shoal {
namespace {

// The number of leases after which a chief that has not answered is assumed to have ended, if its
// run has finished.
constexpr int kDeadChief = 3;

}  // namespace

FinishDetector::FinishDetector(FileSystem* file_system, const Clock* clock, v1::RunConfig run,
                               absl::Duration lease)
    : file_system_(file_system),
      clock_(clock),
      run_(std::move(run)),
      patience_(kDeadChief * lease),
      before_(FinishedSummary()) {}

bool FinishDetector::IsOver() {
  const std::string finished = FinishedSummary();
  if (!finished.empty() && finished != before_) return true;
  // A chief that was killed after its last checkpoint has written no summary, and none may follow
  // it.
  const absl::Time now = clock_->Now();
  unanswered_since_ = std::min(unanswered_since_, now);
  return now - unanswered_since_ >= patience_ && NothingIsLeft();
}

std::string FinishDetector::FinishedSummary() const {
  const absl::StatusOr<Summary> summary = ReadSummary(file_system_, run_.out());
  return summary.ok() && summary->status == "finished" ? SummaryJson(*summary) : "";
}

bool FinishDetector::NothingIsLeft() const {
  const std::string root = JoinPath(run_.out(), "checkpoints");
  if (!FileExists(*file_system_, root)) return false;  // Opening would make it.
  const auto checkpoints = CheckpointDirectory::Open(*file_system_, root);
  if (!checkpoints.ok()) return false;
  const absl::StatusOr<std::vector<CheckpointName>> names = (*checkpoints)->List();
  if (!names.ok() || names->empty()) return false;
  const absl::StatusOr<v1::Manifest> newest =
      ReadManifest(*file_system_, (*checkpoints)->GetPath(names->front().ToString()));
  if (!newest.ok()) return false;
  const absl::StatusOr<bool> at_end = IsTrainingComplete(run_, *newest);
  return at_end.ok() && *at_end;
}

}  // namespace shoal

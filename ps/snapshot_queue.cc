#include "ps/snapshot_queue.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"

#include "base/log.h"

namespace shoal {
namespace {

// The most reports of given-up snapshots to keep. The oldest are dropped, because newer cuts give
// the chief the same information.
constexpr size_t kMostReports = 64;
// The most requests of the chief that are remembered: it requests one cut at a time.
constexpr size_t kMostAsked = 64;
// The time between two attempts to write the run's last version.
constexpr absl::Duration kRewrite = absl::Seconds(2);

int TrailingZeros(uint64_t version) { return version == 0 ? 0 : __builtin_ctzll(version); }

// Returns whether the chief's own logic has refused the report, so that it would refuse it again.
// Errors from anything in between do not count.
bool IsRefused(const absl::Status& status) {
  return absl::IsAborted(status) || absl::IsFailedPrecondition(status) ||
         absl::IsInvalidArgument(status);
}

}  // namespace

SnapshotQueue::SnapshotQueue(uint32_t ps_index)
    : lineage_(std::make_shared<SnapshotLineage>()),
      backoff_(ps_index, absl::Milliseconds(50), absl::Seconds(1)) {}

void SnapshotQueue::StartLineage(SnapshotLineage lineage) {
  lineage_ = std::make_shared<const SnapshotLineage>(std::move(lineage));
  asked_.clear();
  gathering_.clear();
  next_.reset();
  write_at_ = absl::InfinitePast();
  written_.reset();
  held_ = Snapshot();
  waiting_.reset();
  reports_.clear();
  send_at_ = absl::InfinitePast();
  backoff_.Reset();
}

void SnapshotQueue::Ask(uint64_t version) {
  asked_.insert(version);
  if (asked_.size() > kMostAsked) asked_.erase(asked_.begin());
}

size_t SnapshotQueue::AddParts(std::vector<SliceStoreEvents::CutPart>* parts) {
  size_t num_given_up = 0;
  for (SliceStoreEvents::CutPart& part : *parts) {
    const uint64_t version = part.cut;
    const bool completes = part.completes_cut;
    Snapshot& snapshot = gathering_[version];
    snapshot.version = version;
    snapshot.parts.push_back(std::move(part));
    if (!completes) continue;
    Snapshot complete = std::move(snapshot);
    gathering_.erase(version);
    const int priority = GetPriority(version);
    asked_.erase(version);
    if (lineage_->root.empty()) continue;
    if (waiting_.has_value()) {
      ++num_given_up;
      if (priority < waiting_priority_) {
        GiveUp(version, waiting_->version);
        continue;
      }
      GiveUp(waiting_->version, version);
    }
    waiting_ = std::move(complete);
    waiting_priority_ = priority;
    Advance();
  }
  parts->clear();
  return num_given_up;
}

bool SnapshotQueue::IsAskedOrLast(uint64_t version) const {
  return version == lineage_->last_version || asked_.count(version) > 0;
}

int SnapshotQueue::GetPriority(uint64_t version) const {
  if (IsAskedOrLast(version)) return kMostPriority + 1;
  return lineage_->num_ps == 1 ? 0 : TrailingZeros(version);
}

void SnapshotQueue::GiveUp(uint64_t version, uint64_t stays) {
  v1::ReportShardRequest report = MakeReport(version);
  report.set_error(absl::StrFormat(
      "superseded by step %d: step %d was still being written; write to a faster directory, or "
      "make checkpoints less often (checkpoint.save_every)",
      stays, version_));
  report.set_superseded(true);
  AddReport(std::move(report));
}

void SnapshotQueue::AddReport(v1::ReportShardRequest report) {
  reports_.push_back(std::move(report));
  if (reports_.size() > kMostReports) reports_.pop_front();
}

v1::ReportShardRequest SnapshotQueue::MakeReport(uint64_t version) const {
  v1::ReportShardRequest report;
  report.mutable_identity()->set_lineage(lineage_->lineage);
  report.set_version(version);
  report.set_directory(lineage_->GetDirectory(version));
  return report;
}

void SnapshotQueue::Advance() {
  if (next_.has_value() || writing_ || written_.has_value() || !waiting_.has_value()) return;
  version_ = waiting_->version;
  next_ = Work{lineage_, *std::exchange(waiting_, std::nullopt)};
}

absl::Time SnapshotQueue::work_time() const {
  return next_.has_value() ? write_at_ : absl::InfiniteFuture();
}

std::optional<SnapshotQueue::Work> SnapshotQueue::TakeWork(absl::Time now) {
  if (now < work_time()) return std::nullopt;
  writing_ = true;
  return std::exchange(next_, std::nullopt);
}

void SnapshotQueue::OnWritten(absl::Time now, Work work, const absl::Status& status,
                              v1::ReportShardRequest report) {
  writing_ = false;
  if (!IsOfLineage(work)) return Advance();
  if (!status.ok() && !work.is_export && work.snapshot.version == lineage_->last_version) {
    next_ = std::move(work);
    write_at_ = now + kRewrite;
    return;
  }
  written_ = MakeReport(work.snapshot.version);
  written_->set_is_export(work.is_export);
  if (!status.ok()) {
    written_->set_error(std::string(status.message()));
  } else if (!work.is_export) {
    *written_->mutable_file() = std::move(*report.mutable_file());
    written_->set_reported_steps(report.reported_steps());
    held_ = std::move(work.snapshot);
  }
}

void SnapshotQueue::OnShardReported(const v1::ReportShardResponse& response) {
  Snapshot snapshot = std::exchange(held_, Snapshot());
  if (!response.export_wanted() || snapshot.parts.empty()) return;
  if (!waiting_.has_value()) {
    next_ = Work{lineage_, std::move(snapshot), /*is_export=*/true};
    return;
  }
  v1::ReportShardRequest report = MakeReport(snapshot.version);
  report.set_is_export(true);
  report.set_error(absl::StrFormat("left out, because step %d waits", waiting_->version));
  AddReport(std::move(report));
}

const v1::ReportShardRequest* SnapshotQueue::NextReport() const {
  if (written_.has_value()) return &*written_;
  return reports_.empty() ? nullptr : &reports_.front();
}

absl::Time SnapshotQueue::report_time() const {
  return sending_ || NextReport() == nullptr ? absl::InfiniteFuture() : send_at_;
}

std::optional<v1::ReportShardRequest> SnapshotQueue::TakeReport(absl::Time now) {
  if (now < report_time()) return std::nullopt;
  sending_ = true;
  return *NextReport();
}

void SnapshotQueue::OnReported(absl::Time now, const v1::ReportShardRequest& report,
                               const absl::Status& status,
                               const v1::ReportShardResponse& response) {
  sending_ = false;
  if (report.identity().lineage() != lineage_->lineage) return;
  if (!status.ok() && !IsRefused(status)) {
    send_at_ = now + backoff_.Next();
    return;
  }
  if (!status.ok()) {
    LOG(WARNING) << "the chief refuses the shard of step " << report.version() << ": " << status;
  }
  send_at_ = absl::InfinitePast();
  backoff_.Reset();
  const auto is_it = [&report](const v1::ReportShardRequest& other) {
    return other.version() == report.version() && other.is_export() == report.is_export();
  };
  if (written_.has_value() && is_it(*written_)) {
    written_.reset();
    OnShardReported(response);
    return Advance();
  }
  const auto it = std::find_if(reports_.begin(), reports_.end(), is_it);
  if (it != reports_.end()) reports_.erase(it);
}

}  // namespace shoal

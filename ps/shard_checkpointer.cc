#include "ps/shard_checkpointer.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/status/status.h"

#include "base/log.h"
#include "proto/v1/chief_service.grpc.pb.h"

namespace shoal {
namespace {

// Returns whether the work keeps rows of tables in memory.
bool HasRows(const SnapshotQueue::Work& work) {
  const std::vector<SliceStoreEvents::CutPart>& parts = work.snapshot.parts;
  return !work.is_export &&
         std::any_of(parts.begin(), parts.end(),
                     [](const SliceStoreEvents::CutPart& part) { return part.rows != nullptr; });
}

}  // namespace

ShardCheckpointer::ShardCheckpointer(Options options)
    : options_(std::move(options)), queue_(options_.ps_index) {
  writer_ = std::thread([this] { WriteSnapshots(); });
  reporter_ = std::thread([this] { SendReports(); });
}

ShardCheckpointer::~ShardCheckpointer() { Stop(); }

void ShardCheckpointer::EndLineage() {
  MutexLock lock(&mutex_);
  queue_.StartLineage(SnapshotLineage());
}

absl::Status ShardCheckpointer::AwaitRows(absl::Duration longest) {
  MutexLock lock(&mutex_);
  const absl::Time deadline = options_.clock->Now() + longest;
  while (writes_rows_ && !stopping_ && options_.clock->Now() < deadline) {
    options_.clock->WaitUntil(deadline, &mutex_, &changed_);
  }
  if (!writes_rows_ || stopping_) return absl::OkStatus();
  return absl::UnknownError(
      "this ps is still writing the rows of a checkpoint that is not wanted any more, and must not "
      "hold these and others in memory at the same time; if this lasts, check the disk of the "
      "checkpoints");
}

void ShardCheckpointer::StartLineage(SnapshotLineage lineage) {
  MutexLock lock(&mutex_);
  queue_.StartLineage(std::move(lineage));
}

void ShardCheckpointer::Ask(uint64_t version) {
  MutexLock lock(&mutex_);
  queue_.Ask(version);
}

void ShardCheckpointer::AddParts(std::vector<SliceStoreEvents::CutPart>* parts) {
  if (parts->empty()) return;
  MutexLock lock(&mutex_);
  options_.metrics->shard_failures.Add(queue_.AddParts(parts));
  changed_.NotifyAll();
}

bool ShardCheckpointer::is_writing() {
  MutexLock lock(&mutex_);
  return queue_.is_writing();
}

void ShardCheckpointer::Stop() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  if (writer_.joinable()) writer_.join();
  if (reporter_.joinable()) reporter_.join();
}

void ShardCheckpointer::WriteSnapshots() {
  while (true) {
    std::optional<SnapshotQueue::Work> work;
    {
      MutexLock lock(&mutex_);
      while (!stopping_ && !(work = queue_.TakeWork(options_.clock->Now())).has_value()) {
        options_.clock->WaitUntil(queue_.work_time(), &mutex_, &changed_);
      }
      if (stopping_) return;
      writes_rows_ = HasRows(*work);
    }
    v1::ReportShardRequest report;
    const absl::Status status = work->is_export ? Export(*work) : Write(*work, &report);
    MutexLock lock(&mutex_);
    queue_.OnWritten(options_.clock->Now(), *std::move(work), status, std::move(report));
    writes_rows_ = false;
    changed_.NotifyAll();
  }
}

absl::Status ShardCheckpointer::Export(const SnapshotQueue::Work& work) {
  const absl::Status status =
      ExportSnapshot(*options_.file_system, *work.lineage, work.snapshot, [this] {
        MutexLock lock(&mutex_);
        return stopping_ || queue_.ShouldStopExport();
      });
  if (!status.ok()) {
    LOG(WARNING) << "cannot write this ps's part of model.safetensors of step "
                 << work.snapshot.version << ": " << status;
  }
  return status;
}

absl::Status ShardCheckpointer::Write(const SnapshotQueue::Work& work,
                                      v1::ReportShardRequest* report) {
  const absl::Time begin = options_.clock->Now();
  SnapshotCalls calls;
  calls.should_stop = [this, &work] {
    MutexLock lock(&mutex_);
    return !queue_.IsOfLineage(work);
  };
  calls.on_rows_dropped = [this] {
    MutexLock lock(&mutex_);
    writes_rows_ = false;
    changed_.NotifyAll();
  };
  const absl::Status status = WriteSnapshot(*options_.file_system, options_.ps_index, *work.lineage,
                                            work.snapshot, calls, &rows_base_, report);
  if (absl::IsCancelled(status)) return status;
  if (status.ok()) {
    options_.metrics->shard_write_seconds.Observe(
        absl::ToDoubleSeconds(options_.clock->Now() - begin));
    options_.metrics->shard_bytes.Add(report->file().bytes());
  } else {
    options_.metrics->shard_failures.Add();
    LOG(ERROR) << "cannot write the shard of step " << work.snapshot.version
               << "; training continues without this checkpoint: " << status;
  }
  return status;
}

void ShardCheckpointer::SendReports() {
  while (true) {
    std::optional<v1::ReportShardRequest> report;
    {
      MutexLock lock(&mutex_);
      while (!stopping_ && !(report = queue_.TakeReport(options_.clock->Now())).has_value()) {
        options_.clock->WaitUntil(queue_.report_time(), &mutex_, &changed_);
      }
      if (stopping_) return;
    }
    const uint64_t lineage = report->identity().lineage();
    *report->mutable_identity() = options_.identity();
    report->mutable_identity()->set_lineage(lineage);
    v1::ReportShardResponse response;
    const absl::Status status =
        options_.chief->Call(&v1::ChiefService::Service::ReportShard, *report, &response);
    MutexLock lock(&mutex_);
    queue_.OnReported(options_.clock->Now(), *report, status, response);
    changed_.NotifyAll();
  }
}

}  // namespace shoal

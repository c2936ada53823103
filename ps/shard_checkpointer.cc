#include "ps/shard_checkpointer.h"

#include <utility>

#include "absl/types/span.h"

#include "base/log.h"
#include "base/status_macros.h"
#include "proto/v1/chief_service.pb.h"
#include "runtime/checkpoint/checkpoint_directory.h"
#include "runtime/checkpoint/shard_writer.h"
#include "runtime/variables/variable_updater.h"

namespace shoal {

ShardCheckpointer::ShardCheckpointer(Options options)
    : options_(std::move(options)), thread_([this] { Run(); }) {}

ShardCheckpointer::~ShardCheckpointer() { Stop(); }

std::string ShardCheckpointer::DirectoryOf(uint64_t cut, uint64_t term, uint64_t lineage) {
  // A version is cut once in a lineage, and a term's lineages have different numbers: so all ps
  // agree on a name that nobody has used before, without asking.
  return CheckpointName{cut, term, lineage}.ToString();
}

void ShardCheckpointer::StartLineage(Lineage lineage) {
  MutexLock lock(&mutex_);
  lineage_ = std::move(lineage);
  gathering_.clear();
  complete_.clear();
}

void ShardCheckpointer::AddParts(std::vector<SliceStoreEvents::CutPart>* parts) {
  if (parts->empty()) return;
  MutexLock lock(&mutex_);
  for (SliceStoreEvents::CutPart& part : *parts) {
    const uint64_t version = part.cut;
    const bool completes = part.completes_cut;
    Cut& cut = gathering_[version];
    cut.version = version;
    cut.parts.push_back(std::move(part));
    if (!completes) continue;
    if (!lineage_.root.empty()) complete_.push_back(std::move(cut));
    gathering_.erase(version);
  }
  parts->clear();
  changed_.NotifyAll();
}

void ShardCheckpointer::Stop() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  if (thread_.joinable()) thread_.join();
}

void ShardCheckpointer::Run() {
  while (true) {
    Lineage lineage;
    Cut cut;
    {
      MutexLock lock(&mutex_);
      while (!stopping_ && complete_.empty()) changed_.Wait(&mutex_);
      if (stopping_) return;
      lineage = lineage_;
      cut = std::move(complete_.front());
      complete_.pop_front();
    }
    v1::ReportShardRequest report;
    report.set_version(cut.version);
    report.set_directory(DirectoryOf(cut.version, lineage.term, lineage.lineage));
    const absl::Time begin = options_.clock->Now();
    const absl::Status status = Write(lineage, cut, &report);
    if (status.ok()) {
      options_.metrics->shard_write_seconds.Observe(
          absl::ToDoubleSeconds(options_.clock->Now() - begin));
      options_.metrics->shard_bytes.Add(report.file().bytes());
    } else {
      options_.metrics->shard_failures.Add();
      LOG(ERROR) << "cannot write the shard of step " << cut.version << ": " << status;
      report.clear_file();
      report.set_error(std::string(status.message()));
    }
    cut = Cut();  // The buffers are needed for training.
    Report(lineage.lineage, std::move(report));
  }
}

absl::Status ShardCheckpointer::Write(const Lineage& lineage, const Cut& cut,
                                      v1::ReportShardRequest* report) const {
  const std::string directory = JoinPath(lineage.root, report->directory());
  RETURN_IF_ERROR(options_.file_system->MakeDirectory(directory));
  RETURN_IF_ERROR(options_.file_system->SyncDirectory(lineage.root));
  ShardWriter writer(*options_.file_system, {directory, options_.ps_index, lineage.num_ps});
  for (const SliceStoreEvents::CutPart& part : cut.parts) {
    const Slice& slice = lineage.slices[part.slice];
    const size_t stride = VariableUpdater::slot_stride(slice.num_elements);
    std::vector<ShardWriter::Slot> slots;
    for (const std::string& name : lineage.slots[slice.variable]) {
      slots.push_back({name, {part.slots->data() + slots.size() * stride, slice.num_elements}});
    }
    const SavedSliceState state{part.version, part.value_version, part.applied};
    writer.Add(lineage.variables[slice.variable], part.slice - lineage.first_slice[slice.variable],
               {part.value->data(), slice.num_elements}, slots, state);
    if (part.slice == lineage.report_slice) report->set_reported_steps(part.version);
  }
  ASSIGN_OR_RETURN(*report->mutable_file(), writer.Finish());
  return absl::OkStatus();
}

bool ShardCheckpointer::IsCurrent(uint64_t lineage) {
  MutexLock lock(&mutex_);
  return !stopping_ && lineage_.lineage == lineage;
}

void ShardCheckpointer::Report(uint64_t lineage, v1::ReportShardRequest report) {
  Backoff backoff(options_.ps_index, absl::Milliseconds(50), absl::Seconds(1));
  while (IsCurrent(lineage)) {
    *report.mutable_identity() = options_.identity();
    report.mutable_identity()->set_lineage(lineage);
    v1::ReportShardResponse response;
    const absl::Status status = options_.chief->ReportShard(report, &response);
    if (status.ok()) return;
    if (!IsOutcomeUnknown(status)) {
      LOG(WARNING) << "the chief refuses the shard of step " << report.version() << ": " << status;
      return;
    }
    const absl::Time again = options_.clock->Now() + backoff.Next();
    MutexLock lock(&mutex_);
    while (!stopping_ && options_.clock->WaitUntil(again, &mutex_, &changed_)) {
    }
  }
}

}  // namespace shoal

// The part of ChiefTask that publishes, exports and removes checkpoints.

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/log.h"
#include "base/status_macros.h"
#include "chief/chief_task.h"
#include "runtime/checkpoint/initial_model.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/checkpoint/model_export.h"

namespace shoal {

absl::Status ChiefTask::Publish(const ManifestToWrite& write) {
  CheckpointName name;
  if (!CheckpointName::Parse(write.directory, &name)) {
    return absl::InternalError(absl::StrCat("no name of a checkpoint: ", write.directory));
  }
  RETURN_IF_ERROR(CheckTerm());
  v1::Manifest manifest = write.manifest;
  manifest.set_created_unix_seconds(
      static_cast<uint64_t>(absl::ToUnixSeconds(options_.clock->Now())));
  RETURN_IF_ERROR(checkpoints_->Publish(name, manifest));
  // The checkpoint exists already; the rest makes it handier.
  const absl::Status recorded =
      WriteRunFile(manifest.plan().replicas_to_aggregate(), manifest.shard_map().slice_bytes());
  if (!recorded.ok()) LOG(WARNING) << "run.textproto could not be written: " << recorded;
  LOG(INFO) << "checkpoint of step " << manifest.step() << " in "
            << checkpoints_->GetPath(write.directory);
  return absl::OkStatus();
}

absl::Status ChiefTask::Export(const ModelExport& wanted) {
  RETURN_IF_ERROR(CheckTerm());
  const std::string path = checkpoints_->GetPath(wanted.directory);
  absl::Status status =
      wanted.parts_are_written ? FinishWrittenExport(path) : MakeExport(path, wanted.deadline);
  if (status.ok()) status = checkpoints_->RemoveOldExports();
  if (!status.ok()) {
    LOG(WARNING) << "model.safetensors of " << wanted.directory
                 << " could not be made; the checkpoint is valid without it: " << status;
  }
  return status;
}

absl::Status ChiefTask::FinishWrittenExport(const std::string& path) {
  ASSIGN_OR_RETURN(const v1::Manifest manifest, ReadManifest(*options_.file_system, path));
  return FinishExport(*options_.file_system, path, ModelExportLayout(manifest));
}

absl::Status ChiefTask::MakeExport(const std::string& path, absl::Time deadline) {
  if (FileExists(*options_.file_system, JoinPath(path, kModelExportFile))) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::unique_ptr<Checkpoint> checkpoint,
                   Checkpoint::Open(*options_.file_system, path, Checkpoint::Verify::kIndex));
  RETURN_IF_ERROR(RemoveModelExport(*options_.file_system, path));
  return ExportModel(*options_.file_system, *checkpoint, path, kModelExportFile,
                     VariableValues::kCurrent,
                     [this, deadline] { return options_.clock->Now() > deadline; });
}

void ChiefTask::Prune() {
  const absl::Status pruned =
      checkpoints_->Prune(static_cast<int>(options_.run.checkpoint().keep()));
  if (!pruned.ok()) LOG(WARNING) << "old checkpoints could not be removed: " << pruned;
  // A ps that loads now may still begin from initial values if this is the run's first checkpoint.
  if (resumes_ || std::exchange(has_checkpoint_, true)) RemoveProgramValues();
}

void ChiefTask::RemoveProgramValues() {
  if (options_.run.program().file().empty()) return;
  const absl::Status removed = RemoveInitialValues(*options_.file_system, options_.run.out());
  if (!removed.ok()) LOG(WARNING) << "initial values could not be removed: " << removed;
}

absl::Status ChiefTask::DiscardFailed(const std::string& directory) {
  CheckpointName name;
  // The name comes from a ps.
  if (!CheckpointName::Parse(directory, &name) || name.term != term_) return absl::OkStatus();
  RETURN_IF_ERROR(CheckTerm());
  const absl::Status discarded = checkpoints_->Discard(name);
  if (!discarded.ok()) {
    LOG(WARNING) << "cannot remove the files of a failed checkpoint: " << discarded;
  }
  return discarded;
}

absl::Status ChiefTask::DiscardAbove(uint64_t step) {
  const absl::Status discarded = checkpoints_->DiscardAbove(step, [this] { return CheckTerm(); });
  if (!discarded.ok()) {
    LOG(ERROR) << "a checkpoint above step " << step
               << " is void and cannot be removed; none is published until it can: " << discarded;
  }
  return discarded;
}

}  // namespace shoal

#include "worker/replica/loop_checkpoints.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

#include "base/log.h"
#include "base/status_macros.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/checkpoint_slice_source.h"
#include "runtime/checkpoint/shard_writer.h"
#include "runtime/config/defaults.h"

namespace shoal {
namespace {

absl::Status Differs(const Checkpoint& checkpoint, absl::string_view what,
                     absl::string_view remedy) {
  return absl::FailedPreconditionError(
      absl::StrCat("checkpoint ", checkpoint.directory(), " was made with ", what, "; ", remedy,
                   ", or name another TrainingLoopOptions::checkpoint_directory"));
}

// Returns the elements of a variable, or of one of its slots, that belong to the slice.
absl::Span<const float> PartOf(absl::Span<const float> whole, const Slice& slice) {
  return whole.subspan(slice.first_element, slice.num_elements);
}

}  // namespace

absl::StatusOr<std::unique_ptr<LoopCheckpoints>> LoopCheckpoints::Open(FileSystem& file_system,
                                                                       const std::string& directory,
                                                                       v1::Manifest loop,
                                                                       int keep) {
  if (keep < 1) {
    return absl::InvalidArgumentError(absl::StrCat("TrainingLoopOptions::checkpoints_to_keep is ",
                                                   keep, "; it must be at least 1"));
  }
  const std::vector<v1::VariableSpec> specs(loop.variables().begin(), loop.variables().end());
  ASSIGN_OR_RETURN(SliceTable slices, SliceTable::Create(specs, kDefaultSliceBytes));
  ASSIGN_OR_RETURN(std::unique_ptr<CheckpointDirectory> opened,
                   CheckpointDirectory::Open(file_system, directory));
  return std::unique_ptr<LoopCheckpoints>(new LoopCheckpoints(
      file_system, std::move(opened), std::move(loop), std::move(slices), keep));
}

LoopCheckpoints::LoopCheckpoints(FileSystem& file_system,
                                 std::unique_ptr<CheckpointDirectory> directory, v1::Manifest loop,
                                 SliceTable slices, int keep)
    : file_system_(file_system),
      directory_(std::move(directory)),
      loop_(std::move(loop)),
      slices_(std::move(slices)),
      keep_(keep) {}

absl::Status LoopCheckpoints::CheckSettings(const Checkpoint& checkpoint) const {
  const v1::Manifest& saved = checkpoint.manifest();
  if (!saved.run_id().empty() || saved.term() != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("checkpoint ", checkpoint.directory(),
                     " is that of a run; name a directory of the loop's own"));
  }
  if (saved.optimizer() != loop_.optimizer()) {
    return Differs(checkpoint, absl::StrCat("the optimizer ", saved.optimizer()),
                   absl::StrCat("use that one, not ", loop_.optimizer()));
  }
  if (saved.seed() != loop_.seed()) {
    return Differs(checkpoint, absl::StrCat("the seed ", saved.seed()),
                   absl::StrCat("set TrainingLoopOptions::seed to it, not to ", loop_.seed()));
  }
  if (saved.plan().batch_examples() != loop_.plan().batch_examples()) {
    return Differs(
        checkpoint, absl::StrCat(saved.plan().batch_examples(), " examples a step"),
        absl::StrCat(
            "set the number of clones and TrainingLoopOptions::batch_size to make that many, not ",
            loop_.plan().batch_examples()));
  }
  if (saved.plan().examples_per_epoch() != loop_.plan().examples_per_epoch()) {
    return Differs(
        checkpoint, absl::StrCat("a data set of ", saved.plan().examples_per_epoch(), " examples"),
        absl::StrCat("train on that data set, not on one of ", loop_.plan().examples_per_epoch()));
  }
  if (saved.data_fingerprint() != loop_.data_fingerprint()) {
    return Differs(checkpoint, "another data set", "train on that data set");
  }
  for (const v1::VariableSpec& variable : saved.variables()) {
    const auto same = [&](const v1::VariableSpec& other) {
      return other.name() == variable.name();
    };
    if (std::any_of(loop_.variables().begin(), loop_.variables().end(), same)) continue;
    return Differs(checkpoint, absl::StrCat("a variable ", variable.name()),
                   "train a model that has it");
  }
  return absl::OkStatus();
}

absl::Status LoopCheckpoints::Restore(OwnedVariables* variables) {
  std::vector<std::string> rejected;
  absl::StatusOr<std::unique_ptr<Checkpoint>> opened =
      directory_->OpenLatestValid(Checkpoint::Verify::kEverything, &rejected);
  for (const std::string& line : rejected) LOG(WARNING) << line;
  if (absl::IsNotFound(opened.status())) return absl::OkStatus();
  if (absl::IsFailedPrecondition(opened.status())) {
    return absl::FailedPreconditionError(absl::StrCat(
        "LATEST in ", directory_->root(),
        " names a checkpoint, but none is there any more; bring it back, or name another "
        "TrainingLoopOptions::checkpoint_directory to start anew"));
  }
  if (absl::IsDataLoss(opened.status())) {
    return absl::DataLossError(absl::StrCat(
        "all checkpoints in ", directory_->root(), " are damaged (",
        rejected.empty() ? "" : rejected.front(),
        "); bring back a good copy, or name another TrainingLoopOptions::checkpoint_directory to "
        "start anew"));
  }
  RETURN_IF_ERROR(opened.status());
  Checkpoint& checkpoint = **opened;
  RETURN_IF_ERROR(CheckSettings(checkpoint));
  const std::vector<v1::VariableSpec> specs(loop_.variables().begin(), loop_.variables().end());
  const auto slot_names = [&](uint32_t slice) {
    return variables->slot_names(slices_[slice].variable);
  };
  ASSIGN_OR_RETURN(CheckpointSliceSource source,
                   CheckpointSliceSource::Create(checkpoint, specs, slices_, slot_names));
  for (uint32_t slice = 0; slice < slices_.size(); ++slice) {
    const Slice& where = slices_[slice];
    SliceSource::Contents contents;
    contents.value =
        variables->MutableValue(where.variable).subspan(where.first_element, where.num_elements);
    for (size_t s = 0; s < variables->slot_names(where.variable).size(); ++s) {
      contents.slots.push_back(variables->MutableSlot(where.variable, s)
                                   .subspan(where.first_element, where.num_elements));
    }
    RETURN_IF_ERROR(source.Fill(slice, &contents));
    if (contents.slots_follow_value) {  // The last slot is the average, which was not stored.
      std::copy(contents.value.begin(), contents.value.end(), contents.slots.back().begin());
    }
  }
  variables->set_step(checkpoint.manifest().step());
  LOG(INFO) << "the training loop restored step " << variables->step() << " from "
            << checkpoint.directory();
  return rejected.empty() ? absl::OkStatus() : directory_->DiscardAbove(variables->step());
}

absl::StatusOr<v1::ShardFile> LoopCheckpoints::WriteShard(const std::string& directory,
                                                          const OwnedVariables& variables) const {
  ShardWriter writer(file_system_, {directory, /*shard=*/0, /*num_shards=*/1});
  for (uint32_t slice = 0; slice < slices_.size(); ++slice) {
    const uint32_t variable = slices_[slice].variable;
    std::vector<ShardWriter::Slot> slots;
    const std::vector<std::string> names = variables.slot_names(variable);
    for (size_t s = 0; s < names.size(); ++s) {
      slots.push_back({names[s], PartOf(variables.slot(variable, s), slices_[slice])});
    }
    SavedSliceState state;
    state.version = slices_.is_versioned(variable) ? variables.step() : UINT64_MAX;
    state.value_version = slices_.is_versioned(variable) ? variables.step() : 0;
    writer.Add(variables.spec(variable).name(), slice - slices_.first_slice_of(variable),
               PartOf(variables.value(variable), slices_[slice]), slots, state);
  }
  return writer.Finish();
}

absl::Status LoopCheckpoints::Save(const OwnedVariables& variables, absl::Time now) {
  // An attempt that failed, or a damaged checkpoint, may have left the directory of a name.
  CheckpointName name{variables.step(), /*term=*/0, /*lineage=*/0};
  absl::Status begun = directory_->Begin(name);
  for (; absl::IsAlreadyExists(begun); begun = directory_->Begin(name)) ++name.lineage;
  RETURN_IF_ERROR(begun);
  v1::Manifest manifest = loop_;
  manifest.set_step(variables.step());
  manifest.set_lineage(name.lineage);
  manifest.set_created_unix_seconds(static_cast<uint64_t>(absl::ToUnixSeconds(now)));
  manifest.mutable_shard_map()->set_num_ps_tasks(1);
  manifest.mutable_shard_map()->set_slice_bytes(slices_.slice_bytes());
  for (uint32_t slice = 0; slice < slices_.size(); ++slice) {
    manifest.mutable_shard_map()->add_owner(0);
  }
  ASSIGN_OR_RETURN(*manifest.add_shards(),
                   WriteShard(directory_->GetPath(name.ToString()), variables));
  RETURN_IF_ERROR(directory_->Publish(name, manifest));
  return directory_->Prune(keep_);
}

}  // namespace shoal

#include "runtime/checkpoint/checkpoint.h"

#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "runtime/checkpoint/manifest.h"

namespace shoal {

absl::StatusOr<std::unique_ptr<Checkpoint>> Checkpoint::Open(FileSystem& file_system,
                                                             const std::string& directory,
                                                             Verify verify) {
  ASSIGN_OR_RETURN(v1::Manifest manifest, ReadManifest(file_system, directory));
  return OpenShards(file_system, directory, std::move(manifest), verify);
}

absl::Status Checkpoint::CheckShards(FileSystem& file_system, const std::string& directory,
                                     const v1::Manifest& manifest) {
  return OpenShards(file_system, directory, manifest, Verify::kIndex).status();
}

absl::StatusOr<std::unique_ptr<Checkpoint>> Checkpoint::OpenShards(FileSystem& file_system,
                                                                   const std::string& directory,
                                                                   v1::Manifest manifest,
                                                                   Verify verify) {
  const std::vector<v1::VariableSpec> variables(manifest.variables().begin(),
                                                manifest.variables().end());
  absl::StatusOr<SliceTable> slices =
      SliceTable::Create(variables, manifest.shard_map().slice_bytes());
  if (!slices.ok()) {
    return absl::DataLossError(
        absl::StrCat(JoinPath(directory, kManifestFile), ": ", slices.status().message()));
  }
  auto checkpoint =
      absl::WrapUnique(new Checkpoint(directory, std::move(manifest), *std::move(slices)));
  for (const v1::ShardFile& file : checkpoint->manifest_.shards()) {
    ASSIGN_OR_RETURN(std::unique_ptr<ShardReader> shard,
                     ShardReader::Open(file_system, directory, file));
    RETURN_IF_ERROR(checkpoint->Index(*shard));
    if (verify == Verify::kEverything) RETURN_IF_ERROR(shard->VerifyAll());
    checkpoint->shards_.push_back(std::move(shard));
  }
  RETURN_IF_ERROR(checkpoint->CheckComplete());
  return checkpoint;
}

Checkpoint::Checkpoint(std::string directory, v1::Manifest manifest, SliceTable slices)
    : directory_(std::move(directory)),
      manifest_(std::move(manifest)),
      slices_(std::move(slices)),
      stored_(slices_.size()) {
  for (int v = 0; v < manifest_.variables_size(); ++v) {
    variables_[manifest_.variables(v).name()] = static_cast<uint32_t>(v);
  }
}

absl::Status Checkpoint::Index(ShardReader& shard) {
  for (const auto& [name, entry] : shard.entries()) {
    const auto variable = variables_.find(name.variable);
    const uint32_t slice = variable == variables_.end()
                               ? slices_.size()
                               : slices_.first_slice_of(variable->second) + name.index;
    const auto state = shard.states().find({name.variable, name.index, ""});
    if (variable == variables_.end() || state == shard.states().end() ||
        slice >= slices_.first_slice_of(variable->second + 1) ||
        entry.num_elements != slices_[slice].num_elements) {
      return absl::DataLossError(absl::StrCat(directory_, ": slice ", EncodeSliceName(name),
                                              " does not fit the manifest's variables"));
    }
    StoredSlice& stored = stored_[slice];
    if (stored.shard != nullptr && stored.shard != &shard) {
      return absl::DataLossError(
          absl::StrCat(directory_, ": slice ", EncodeSliceName(name), " is in two shards"));
    }
    stored.shard = &shard;
    stored.state = state->second;
    stored.tensors[name.slot] = entry;
  }
  return absl::OkStatus();
}

absl::Status Checkpoint::CheckComplete() const {
  for (uint32_t slice = 0; slice < slices_.size(); ++slice) {
    if (HasSlot(slice, "")) continue;
    return absl::DataLossError(absl::StrCat(directory_, ": slice ", EncodeSliceName(NameOf(slice)),
                                            " is in none of the shards"));
  }
  return absl::OkStatus();
}

SliceName Checkpoint::NameOf(uint32_t slice) const {
  const uint32_t variable = slices_[slice].variable;
  return {manifest_.variables(static_cast<int>(variable)).name(),
          slice - slices_.first_slice_of(variable), ""};
}

bool Checkpoint::HasSlot(uint32_t slice, const std::string& slot) const {
  return stored_[slice].tensors.count(slot) > 0;
}

absl::Status Checkpoint::Read(uint32_t slice, const std::string& slot, uint64_t first,
                              absl::Span<float> out) {
  const StoredSlice& stored = stored_[slice];
  const auto entry = stored.tensors.find(slot);
  if (entry == stored.tensors.end()) {
    return absl::NotFoundError(absl::StrCat(directory_, " has no \"", slot, "\" of slice ",
                                            EncodeSliceName(NameOf(slice))));
  }
  return stored.shard->Read(entry->second, first, out);
}

bool Checkpoint::HasAverages() const {
  for (uint32_t slice = 0; slice < slices_.size(); ++slice) {
    if (HasSlot(slice, kAverageSlot)) return true;
  }
  return false;
}

absl::Status Checkpoint::ReadValues(uint32_t slice, VariableValues values, absl::Span<float> out) {
  const bool averaged = values == VariableValues::kAverages && HasSlot(slice, kAverageSlot);
  return Read(slice, averaged ? kAverageSlot : "", 0, out);
}

}  // namespace shoal

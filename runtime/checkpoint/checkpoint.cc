#include "runtime/checkpoint/checkpoint.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "runtime/checkpoint/bucket_delta.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/checkpoint/shard_base.h"

namespace shoal {
namespace {

// Before this format, counted keys did not expire. They count as touched at the checkpoint.
constexpr uint32_t kFirstWithCountedTouched = 4;

}  // namespace

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
    RETURN_IF_ERROR(checkpoint->AddBases(file_system, *shard, verify));
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

absl::Status Checkpoint::AddBases(FileSystem& file_system, const ShardReader& shard,
                                  Verify verify) {
  const bool has_buckets = std::any_of(
      shard.entries().begin(), shard.entries().end(),
      [this](const auto& entry) { return slices_.is_table(variables_.at(entry.first.variable)); });
  if (!has_buckets) return absl::OkStatus();  // Earlier programs named bases without need.
  const std::vector<ShardBase>& named = shard.bases();
  for (size_t i = 0; i < named.size(); ++i) {
    ASSIGN_OR_RETURN(
        std::unique_ptr<ShardReader> base,
        ShardReader::Open(file_system, JoinPath(ParentDirectory(directory_), named[i].checkpoint),
                          named[i].file));
    const std::string path = JoinPath(named[i].checkpoint, named[i].file.name());
    // Each of them changes exactly those before it.
    if (EncodeShardBases(base->bases()) != EncodeShardBases({named.data(), i})) {
      return absl::DataLossError(absl::StrCat(
          directory_, ": ", path, " names other base shards than the manifest's shard does"));
    }
    const absl::Status indexed = IndexBase(shard, *base);
    if (!indexed.ok()) {
      return absl::DataLossError(absl::StrCat(directory_, ": ", path, " ", indexed.message()));
    }
    if (verify == Verify::kEverything) RETURN_IF_ERROR(base->VerifyAll());
    bases_.insert(named[i].checkpoint);
    shards_.push_back(std::move(base));
  }
  return absl::OkStatus();
}

absl::Status Checkpoint::IndexBase(const ShardReader& shard, ShardReader& base) {
  for (const auto& [name, entry] : base.entries()) {
    const auto variable = variables_.find(name.variable);
    if (variable == variables_.end() || !slices_.is_table(variable->second)) continue;
    const uint32_t slice = slices_.first_slice_of(variable->second) + name.index;
    if (slice >= slices_.first_slice_of(variable->second + 1) || !Fits(slice, name.slot, entry)) {
      return absl::DataLossError("has other tables");
    }
    StoredSlice& stored = stored_[slice];
    if (stored.shard != &shard) continue;
    if (stored.bases.empty() || stored.bases.back().shard != &base)
      stored.bases.push_back({&base, {}});
    stored.bases.back().tensors[name.slot] = entry;
  }
  for (const auto& [name, entry] : shard.entries()) {
    const uint32_t slice = slices_.first_slice_of(variables_.at(name.variable)) + name.index;
    if (!slices_[slice].is_bucket) continue;
    const std::vector<Layer>& bases = stored_[slice].bases;
    if (bases.empty() || bases.back().shard != &base ||
        bases.back().tensors.count(kBucketKeys) == 0) {
      return absl::DataLossError("lacks buckets");
    }
  }
  return absl::OkStatus();
}

absl::Status Checkpoint::Index(ShardReader& shard) {
  for (const auto& [name, entry] : shard.entries()) {
    const auto variable = variables_.find(name.variable);
    const uint32_t slice = variable == variables_.end()
                               ? slices_.size()
                               : slices_.first_slice_of(variable->second) + name.index;
    const auto state = shard.states().find({name.variable, name.index, ""});
    if (variable == variables_.end() || state == shard.states().end() ||
        slice >= slices_.first_slice_of(variable->second + 1) || !Fits(slice, name.slot, entry)) {
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

bool Checkpoint::Fits(uint32_t slice, const std::string& part,
                      const ShardReader::Entry& entry) const {
  using Entry = ShardReader::Entry;
  if (!slices_[slice].is_bucket) {
    return entry.IsVector(Entry::kFloat) && entry.num_elements == slices_[slice].num_elements;
  }
  if (part == kBucketKeys || part == kBucketCountedKeys) return entry.IsVector(Entry::kUint64);
  if (part == kBucketTouched || part == kBucketCounts || part == kBucketCountedTouched) {
    return entry.IsVector(Entry::kUint32);
  }
  return entry.row_elements > 0 &&
         (part != kBucketValues || entry.row_elements == DimOf(variable_of(slice)));
}

absl::Status Checkpoint::CheckComplete() const {
  for (uint32_t slice = 0; slice < slices_.size(); ++slice) {
    if (slices_[slice].is_bucket) {
      RETURN_IF_ERROR(CheckBucket(slice, stored_[slice].tensors));
      for (const Layer& base : stored_[slice].bases) {
        RETURN_IF_ERROR(CheckBucket(slice, base.tensors));
      }
    }
    if (HasSlot(slice, slices_[slice].is_bucket ? kBucketKeys : "")) continue;
    return absl::DataLossError(absl::StrCat(
        directory_, ": slice ", EncodeSliceName(GetSliceName(slice)), " is in none of the shards"));
  }
  return absl::OkStatus();
}

// All tensors of a bucket's rows have as many rows as there are keys.
absl::Status Checkpoint::CheckBucket(uint32_t slice, const Tensors& tensors) const {
  const auto size_of = [&tensors](const char* part) {
    const auto entry = tensors.find(part);
    return entry == tensors.end() ? 0 : entry->second.num_elements;
  };
  bool fits = size_of(kBucketCountedKeys) == size_of(kBucketCounts) &&
              (size_of(kBucketCountedKeys) == size_of(kBucketCountedTouched) ||
               manifest_.format_version() < kFirstWithCountedTouched) &&
              size_of(kBucketTouched) == size_of(kBucketKeys) &&
              size_of(kBucketValues) == size_of(kBucketKeys) * DimOf(variable_of(slice));
  for (const auto& [part, entry] : tensors) {
    const bool is_slot = entry.row_elements > 0;
    fits = fits && (!is_slot || entry.num_elements == size_of(kBucketKeys) * entry.row_elements);
  }
  if (fits) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(directory_, ": the tensors of bucket ",
                                          EncodeSliceName(GetSliceName(slice)),
                                          " have different numbers of rows"));
}

SliceName Checkpoint::GetSliceName(uint32_t slice) const {
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
                                            EncodeSliceName(GetSliceName(slice))));
  }
  return stored.shard->Read(entry->second, first, out);
}

std::vector<RowSlot> Checkpoint::GetRowSlots(uint32_t slice) const {
  std::map<std::string, uint64_t> floats;
  const auto add = [&floats](const Tensors& tensors) {
    for (const auto& [part, entry] : tensors) {
      if (entry.row_elements > 0 && part != kBucketValues) floats[part] = entry.row_elements;
    }
  };
  add(stored_[slice].tensors);
  for (const Layer& base : stored_[slice].bases) add(base.tensors);
  std::vector<RowSlot> slots;
  for (const auto& [name, width] : floats) slots.push_back({name, width});
  return slots;
}

absl::StatusOr<BucketRows> Checkpoint::ReadBucket(uint32_t slice, absl::Span<const RowSlot> slots) {
  const StoredSlice& stored = stored_[slice];
  if (stored.bases.empty()) return ReadRows(slice, *stored.shard, stored.tensors, slots);
  std::vector<BucketRows> layers;
  for (const Layer& base : stored.bases) {
    ASSIGN_OR_RETURN(layers.emplace_back(), ReadRows(slice, *base.shard, base.tensors, slots));
  }
  ASSIGN_OR_RETURN(layers.emplace_back(), ReadRows(slice, *stored.shard, stored.tensors, slots));
  return ApplyChanges(layers, stored.state.version, variable_of(slice).table().idle_updates());
}

absl::StatusOr<BucketRows> Checkpoint::ReadRows(uint32_t slice, ShardReader& shard,
                                                const Tensors& tensors,
                                                absl::Span<const RowSlot> slots) const {
  BucketRows rows;
  if (tensors.count(kBucketCounts) > 0) {
    RETURN_IF_ERROR(shard.ReadAll(tensors.at(kBucketCountedKeys), &rows.counted_keys));
    RETURN_IF_ERROR(shard.ReadAll(tensors.at(kBucketCounts), &rows.counts));
    const auto touched = tensors.find(kBucketCountedTouched);
    if (touched == tensors.end()) {
      rows.counted_touched.assign(rows.counts.size(),
                                  static_cast<uint32_t>(stored_[slice].state.version));
    } else {
      RETURN_IF_ERROR(shard.ReadAll(touched->second, &rows.counted_touched));
    }
  }
  RETURN_IF_ERROR(shard.ReadAll(tensors.at(kBucketKeys), &rows.keys));
  if (rows.keys.empty()) return rows;
  RETURN_IF_ERROR(shard.ReadAll(tensors.at(kBucketTouched), &rows.touched));
  std::vector<RowSlot> columns = {{kBucketValues, DimOf(variable_of(slice))}};
  columns.insert(columns.end(), slots.begin(), slots.end());
  uint64_t row_floats = 0;
  for (const RowSlot& column : columns) row_floats += column.floats;
  rows.rows.resize(rows.keys.size() * row_floats);
  float* to = rows.rows.data();
  std::vector<float> numbers;
  for (const RowSlot& column : columns) {
    const auto entry = tensors.find(column.name);
    if (entry == tensors.end() || entry->second.row_elements != column.floats) {
      return absl::NotFoundError(absl::StrCat(directory_, " has no \"", column.name, "\" of ",
                                              column.floats, " floats for the rows of bucket ",
                                              EncodeSliceName(GetSliceName(slice))));
    }
    RETURN_IF_ERROR(shard.ReadAll(entry->second, &numbers));
    for (size_t r = 0; r < rows.keys.size(); ++r) {
      std::memcpy(to + r * row_floats, numbers.data() + r * column.floats,
                  column.floats * sizeof(float));
    }
    to += column.floats;
  }
  return rows;
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

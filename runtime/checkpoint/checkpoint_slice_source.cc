#include "runtime/checkpoint/checkpoint_slice_source.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "base/status_macros.h"
#include "proto/v1/variable.pb.h"

namespace shoal {
namespace {

constexpr char kOtherModel[] = "use the model of that run, or start a new run";

std::string ShapeText(const v1::VariableSpec& spec) {
  return absl::StrCat("[", absl::StrJoin(spec.shape(), ","), "]");
}

absl::Status CheckTable(const Checkpoint& checkpoint, const v1::VariableSpec& saved,
                        const v1::VariableSpec& wanted) {
  if (saved.table().buckets() == wanted.table().buckets()) return absl::OkStatus();
  const auto text = [](const v1::VariableSpec& spec) {
    return spec.has_table() ? absl::StrCat("a table of ", spec.table().buckets(), " buckets")
                            : std::string("no table");
  };
  return absl::FailedPreconditionError(absl::StrCat(
      "variable ", wanted.name(), ": checkpoint ", checkpoint.directory(), " has ", text(saved),
      ", the model has ", text(wanted), "; ",
      saved.has_table() && wanted.has_table()
          ? absl::StrCat("set table.buckets to ", saved.table().buckets(), ", or start a new run")
          : kOtherModel));
}

absl::Status OtherOptimizer(const absl::Status& status) {
  return absl::FailedPreconditionError(
      absl::StrCat(status.message(),
                   ": it was made with another optimizer; train with that "
                   "optimizer or start a new run"));
}

}  // namespace

absl::StatusOr<CheckpointSliceSource> CheckpointSliceSource::Create(
    Checkpoint& checkpoint, absl::Span<const v1::VariableSpec> variables, const SliceTable& table,
    SlotNames slot_names) {
  std::vector<uint32_t> saved;
  std::vector<bool> rowwise;
  const v1::Manifest& manifest = checkpoint.manifest();
  for (const v1::VariableSpec& variable : variables) {
    const auto it = std::find_if(
        manifest.variables().begin(), manifest.variables().end(),
        [&](const v1::VariableSpec& candidate) { return candidate.name() == variable.name(); });
    if (it == manifest.variables().end()) {
      return absl::FailedPreconditionError(absl::StrCat("checkpoint ", checkpoint.directory(),
                                                        " has no variable ", variable.name(), ": ",
                                                        kOtherModel));
    }
    if (ShapeText(*it) != ShapeText(variable)) {
      return absl::FailedPreconditionError(absl::StrCat(
          "checkpoint ", checkpoint.directory(), " has variable ", variable.name(), " of shape ",
          ShapeText(*it), ", the model of shape ", ShapeText(variable), ": ", kOtherModel));
    }
    RETURN_IF_ERROR(CheckTable(checkpoint, *it, variable));
    saved.push_back(static_cast<uint32_t>(it - manifest.variables().begin()));
    rowwise.push_back(variable.table().rowwise());
  }
  return CheckpointSliceSource(checkpoint, table, std::move(slot_names), std::move(saved),
                               std::move(rowwise));
}

CheckpointSliceSource::CheckpointSliceSource(Checkpoint& checkpoint, const SliceTable& table,
                                             SlotNames slot_names,
                                             std::vector<uint32_t> saved_variables,
                                             std::vector<bool> rowwise)
    : checkpoint_(&checkpoint),
      table_(&table),
      slot_names_(std::move(slot_names)),
      saved_variables_(std::move(saved_variables)),
      rowwise_(std::move(rowwise)) {}

absl::Status CheckpointSliceSource::Fill(uint32_t slice, Contents* contents) {
  RETURN_IF_ERROR(FillTensor(slice, "", contents->value));
  const std::vector<std::string> slots = slot_names_(slice);
  for (size_t k = 0; k < slots.size(); ++k) {
    const absl::Status status = FillTensor(slice, slots[k], contents->slots[k]);
    if (absl::IsNotFound(status) && slots[k] == kAverageSlot) {
      contents->slots_follow_value = true;
    } else if (absl::IsNotFound(status)) {
      return OtherOptimizer(status);
    } else {
      RETURN_IF_ERROR(status);
    }
  }
  const Slice& wanted = (*table_)[slice];
  const uint32_t saved_variable = saved_variables_[wanted.variable];
  const SliceTable& saved = checkpoint_->slices();
  uint32_t first = saved.first_slice_of(saved_variable), end = first;
  const uint64_t last_element = wanted.first_element + wanted.num_elements;
  for (uint32_t s = first; s < saved.first_slice_of(saved_variable + 1); ++s) {
    if (saved[s].first_element + saved[s].num_elements <= wanted.first_element) first = s + 1;
    if (saved[s].first_element < last_element) end = s + 1;
  }
  return FillState(slice, first, end, contents);
}

absl::Status CheckpointSliceSource::FillBucket(uint32_t slice, BucketContents* contents) {
  const uint32_t table = (*table_)[slice].variable;
  const uint32_t bucket = slice - table_->first_slice_of(table);
  const uint32_t saved = checkpoint_->slices().first_slice_of(saved_variables_[table]) + bucket;
  v1::VariableSpec spec = checkpoint_->variable_of(saved);
  spec.mutable_table()->set_rowwise(rowwise_[table]);
  absl::StatusOr<BucketRows> rows =
      checkpoint_->ReadBucket(saved, MakeRowSlots(spec, slot_names_(slice)));
  if (absl::IsNotFound(rows.status())) return OtherOptimizer(rows.status());
  RETURN_IF_ERROR(rows.status());
  contents->rows = *std::move(rows);
  const SavedSliceState& state = checkpoint_->state(saved);
  contents->version = state.version;
  contents->value_version = state.value_version;
  contents->applied = state.applied;
  return absl::OkStatus();
}

// Fills in the state of the saved slices [first_saved, end_saved). They must all have the same
// state if the run divides the variable differently.
absl::Status CheckpointSliceSource::FillState(uint32_t slice, uint32_t first_saved,
                                              uint32_t end_saved, Contents* contents) const {
  const SavedSliceState& state = checkpoint_->state(first_saved);
  const Slice& wanted = (*table_)[slice];
  const Slice& saved = checkpoint_->slices()[first_saved];
  const bool same_cut = end_saved == first_saved + 1 &&
                        saved.first_element == wanted.first_element &&
                        saved.num_elements == wanted.num_elements;
  for (uint32_t s = first_saved + 1; s < end_saved; ++s) {
    const SavedSliceState& other = checkpoint_->state(s);
    if (EncodeSliceState(other) == EncodeSliceState(state)) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        "checkpoint ", checkpoint_->directory(),
        " was cut by another slice_bytes and its slices are of different versions: use "
        "cluster.slice_bytes = ",
        checkpoint_->slices().slice_bytes()));
  }
  if (!same_cut && !state.applied.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("checkpoint ", checkpoint_->directory(),
                     " of an asynchronous run was cut by another slice_bytes: use "
                     "cluster.slice_bytes = ",
                     checkpoint_->slices().slice_bytes()));
  }
  contents->version = state.version;
  contents->value_version = state.value_version;
  contents->applied = state.applied;
  return absl::OkStatus();
}

// Copies the elements of the wanted slice from all saved slices that have some of them.
absl::Status CheckpointSliceSource::FillTensor(uint32_t slice, const std::string& slot,
                                               absl::Span<float> out) {
  const Slice& wanted = (*table_)[slice];
  const uint64_t wanted_end = wanted.first_element + wanted.num_elements;
  const uint32_t variable = saved_variables_[wanted.variable];
  const SliceTable& saved = checkpoint_->slices();
  for (uint32_t s = saved.first_slice_of(variable); s < saved.first_slice_of(variable + 1); ++s) {
    const uint64_t saved_end = saved[s].first_element + saved[s].num_elements;
    const uint64_t begin = std::max(wanted.first_element, saved[s].first_element);
    const uint64_t end = std::min(wanted_end, saved_end);
    if (begin >= end) continue;
    RETURN_IF_ERROR(checkpoint_->Read(s, slot, begin - saved[s].first_element,
                                      out.subspan(begin - wanted.first_element, end - begin)));
  }
  return absl::OkStatus();
}

}  // namespace shoal

#include "runtime/checkpoint/checkpoint_testing.h"

#include <algorithm>
#include <deque>

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "runtime/checkpoint/bucket_tensors.h"
#include "runtime/checkpoint/shard_writer.h"

namespace shoal {
namespace {

v1::VariableSpec Spec(const std::string& name, const std::vector<int64_t>& shape) {
  v1::VariableSpec spec;
  spec.set_name(name);
  for (int64_t dim : shape) spec.add_shape(dim);
  spec.set_dtype(v1::DATA_TYPE_FLOAT32);
  spec.set_trainable(true);
  spec.mutable_initializer()->set_kind(v1::Initializer::KIND_ZEROS);
  spec.set_update(v1::UPDATE_KIND_OPTIMIZER);
  return spec;
}

SavedSliceState StateOf(uint32_t slice, const SaveOptions& options) {
  SavedSliceState state;
  state.version = options.step + (options.asynchronous ? slice : 0);
  state.value_version = state.version - 1;
  if (options.asynchronous) {
    state.applied.emplace_back();
    state.applied.back().epoch = 3;
    state.applied.back().batches.InsertRange(0, slice + 1);
    state.applied.back().batches.InsertRange(100, 100 + options.step);
  }
  return state;
}

// The memory of what a writer is given.
class Values {
 public:
  absl::Span<const float> Of(const Slice& slice, const std::string& slot, uint64_t step) {
    std::vector<float>& values = kept_.emplace_back();
    for (uint64_t i = 0; i < slice.num_elements; ++i) {
      values.push_back(TestValue(slice.variable, slice.first_element + i, slot, step));
    }
    return values;
  }

 private:
  std::deque<std::vector<float>> kept_;
};

std::vector<v1::VariableSpec> VariablesOf(const SaveOptions& options) {
  std::vector<v1::VariableSpec> variables = TestVariables();
  if (options.with_table) variables.push_back(TestTable());
  return variables;
}

absl::StatusOr<v1::ShardFile> WriteShard(FileSystem& file_system, const std::string& directory,
                                         const SliceTable& table, uint32_t ps,
                                         const SaveOptions& options) {
  const std::vector<v1::VariableSpec> variables = VariablesOf(options);
  std::deque<BucketRows> buckets;
  ShardWriter writer(file_system, {directory, ps, options.num_ps});
  if (!options.bases.empty()) writer.SetBases(options.bases);
  Values values;
  for (uint32_t slice = ps; slice < table.size(); slice += options.num_ps) {
    const uint32_t variable = table[slice].variable;
    if (table[slice].is_bucket) {
      const BucketRows& rows =
          buckets.emplace_back(TestRows(table, slice, options.step, options.slots.size()));
      writer.AddBucket(
          {variables[variable].name(), slice - table.first_slice_of(variable),
           DimOf(variables[variable]), MakeRowSlots(variables[variable], options.slots),
           rows.keys.size(), rows.counted_keys.size(), [&rows] { return &rows; }},
          StateOf(slice, options));
      continue;
    }
    std::vector<ShardWriter::Slot> slots;
    for (const std::string& slot : options.slots) {
      slots.push_back({slot, values.Of(table[slice], slot, options.step)});
    }
    writer.Add(variables[variable].name(), slice - table.first_slice_of(variable),
               values.Of(table[slice], "", options.step), slots, StateOf(slice, options));
  }
  return writer.Finish();
}

absl::Status CheckBucket(Checkpoint& checkpoint, uint32_t slice, const SaveOptions& options) {
  const std::vector<RowSlot> slots = MakeRowSlots(checkpoint.variable_of(slice), options.slots);
  ASSIGN_OR_RETURN(const BucketRows rows, checkpoint.ReadBucket(slice, slots));
  const BucketRows saved = TestRows(checkpoint.slices(), slice, options.step, slots.size());
  if (rows.keys == saved.keys && rows.touched == saved.touched && rows.rows == saved.rows &&
      rows.counted_keys == saved.counted_keys && rows.counts == saved.counts &&
      rows.counted_touched == saved.counted_touched) {
    return absl::OkStatus();
  }
  return absl::InternalError(absl::StrCat("bucket ", slice, " has other rows"));
}

absl::Status CheckTensor(Checkpoint& checkpoint, uint32_t slice, const std::string& slot,
                         uint64_t step) {
  const Slice& where = checkpoint.slices()[slice];
  std::vector<float> values(where.num_elements);
  RETURN_IF_ERROR(checkpoint.Read(slice, slot, 0, absl::MakeSpan(values)));
  for (uint64_t i = 0; i < values.size(); ++i) {
    if (values[i] == TestValue(where.variable, where.first_element + i, slot, step)) continue;
    return absl::InternalError(
        absl::StrCat("slice ", slice, " slot \"", slot, "\" element ", i, " is ", values[i]));
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<v1::VariableSpec> TestVariables() {
  return {Spec("dense/w", {11, 7}), Spec("dense/b", {5}), Spec("scale", {})};
}

v1::VariableSpec TestTable() {
  v1::VariableSpec spec = Spec("item", {2});
  spec.mutable_table()->set_buckets(3);
  spec.mutable_table()->set_min_count(2);
  return spec;
}

BucketRows TestRows(const SliceTable& table, uint32_t slice, uint64_t step, size_t num_slots) {
  const uint32_t variable = table[slice].variable;
  BucketRows rows;
  for (uint64_t key = 0; key < 40; ++key) {
    if (key == step || table.BucketOf(variable, key) != slice) continue;
    rows.keys.push_back(key);
    rows.touched.push_back(static_cast<uint32_t>(std::min(key + 1, step)));
    const auto value = static_cast<float>(10 * key + step);
    rows.rows.insert(rows.rows.end(), {value, value + 1});
    for (size_t k = 0; k < num_slots; ++k) {
      rows.rows.insert(rows.rows.end(), {value + 0.5f, value + 1.5f});
    }
  }
  if (table.BucketOf(variable, 50) == slice) {
    rows.counted_keys.push_back(50);
    rows.counts.push_back(1);
    rows.counted_touched.push_back(static_cast<uint32_t>(step / 2));
  }
  return rows;
}

float TestValue(uint32_t variable, uint64_t element, const std::string& slot, uint64_t step) {
  uint64_t code = (step * 5 + variable) * 1000 + element;
  for (char c : slot) code = code * 7 + static_cast<uint64_t>(c - 'a');
  return static_cast<float>(code % 8000000) / 4;
}

CheckpointName TestName(const SaveOptions& options) {
  return {options.step, options.term, options.step * 1000 + options.term};
}

absl::Status SaveTestRun(FileSystem& file_system, const std::string& root,
                         const SaveOptions& options) {
  const std::vector<v1::VariableSpec> variables = VariablesOf(options);
  ASSIGN_OR_RETURN(const SliceTable table, SliceTable::Create(variables, kTestSliceBytes));
  ASSIGN_OR_RETURN(const std::unique_ptr<CheckpointDirectory> checkpoints,
                   CheckpointDirectory::Open(file_system, root));
  const CheckpointName name = TestName(options);
  if (!options.again || !FileExists(file_system, checkpoints->GetPath(name.ToString()))) {
    RETURN_IF_ERROR(checkpoints->Begin(name));
  }
  v1::Manifest manifest;
  manifest.set_run_id("0123456789abcdef0123456789abcdef");
  manifest.set_step(options.step);
  manifest.set_term(options.term);
  manifest.set_optimizer(options.optimizer);
  manifest.set_created_unix_seconds(options.again ? 2000 : 1000);
  for (const v1::VariableSpec& variable : variables) *manifest.add_variables() = variable;
  manifest.mutable_shard_map()->set_slice_bytes(kTestSliceBytes);
  manifest.mutable_shard_map()->set_num_ps_tasks(options.num_ps);
  for (uint32_t ps = 0; ps < options.num_ps; ++ps) {
    ASSIGN_OR_RETURN(
        *manifest.add_shards(),
        WriteShard(file_system, checkpoints->GetPath(name.ToString()), table, ps, options));
  }
  return checkpoints->Publish(name, manifest);
}

absl::Status VerifyTestRun(Checkpoint& checkpoint, const SaveOptions& options) {
  for (uint32_t slice = 0; slice < checkpoint.slices().size(); ++slice) {
    if (checkpoint.slices()[slice].is_bucket) {
      RETURN_IF_ERROR(CheckBucket(checkpoint, slice, options));
      continue;
    }
    RETURN_IF_ERROR(CheckTensor(checkpoint, slice, "", options.step));
    for (const std::string& slot : options.slots) {
      RETURN_IF_ERROR(CheckTensor(checkpoint, slice, slot, options.step));
    }
    if (EncodeSliceState(checkpoint.state(slice)) != EncodeSliceState(StateOf(slice, options))) {
      return absl::InternalError(
          absl::StrCat("slice ", slice, " is of ", EncodeSliceState(checkpoint.state(slice))));
    }
  }
  return absl::OkStatus();
}

}  // namespace shoal

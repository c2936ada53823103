#include "runtime/checkpoint/given_tensors.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/find_file.h"
#include "base/status_macros.h"
#include "nlohmann/json.hpp"
#include "proto/v1/checkpoint.pb.h"
#include "proto/v1/variable.pb.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/model_export.h"
#include "runtime/checkpoint/safetensors.h"
#include "runtime/checkpoint/table_arrays.h"
#include "runtime/plan/slice_table.h"

namespace shoal {
namespace {

// Tensors of a safetensors file; Place::where is the offset in its data.
class SafetensorsTensors : public GivenTensors {
 public:
  static absl::StatusOr<std::unique_ptr<SafetensorsTensors>> Open(FileSystem& file_system,
                                                                  const std::string& path) {
    auto tensors = std::make_unique<SafetensorsTensors>();
    ASSIGN_OR_RETURN(tensors->file_, file_system.OpenForRead(path));
    ASSIGN_OR_RETURN(const SafetensorsHeader header,
                     ReadSafetensorsHeader(*tensors->file_, path, &tensors->data_begin_));
    const auto step = header.metadata.find("step");
    if (step != header.metadata.end()) tensors->step_ = step->second;
    for (const SafetensorsEntry& entry : header.tensors) {
      if (entry.dtype != "F32") {
        return absl::InvalidArgumentError(absl::StrCat(path, ": tensor ", entry.name, " is ",
                                                       entry.dtype, "; convert it to F32"));
      }
      Place& place = tensors->places_[entry.name];
      place.where = entry.begin;
      place.shape.assign(entry.shape.begin(), entry.shape.end());
    }
    return tensors;
  }

  // Returns the step of the checkpoint that the file is of; empty if it does not say that.
  const std::string& step() const { return step_; }

  absl::Status Read(const std::string& name, const std::string& slot, uint64_t first,
                    absl::Span<float> out) override {
    if (!slot.empty()) return absl::NotFoundError(absl::StrCat("there is no ", slot));
    const uint64_t at = data_begin_ + places_[name].where + first * sizeof(float);
    const size_t bytes = out.size() * sizeof(float);
    ASSIGN_OR_RETURN(const size_t read,
                     file_->Read(at, {reinterpret_cast<char*>(out.data()), bytes}));
    return read == bytes ? absl::OkStatus() : absl::DataLossError("the file has become shorter");
  }

 private:
  std::unique_ptr<ReadableFile> file_;
  uint64_t data_begin_ = 0;
  std::string step_;
};

// Variables of a checkpoint; Place::where is the index of the variable.
class CheckpointTensors : public GivenTensors {
 public:
  explicit CheckpointTensors(std::unique_ptr<Checkpoint> checkpoint)
      : checkpoint_(std::move(checkpoint)) {
    const v1::Manifest& manifest = checkpoint_->manifest();
    for (int v = 0; v < manifest.variables_size(); ++v) {
      const auto& shape = manifest.variables(v).shape();
      places_[manifest.variables(v).name()] = {static_cast<uint64_t>(v),
                                               {shape.begin(), shape.end()}};
    }
  }

  absl::Status Read(const std::string& name, const std::string& slot, uint64_t first,
                    absl::Span<float> out) override {
    const SliceTable& slices = checkpoint_->slices();
    const auto variable = static_cast<uint32_t>(places_[name].where);
    const uint64_t end = first + out.size();
    for (uint32_t s = slices.first_slice_of(variable); s < slices.first_slice_of(variable + 1);
         ++s) {
      const uint64_t from = std::max(first, slices[s].first_element);
      const uint64_t to = std::min(end, slices[s].first_element + slices[s].num_elements);
      if (from >= to) continue;
      RETURN_IF_ERROR(checkpoint_->Read(s, slot, from - slices[s].first_element,
                                        out.subspan(from - first, to - from)));
    }
    return absl::OkStatus();
  }

  const v1::Manifest* manifest() const override { return &checkpoint_->manifest(); }

  const v1::VariableSpec* SpecOf(const std::string& name) const override {
    return &checkpoint_->manifest().variables(static_cast<int>(places_.find(name)->second.where));
  }

  uint32_t BucketsOf(const std::string& name) const override {
    return checkpoint_->slices().num_buckets_of(
        static_cast<uint32_t>(places_.find(name)->second.where));
  }

  absl::StatusOr<BucketRows> ReadBucket(const std::string& name, uint32_t bucket,
                                        absl::Span<const RowSlot> slots) override {
    const auto table = static_cast<uint32_t>(places_[name].where);
    const uint32_t slice = checkpoint_->slices().first_slice_of(table) + bucket;
    ASSIGN_OR_RETURN(BucketRows rows, checkpoint_->ReadBucket(slice, slots));
    const uint64_t version = checkpoint_->state(slice).version;
    for (std::vector<uint32_t>* touched : {&rows.touched, &rows.counted_touched}) {
      for (uint32_t& one : *touched) one = TouchedBefore(UpdatesSinceTouched(one, version));
    }
    return rows;
  }

 private:
  const std::unique_ptr<Checkpoint> checkpoint_;
};

// Returns an error if the rows in a directory were exported from a checkpoint of another step than
// the model file beside them. Arrays of other programs have no export.json that says the step.
absl::Status CheckSameStep(FileSystem& file_system, const std::string& directory,
                           const std::string& model_file, const std::string& model_step) {
  const std::string path = JoinPath(directory, kExportDescription);
  const absl::StatusOr<std::string> text = ReadFile(file_system, path);
  if (absl::IsNotFound(text.status())) return absl::OkStatus();
  RETURN_IF_ERROR(text.status());
  const auto described = nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (!described.is_object() || !described.contains("step")) return absl::OkStatus();
  const std::string step = described["step"].dump();
  if (model_step.empty() || step == model_step) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      path, " says that the rows are of step ", step, ", but ", model_file, " is of step ",
      model_step, "; export both at once (shoal export RUN --tables=", directory,
      " --model_file=", model_file, "), or remove the model file"));
}

// Tables in arrays of NumPy, by the names of their files, and the tensors of a safetensors file
// beside them, if there is one. Tables without files start from their initializers, and so do all
// other variables if there is no safetensors file; Place::where is 1 for a table.
class ArrayTensors : public GivenTensors {
 public:
  static absl::StatusOr<std::unique_ptr<GivenTensors>> Open(FileSystem& file_system,
                                                            const std::string& directory) {
    auto tensors = std::make_unique<ArrayTensors>();
    ASSIGN_OR_RETURN(tensors->arrays_, TableArrays::Open(file_system, directory));
    const std::string file = JoinPath(directory, kModelExportFile);
    ASSIGN_OR_RETURN(const std::optional<FileInfo> found, FindFile(file_system, file));
    if (found.has_value()) {
      ASSIGN_OR_RETURN(std::unique_ptr<SafetensorsTensors> model,
                       SafetensorsTensors::Open(file_system, file));
      RETURN_IF_ERROR(CheckSameStep(file_system, directory, file, model->step()));
      tensors->others_ = std::move(model);
      for (const std::string& name : tensors->others_->Names()) {
        tensors->places_[name].shape = *tensors->others_->ShapeOf(name);
      }
    }
    for (const auto& [name, dim] : tensors->arrays_->dims()) {
      if (!tensors->places_.try_emplace(name, Place{1, {dim}}).second) {
        return absl::InvalidArgumentError(absl::StrCat(file, " has a tensor ", name, ", and ", name,
                                                       kKeysFile, " is beside it; rename one"));
      }
    }
    return std::unique_ptr<GivenTensors>(std::move(tensors));
  }

  absl::Status Read(const std::string& name, const std::string& slot, uint64_t first,
                    absl::Span<float> out) override {
    if (BucketsOf(name) > 0) return absl::InvalidArgumentError(absl::StrCat(name, " is a table"));
    return others_->Read(name, slot, first, out);
  }

  std::string SourceOf(const v1::VariableSpec& variable, std::string mapped) const override {
    if (others_ != nullptr && !variable.has_table()) return mapped;
    std::string file = TableFileName(mapped);
    return mapped == variable.name() && places_.count(file) == 0 ? "" : file;
  }

  uint32_t BucketsOf(const std::string& name) const override {
    return places_.find(name)->second.where == 1 ? TableArrays::kBuckets : 0;
  }

  // The arrays have no slots. All rows count as touched at version 0.
  absl::StatusOr<BucketRows> ReadBucket(const std::string& name, uint32_t bucket,
                                        absl::Span<const RowSlot> /*slots*/) override {
    ASSIGN_OR_RETURN(BucketRows rows, arrays_->ReadBucket(name, bucket));
    rows.touched.assign(rows.keys.size(), 0);
    return rows;
  }

 private:
  std::unique_ptr<TableArrays> arrays_;
  std::unique_ptr<GivenTensors> others_;  // Null if there is no safetensors file.
};

}  // namespace

std::string GivenTensors::SourceOf(const v1::VariableSpec& /*variable*/, std::string mapped) const {
  return mapped;
}

absl::StatusOr<BucketRows> GivenTensors::ReadBucket(const std::string& name, uint32_t /*bucket*/,
                                                    absl::Span<const RowSlot> /*slots*/) {
  return absl::InvalidArgumentError(absl::StrCat(name, " is not a table"));
}

absl::StatusOr<std::unique_ptr<GivenTensors>> GivenTensors::Open(FileSystem& file_system,
                                                                 const std::string& path) {
  ASSIGN_OR_RETURN(const FileInfo info, file_system.GetInfo(path));
  if (!info.is_directory) {
    ASSIGN_OR_RETURN(std::unique_ptr<SafetensorsTensors> file,
                     SafetensorsTensors::Open(file_system, path));
    return std::unique_ptr<GivenTensors>(std::move(file));
  }
  ASSIGN_OR_RETURN(const bool are_arrays, TableArrays::AreIn(file_system, path));
  if (are_arrays) return ArrayTensors::Open(file_system, path);
  ASSIGN_OR_RETURN(std::unique_ptr<Checkpoint> checkpoint,
                   Checkpoint::Open(file_system, path, Checkpoint::Verify::kIndex));
  return std::unique_ptr<GivenTensors>(std::make_unique<CheckpointTensors>(std::move(checkpoint)));
}

}  // namespace shoal

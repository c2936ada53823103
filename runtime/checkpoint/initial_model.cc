#include "runtime/checkpoint/initial_model.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "base/file_system.h"
#include "base/status_macros.h"
#include "ml/optim/all_finite.h"
#include "proto/v1/run_config.pb.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/checkpoint_directory.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/checkpoint/safetensors.h"
#include "runtime/config/name_patterns.h"

namespace shoal {

// An interface to read whole tensors by name from any kind of file.
class GivenTensors {
 public:
  virtual ~GivenTensors() = default;
  // Returns null if there is none of this name.
  const std::vector<int64_t>* ShapeOf(const std::string& name) const {
    const auto place = places_.find(name);
    return place == places_.end() ? nullptr : &place->second.shape;
  }
  // Reads elements of a tensor that exists.
  virtual absl::Status Read(const std::string& name, uint64_t first, absl::Span<float> out) = 0;
  // Returns the number of buckets if the tensor is a table; else 0.
  virtual uint32_t BucketsOf(const std::string& /*name*/) const { return 0; }
  // Reads the values of a bucket's rows. The table exists.
  virtual absl::StatusOr<BucketRows> ReadBucket(const std::string& name, uint32_t /*bucket*/) {
    return absl::InvalidArgumentError(absl::StrCat(name, " is not a table"));
  }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& [name, place] : places_) names.push_back(name);
    return names;
  }

 protected:
  struct Place {
    uint64_t where = 0;  // The meaning is that of the kind of file.
    std::vector<int64_t> shape;
  };
  std::map<std::string, Place> places_;
};

namespace {

constexpr char kInitialDirectory[] = "initial";

constexpr size_t kMostNamed = 8;  // Names in a message.

absl::Status Refused(absl::string_view what) {
  return absl::FailedPreconditionError(absl::StrCat("init_from: ", what));
}

// Returns whether the file system failed in a way that says nothing about the model.
bool MayPass(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsResourceExhausted(status) ||
         absl::IsUnknown(status);
}

// Refuses a model that cannot be read. An error that may pass keeps its code, so that the model is
// read again.
absl::Status Unread(absl::string_view what, const absl::Status& status) {
  const absl::Status refused = Refused(absl::StrCat(what, status.message()));
  return MayPass(status) ? absl::Status(status.code(), refused.message()) : refused;
}

// Tensors of a safetensors file; Place::where is the offset in its data.
class SafetensorsTensors : public GivenTensors {
 public:
  static absl::StatusOr<std::unique_ptr<GivenTensors>> Open(FileSystem& file_system,
                                                            const std::string& path) {
    auto tensors = std::make_unique<SafetensorsTensors>();
    ASSIGN_OR_RETURN(tensors->file_, file_system.OpenForRead(path));
    ASSIGN_OR_RETURN(const SafetensorsHeader header,
                     ReadSafetensorsHeader(*tensors->file_, path, &tensors->data_begin_));
    for (const SafetensorsEntry& entry : header.tensors) {
      if (entry.dtype != "F32") {
        return absl::InvalidArgumentError(absl::StrCat(path, ": tensor ", entry.name, " is ",
                                                       entry.dtype, "; convert it to F32"));
      }
      Place& place = tensors->places_[entry.name];
      place.where = entry.begin;
      place.shape.assign(entry.shape.begin(), entry.shape.end());
    }
    return std::unique_ptr<GivenTensors>(std::move(tensors));
  }

  absl::Status Read(const std::string& name, uint64_t first, absl::Span<float> out) override {
    const uint64_t at = data_begin_ + places_[name].where + first * sizeof(float);
    const size_t bytes = out.size() * sizeof(float);
    ASSIGN_OR_RETURN(const size_t read,
                     file_->Read(at, {reinterpret_cast<char*>(out.data()), bytes}));
    return read == bytes ? absl::OkStatus() : absl::DataLossError("the file has become shorter");
  }

 private:
  std::unique_ptr<ReadableFile> file_;
  uint64_t data_begin_ = 0;
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

  absl::Status Read(const std::string& name, uint64_t first, absl::Span<float> out) override {
    const SliceTable& slices = checkpoint_->slices();
    const auto variable = static_cast<uint32_t>(places_[name].where);
    const uint64_t end = first + out.size();
    for (uint32_t s = slices.first_slice_of(variable); s < slices.first_slice_of(variable + 1);
         ++s) {
      const uint64_t from = std::max(first, slices[s].first_element);
      const uint64_t to = std::min(end, slices[s].first_element + slices[s].num_elements);
      if (from >= to) continue;
      RETURN_IF_ERROR(checkpoint_->Read(s, "", from - slices[s].first_element,
                                        out.subspan(from - first, to - from)));
    }
    return absl::OkStatus();
  }

  uint32_t BucketsOf(const std::string& name) const override {
    return checkpoint_->slices().num_buckets_of(
        static_cast<uint32_t>(places_.find(name)->second.where));
  }

  absl::StatusOr<BucketRows> ReadBucket(const std::string& name, uint32_t bucket) override {
    const auto table = static_cast<uint32_t>(places_[name].where);
    return checkpoint_->ReadBucket(checkpoint_->slices().first_slice_of(table) + bucket, {});
  }

 private:
  const std::unique_ptr<Checkpoint> checkpoint_;
};

absl::StatusOr<std::unique_ptr<GivenTensors>> OpenTensors(FileSystem& file_system,
                                                          const std::string& path) {
  ASSIGN_OR_RETURN(const FileInfo info, file_system.GetInfo(path));
  if (!info.is_directory) return SafetensorsTensors::Open(file_system, path);
  ASSIGN_OR_RETURN(std::unique_ptr<Checkpoint> checkpoint,
                   Checkpoint::Open(file_system, path, Checkpoint::Verify::kIndex));
  return std::unique_ptr<GivenTensors>(std::make_unique<CheckpointTensors>(std::move(checkpoint)));
}

std::string ShapeText(absl::Span<const int64_t> shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ","), "]");
}

// The variables of a program have no initializers: it writes their first values to a file of its
// own. Its tables have.
bool HasInitializer(const v1::RunConfig& run, const v1::VariableSpec& variable) {
  return variable.has_table() || run.program().file().empty();
}

// Describes, for the end of an error message, how a variable can keep its initializer.
std::string LeaveOut(const v1::RunConfig& run, const v1::VariableSpec& variable) {
  if (!HasInitializer(run, variable)) return "";
  return absl::StrCat(", or let it start from its initializer with --init_map='", variable.name(),
                      "='");
}

absl::Status CheckTable(const v1::RunConfig& run, const GivenTensors& tensors,
                        const std::string& path, const v1::VariableSpec& variable,
                        const std::string& name) {
  const bool given = tensors.BucketsOf(name) > 0, wanted = variable.has_table();
  if (given == wanted) return absl::OkStatus();
  return Refused(absl::StrCat(path, " has ", name, given ? " as a table" : ", which is not a table",
                              ", variable ", variable.name(), wanted ? " is one" : " is not",
                              "; map it to another", LeaveOut(run, variable)));
}

absl::Status CheckTensor(const v1::RunConfig& run, const GivenTensors& tensors,
                         const std::string& path, const v1::VariableSpec& variable,
                         const std::string& name) {
  const std::vector<int64_t> wanted(variable.shape().begin(), variable.shape().end());
  const std::vector<int64_t>* shape = tensors.ShapeOf(name);
  if (shape == nullptr) {
    std::vector<std::string> names = tensors.Names();
    const bool has_more = names.size() > kMostNamed;
    if (has_more) names.resize(kMostNamed);
    return Refused(absl::StrCat(path, " has no tensor ", name, " for variable ", variable.name(),
                                ", but ", absl::StrJoin(names, ", "), has_more ? ", ..." : "",
                                "; map it with --init_map='", variable.name(), "=NAME'",
                                LeaveOut(run, variable)));
  }
  if (*shape == wanted) return CheckTable(run, tensors, path, variable, name);
  return Refused(absl::StrCat(path, " has ", name, " ", ShapeText(*shape), ", variable ",
                              variable.name(), " is ", ShapeText(wanted), "; map it to another",
                              LeaveOut(run, variable)));
}

// Returns the range [first, end) of a table's `others` buckets that may have keys of bucket
// `bucket` of `buckets`. A bucket is a range of the 2^32 hashes of keys (SliceTable::BucketOf).
std::pair<uint32_t, uint32_t> OverlappingBuckets(uint64_t bucket, uint64_t buckets,
                                                 uint64_t others) {
  const auto first_hash_of = [buckets](uint64_t b) { return ((b << 32) + buckets - 1) / buckets; };
  const uint64_t first = (first_hash_of(bucket) * others) >> 32;
  const uint64_t last = ((first_hash_of(bucket + 1) - 1) * others) >> 32;
  return {static_cast<uint32_t>(first), static_cast<uint32_t>(last + 1)};
}

// Sorts rows that have only values, of `dim` floats.
void SortByKey(size_t dim, BucketRows* rows) {
  if (std::is_sorted(rows->keys.begin(), rows->keys.end())) return;
  std::vector<std::pair<uint64_t, size_t>> order;  // the key and its place
  for (size_t r = 0; r < rows->keys.size(); ++r) order.emplace_back(rows->keys[r], r);
  std::sort(order.begin(), order.end());
  std::vector<float> values;
  values.reserve(rows->rows.size());
  for (size_t r = 0; r < order.size(); ++r) {
    rows->keys[r] = order[r].first;
    const float* const value = rows->rows.data() + order[r].second * dim;
    values.insert(values.end(), value, value + dim);
  }
  rows->rows = std::move(values);
}

absl::Status NotFinite(const std::string& name) {
  return absl::DataLossError(absl::StrCat(
      "init_from: tensor ", name, " has a value that is not finite; start from another model"));
}

}  // namespace

absl::StatusOr<std::string> ResolveInitFrom(FileSystem& file_system, const std::string& path) {
  const absl::StatusOr<FileInfo> info = file_system.GetInfo(path);
  if (MayPass(info.status())) return Unread("", info.status());
  if (!info.ok()) {
    return Refused(
        absl::StrCat("there is no ", path, "; name a safetensors file or the directory of a run"));
  }
  if (!info->is_directory) return path;
  const absl::Status manifest = file_system.GetInfo(JoinPath(path, kManifestFile)).status();
  if (manifest.ok()) return path;
  if (MayPass(manifest)) return Unread("", manifest);
  const std::string root = JoinPath(path, "checkpoints");
  const absl::Status has_checkpoints = file_system.GetInfo(root).status();
  if (MayPass(has_checkpoints)) return Unread("", has_checkpoints);
  if (!has_checkpoints.ok()) {
    return Refused(
        absl::StrCat(path,
                     " is not the directory of a run: it has no checkpoints; name one, or a "
                     "safetensors file"));
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<CheckpointDirectory> checkpoints,
                   CheckpointDirectory::Open(file_system, root));
  std::vector<std::string> rejected;
  const absl::StatusOr<std::unique_ptr<Checkpoint>> newest =
      checkpoints->OpenLatestValid(Checkpoint::Verify::kIndex, &rejected);
  if (newest.ok()) return (*newest)->directory();
  if (MayPass(newest.status())) return Unread("", newest.status());
  return Refused(absl::StrCat("the run in ", path, " has no good checkpoint (",
                              newest.status().message(), "); name another run"));
}

std::string InitialValuesPath(const std::string& run_directory, uint64_t fingerprint) {
  return JoinPath(run_directory,
                  absl::StrCat(kInitialDirectory, "/", absl::Hex(fingerprint, absl::kZeroPad16),
                               ".safetensors"));
}

absl::Status RemoveInitialValues(FileSystem& file_system, const std::string& run_directory) {
  const std::string directory = JoinPath(run_directory, kInitialDirectory);
  const absl::StatusOr<std::vector<std::string>> names = file_system.List(directory);
  if (absl::IsNotFound(names.status())) return absl::OkStatus();
  absl::Status status = names.status();
  if (!names.ok()) return status;
  for (const std::string& name : *names) {
    const absl::Status removed = file_system.Remove(JoinPath(directory, name));
    // A worker may give it another name meanwhile.
    if (!removed.ok() && !absl::IsNotFound(removed)) status.Update(removed);
  }
  return status;
}

InitialModel::InitialModel(absl::Span<const v1::VariableSpec> variables, const SliceTable& table,
                           uint64_t seed, std::unique_ptr<GivenTensors> tensors)
    : initial_(variables, table, seed), table_(table), tensors_(std::move(tensors)) {}

InitialModel::~InitialModel() = default;

absl::StatusOr<std::unique_ptr<InitialModel>> InitialModel::Open(
    FileSystem& file_system, const v1::RunConfig& run, absl::Span<const v1::VariableSpec> variables,
    const SliceTable& table) {
  ASSIGN_OR_RETURN(const NameMap map,
                   NameMap::Create("init_map", {run.init_map().begin(), run.init_map().end()}));
  ASSIGN_OR_RETURN(const std::string path, ResolveInitFrom(file_system, run.init_from()));
  absl::StatusOr<std::unique_ptr<GivenTensors>> tensors = OpenTensors(file_system, path);
  if (!tensors.ok()) return Unread("", tensors.status());
  std::unique_ptr<InitialModel> model(
      new InitialModel(variables, table, run.seed(), *std::move(tensors)));
  for (const v1::VariableSpec& variable : variables) {
    std::string name = map.Map(variable.name());
    if (!name.empty()) {
      RETURN_IF_ERROR(CheckTensor(run, *model->tensors_, path, variable, name));
    } else if (!HasInitializer(run, variable)) {
      return Refused(absl::StrCat("init_map gives variable ", variable.name(),
                                  " no tensor, and only the program knows what it starts from; "
                                  "map it to a tensor"));
    }
    model->source_.push_back(std::move(name));
  }
  if (model->num_given() > 0) return model;
  return Refused("init_map lets every variable start from its initializer; drop one of them");
}

size_t InitialModel::num_given() const {
  return static_cast<size_t>(std::count_if(source_.begin(), source_.end(),
                                           [](const std::string& name) { return !name.empty(); }));
}

absl::Status InitialModel::Fill(uint32_t slice, Contents* contents) {
  const Slice& cut = table_[slice];
  const std::string& name = source_[cut.variable];
  if (name.empty()) return initial_.Fill(slice, contents);
  const absl::Status read = tensors_->Read(name, cut.first_element, contents->value);
  if (!read.ok()) return Unread(absl::StrCat("tensor ", name, ": "), read);
  contents->slots_follow_value = true;
  if (AllFinite(contents->value.data(), contents->value.size())) return absl::OkStatus();
  return NotFinite(name);
}

absl::Status InitialModel::FillBucket(uint32_t slice, BucketContents* contents) {
  const uint32_t table = table_[slice].variable;
  const std::string& name = source_[table];
  if (name.empty()) return absl::OkStatus();
  absl::StatusOr<BucketRows> saved = ReadRows(slice, name);
  if (!saved.ok()) return Unread(absl::StrCat("table ", name, ": "), saved.status());
  if (!AllFinite(saved->rows.data(), saved->rows.size())) return NotFinite(name);
  BucketRows& rows = contents->rows;
  const size_t dim = table_.row_elements_of(table);
  for (size_t r = 0; r < saved->keys.size(); ++r) {
    const float* const value = saved->rows.data() + r * dim;
    rows.rows.insert(rows.rows.end(), value, value + dim);
    rows.rows.insert(rows.rows.end(), contents->initial_slots.begin(),
                     contents->initial_slots.end());
  }
  rows.keys = std::move(saved->keys);
  rows.touched.assign(rows.keys.size(), 0);
  return absl::OkStatus();
}

absl::StatusOr<BucketRows> InitialModel::ReadRows(uint32_t slice, const std::string& name) {
  const uint32_t table = table_[slice].variable;
  const uint32_t bucket = slice - table_.first_slice_of(table);
  const uint32_t saved_buckets = tensors_->BucketsOf(name);
  if (saved_buckets == table_.num_buckets_of(table)) return tensors_->ReadBucket(name, bucket);
  const auto [first, end] = OverlappingBuckets(bucket, table_.num_buckets_of(table), saved_buckets);
  const size_t dim = table_.row_elements_of(table);
  BucketRows found;
  for (uint32_t b = first; b < end; ++b) {
    ASSIGN_OR_RETURN(const BucketRows* const rows, ReadSavedBucket(name, b));
    for (size_t r = 0; r < rows->keys.size(); ++r) {
      if (table_.BucketOf(table, rows->keys[r]) != slice) continue;
      found.keys.push_back(rows->keys[r]);
      const float* const value = rows->rows.data() + r * dim;
      found.rows.insert(found.rows.end(), value, value + dim);
    }
  }
  SortByKey(dim, &found);
  return found;
}

absl::StatusOr<const BucketRows*> InitialModel::ReadSavedBucket(const std::string& name,
                                                                uint32_t bucket) {
  if (saved_name_ == name && saved_bucket_ == bucket) return &saved_;
  saved_name_.clear();
  ASSIGN_OR_RETURN(saved_, tensors_->ReadBucket(name, bucket));
  saved_name_ = name;
  saved_bucket_ = bucket;
  return &saved_;
}

}  // namespace shoal

#include "runtime/checkpoint/initial_model.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "base/file_system.h"
#include "base/status_macros.h"
#include "ml/optim/all_finite.h"
#include "proto/v1/checkpoint.pb.h"
#include "proto/v1/run_config.pb.h"
#include "proto/v1/variable.pb.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/checkpoint_directory.h"
#include "runtime/checkpoint/given_tensors.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/checkpoint/model_export.h"
#include "runtime/checkpoint/table_arrays.h"
#include "runtime/config/name_patterns.h"
#include "runtime/config/run_config.h"

namespace shoal {
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

std::string ShapeText(absl::Span<const int64_t> shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ","), "]");
}

// Returns the names of the tensors, or some of many.
std::string NamesIn(const GivenTensors& tensors) {
  std::vector<std::string> names = tensors.Names();
  const bool has_more = names.size() > kMostNamed;
  if (has_more) names.resize(kMostNamed);
  return absl::StrCat(absl::StrJoin(names, ", "), has_more ? ", ..." : "");
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
    return Refused(absl::StrCat(path, " has no tensor ", name, " for variable ", variable.name(),
                                ", but ", NamesIn(tensors), "; map it with --init_map='",
                                variable.name(), "=NAME'", LeaveOut(run, variable)));
  }
  if (*shape == wanted) return CheckTable(run, tensors, path, variable, name);
  return Refused(absl::StrCat(path, " has ", name, " ", ShapeText(*shape), ", variable ",
                              variable.name(), " is ", ShapeText(wanted), "; map it to another",
                              LeaveOut(run, variable)));
}

// Returns the rule that a variable's slots belong to, as a run file names it, in a run with the
// rule `of_run`.
std::string RuleOf(const v1::VariableSpec& variable, const std::string& of_run) {
  const v1::TableSpec& table = variable.table();
  const std::string rule = table.has_optimizer() ? OptimizerName(table.optimizer()) : of_run;
  return table.rowwise() ? absl::StrCat("rowwise_", rule) : rule;
}

// Returns whether updates by an optimizer, which has slots, train the variable.
bool HasRule(const v1::VariableSpec& variable) {
  return variable.update() == v1::UPDATE_KIND_OPTIMIZER;
}

// Checks that the slots of `name` are those of the variable's rule. A dense variable that is frozen
// has none.
absl::Status CheckState(const v1::RunConfig& run, const GivenTensors& tensors,
                        const std::string& path, const v1::VariableSpec& variable,
                        const std::string& name) {
  const v1::VariableSpec& saved = *tensors.SpecOf(name);
  const bool has_slots = variable.has_table() || (HasRule(saved) && HasRule(variable));
  if (!has_slots) return absl::OkStatus();
  const std::string has = RuleOf(saved, tensors.manifest()->optimizer());
  const std::string wanted = RuleOf(variable, OptimizerName(run.optimizer()));
  if (has == wanted) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("init_state: ", variable.has_table() ? "table " : "variable ", variable.name(),
                   " has the rule ", wanted, ", and ", path, " has the slots of ", has, " for ",
                   name, "; use ", has, ", or drop init_state to take the values alone"));
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

// Keys with their places, in rising order of the keys.
using Order = std::vector<std::pair<uint64_t, size_t>>;

Order SortKeys(const std::vector<uint64_t>& keys) {
  Order order;
  order.reserve(keys.size());
  for (size_t i = 0; i < keys.size(); ++i) order.emplace_back(keys[i], i);
  std::sort(order.begin(), order.end());
  return order;
}

// Brings an array with `width` elements for each key into the order of the keys.
template <typename T>
void Arrange(const Order& order, size_t width, std::vector<T>* array) {
  std::vector<T> arranged;
  arranged.reserve(array->size());
  for (const auto& [key, place] : order) {
    const T* const from = array->data() + place * width;
    arranged.insert(arranged.end(), from, from + width);
  }
  *array = std::move(arranged);
}

void SortByKey(BucketRows* rows) {
  if (!std::is_sorted(rows->keys.begin(), rows->keys.end())) {
    const size_t row_floats = rows->rows.size() / rows->keys.size();
    const Order order = SortKeys(rows->keys);
    Arrange(order, 1, &rows->keys);
    Arrange(order, 1, &rows->touched);
    Arrange(order, row_floats, &rows->rows);
  }
  if (std::is_sorted(rows->counted_keys.begin(), rows->counted_keys.end())) return;
  const Order order = SortKeys(rows->counted_keys);
  Arrange(order, 1, &rows->counted_keys);
  Arrange(order, 1, &rows->counts);
  Arrange(order, 1, &rows->counted_touched);
}

// Appends the keys of `from` for which is_wanted(key, touched), with their rows and counts.
template <typename IsWanted>
void AppendKeys(const BucketRows& from, IsWanted is_wanted, BucketRows* to) {
  const size_t row_floats = from.keys.empty() ? 0 : from.rows.size() / from.keys.size();
  for (size_t r = 0; r < from.keys.size(); ++r) {
    if (!is_wanted(from.keys[r], from.touched[r])) continue;
    const float* const row = from.rows.data() + r * row_floats;
    to->keys.push_back(from.keys[r]);
    to->touched.push_back(from.touched[r]);
    to->rows.insert(to->rows.end(), row, row + row_floats);
  }
  for (size_t c = 0; c < from.counted_keys.size(); ++c) {
    if (!is_wanted(from.counted_keys[c], from.counted_touched[c])) continue;
    to->counted_keys.push_back(from.counted_keys[c]);
    to->counts.push_back(from.counts[c]);
    to->counted_touched.push_back(from.counted_touched[c]);
  }
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
    const absl::StatusOr<bool> are_arrays = TableArrays::AreIn(file_system, path);
    if (!are_arrays.ok()) return Unread("", are_arrays.status());
    if (*are_arrays) return path;
    return Refused(
        absl::StrCat(path,
                     " is not the directory of a run: it has no checkpoints; name one, a "
                     "safetensors file, or a directory with NAME.keys.npy and NAME.values.npy of "
                     "tables"));
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
                           uint64_t seed, std::unique_ptr<GivenTensors> tensors, bool takes_state,
                           SlotNames slot_names)
    : initial_(variables, table, seed),
      variables_(variables),
      table_(table),
      tensors_(std::move(tensors)),
      takes_state_(takes_state),
      slot_names_(std::move(slot_names)) {}

InitialModel::~InitialModel() = default;

absl::StatusOr<std::unique_ptr<InitialModel>> InitialModel::Open(
    FileSystem& file_system, const v1::RunConfig& run, absl::Span<const v1::VariableSpec> variables,
    const SliceTable& table, SlotNames slot_names) {
  ASSIGN_OR_RETURN(const NameMap map,
                   NameMap::Create("init_map", {run.init_map().begin(), run.init_map().end()}));
  ASSIGN_OR_RETURN(const std::string path, ResolveInitFrom(file_system, run.init_from()));
  absl::StatusOr<std::unique_ptr<GivenTensors>> tensors = GivenTensors::Open(file_system, path);
  if (!tensors.ok()) return Unread("", tensors.status());
  if (run.init_state() && (*tensors)->manifest() == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("init_state: ", path,
                     " has values alone; give --init_from the directory of a run, or drop "
                     "init_state"));
  }
  std::unique_ptr<InitialModel> model(new InitialModel(
      variables, table, run.seed(), *std::move(tensors), run.init_state(), std::move(slot_names)));
  bool are_mapped = false;
  for (const v1::VariableSpec& variable : variables) {
    const std::string mapped = map.Map(variable.name());
    are_mapped |= !mapped.empty();
    std::string name = model->tensors_->SourceOf(variable, mapped);
    if (!name.empty()) {
      RETURN_IF_ERROR(CheckTensor(run, *model->tensors_, path, variable, name));
      if (run.init_state()) {
        RETURN_IF_ERROR(CheckState(run, *model->tensors_, path, variable, name));
      }
    } else if (!HasInitializer(run, variable)) {
      if (!mapped.empty()) {
        return Refused(absl::StrCat(path, " has only tables, and only the program knows what ",
                                    variable.name(), " starts from; name a run, or write ",
                                    JoinPath(path, kModelExportFile),
                                    " too (shoal export --tables --model_file)"));
      }
      return Refused(absl::StrCat("init_map gives variable ", variable.name(),
                                  " no tensor, and only the program knows what it starts from; "
                                  "map it to a tensor"));
    }
    model->source_.push_back(std::move(name));
  }
  if (model->num_given() > 0) return model;
  if (are_mapped) {
    return Refused(absl::StrCat(path, " has tables ", NamesIn(*model->tensors_),
                                ", and the run has none of them; map one with "
                                "--init_map=TABLE=NAME"));
  }
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
  const absl::Status read = tensors_->Read(name, "", cut.first_element, contents->value);
  if (!read.ok()) return Unread(absl::StrCat("tensor ", name, ": "), read);
  contents->slots_follow_value = true;
  if (!AllFinite(contents->value.data(), contents->value.size())) return NotFinite(name);
  // A variable that was frozen has no slots: it begins with the initial ones.
  if (!takes_state_ || !HasRule(*tensors_->SpecOf(name))) return absl::OkStatus();
  return FillSlots(slice, name, contents);
}

absl::Status InitialModel::FillSlots(uint32_t slice, const std::string& name, Contents* contents) {
  const std::vector<std::string> slots = slot_names_(slice);
  contents->slots_follow_value = false;
  for (size_t k = 0; k < slots.size(); ++k) {
    const absl::Status read =
        tensors_->Read(name, slots[k], table_[slice].first_element, contents->slots[k]);
    if (absl::IsNotFound(read) && slots[k] == kAverageSlot) {
      contents->slots_follow_value = true;
      continue;
    }
    if (!read.ok()) return Unread(absl::StrCat("tensor ", name, ": "), read);
    if (!AllFinite(contents->slots[k].data(), contents->slots[k].size())) return NotFinite(name);
  }
  return absl::OkStatus();
}

absl::Status InitialModel::FillBucket(uint32_t slice, BucketContents* contents) {
  const uint32_t table = table_[slice].variable;
  const std::string& name = source_[table];
  if (name.empty()) return absl::OkStatus();
  std::vector<RowSlot> slots;
  if (takes_state_) slots = MakeRowSlots(variables_[table], slot_names_(slice));
  absl::StatusOr<BucketRows> saved = ReadRows(slice, name, slots);
  if (!saved.ok()) return Unread(absl::StrCat("table ", name, ": "), saved.status());
  if (!AllFinite(saved->rows.data(), saved->rows.size())) return NotFinite(name);
  BucketRows& rows = contents->rows;
  if (takes_state_) {
    const v1::TableSpec& spec = variables_[table].table();
    AppendKeys(
        *saved,
        [&spec](uint64_t /*key*/, uint32_t touched) {
          return !IsExpired(touched, /*version=*/0, spec.idle_updates());
        },
        &rows);
    // A table without admission has no counts: the first update of a key stores its row.
    if (spec.min_count() <= 1) {
      rows.counted_keys.clear();
      rows.counts.clear();
      rows.counted_touched.clear();
    }
    return absl::OkStatus();
  }
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

absl::StatusOr<BucketRows> InitialModel::ReadRows(uint32_t slice, const std::string& name,
                                                  absl::Span<const RowSlot> slots) {
  const uint32_t table = table_[slice].variable;
  const uint32_t bucket = slice - table_.first_slice_of(table);
  const uint32_t saved_buckets = tensors_->BucketsOf(name);
  if (saved_buckets == table_.num_buckets_of(table)) {
    return tensors_->ReadBucket(name, bucket, slots);
  }
  const auto [first, end] = OverlappingBuckets(bucket, table_.num_buckets_of(table), saved_buckets);
  BucketRows found;
  for (uint32_t b = first; b < end; ++b) {
    ASSIGN_OR_RETURN(const BucketRows* const rows, ReadSavedBucket(name, b, slots));
    AppendKeys(
        *rows,
        [&](uint64_t key, uint32_t /*touched*/) { return table_.BucketOf(table, key) == slice; },
        &found);
  }
  SortByKey(&found);
  return found;
}

absl::StatusOr<const BucketRows*> InitialModel::ReadSavedBucket(const std::string& name,
                                                                uint32_t bucket,
                                                                absl::Span<const RowSlot> slots) {
  if (saved_name_ == name && saved_bucket_ == bucket) return &saved_;
  saved_name_.clear();
  ASSIGN_OR_RETURN(saved_, tensors_->ReadBucket(name, bucket, slots));
  saved_name_ = name;
  saved_bucket_ = bucket;
  return &saved_;
}

}  // namespace shoal

#include "deploy/table_export.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"

#include "base/find_file.h"
#include "base/status_macros.h"
#include "nlohmann/json.hpp"
#include "proto/v1/checkpoint.pb.h"
#include "proto/v1/variable.pb.h"
#include "runtime/checkpoint/table_arrays.h"
#include "runtime/variables/table_settings.h"
#include "runtime/variables/variable_updater.h"

namespace shoal {
namespace {

// The fields of export.json are in the order in which they were added.
using Json = nlohmann::ordered_json;

constexpr size_t kNpyHeaderBytes = 128;

// Adds the remedy to an error of the directory that is written.
absl::Status Written(const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(),
                      absl::StrCat(status.message(), absl::IsResourceExhausted(status)
                                                         ? "; make room or name another directory"
                                                         : "; name another directory"));
}

// A .npy file of an array whose length is known when all of it is written.
class NpyWriter {
 public:
  explicit NpyWriter(std::unique_ptr<WritableFile> file) : file_(std::move(file)) {}

  template <typename T>
  absl::Status Append(const std::vector<T>& numbers) {
    const absl::string_view bytes(reinterpret_cast<const char*>(numbers.data()),
                                  numbers.size() * sizeof(T));
    RETURN_IF_ERROR(Written(file_->WriteAt(end_, bytes)));
    end_ += bytes.size();
    return absl::OkStatus();
  }

  // Writes the header, and syncs and closes the file. `type` and `shape` are in NumPy's notation,
  // such as "<f4" and "(3, 2)".
  absl::Status Finish(absl::string_view type, absl::string_view shape) {
    std::string header("\x93NUMPY\x01\x00", 8);
    header.push_back(static_cast<char>(kNpyHeaderBytes - 10));
    header.push_back('\0');
    absl::StrAppend(&header, "{'descr': '", type, "', 'fortran_order': False, 'shape': ", shape,
                    ", }");
    header.resize(kNpyHeaderBytes - 1, ' ');
    header.push_back('\n');
    RETURN_IF_ERROR(Written(file_->WriteAt(0, header)));
    RETURN_IF_ERROR(Written(file_->Sync()));
    return Written(file_->Close());
  }

  // The size of the file once it is finished.
  uint64_t bytes() const { return end_; }

 private:
  const std::unique_ptr<WritableFile> file_;
  uint64_t end_ = kNpyHeaderBytes;
};

// The files of an export. They lie beside those of an earlier one, as NAME.new, until all of them
// are written.
class NewFiles {
 public:
  // The file system must outlive the object.
  NewFiles(FileSystem& file_system, std::string directory)
      : file_system_(file_system), directory_(std::move(directory)) {}
  // Removes the new files that have not replaced others.
  ~NewFiles() {
    for (const std::string& path : paths_) RemoveTree(file_system_, NewName(path)).IgnoreError();
  }
  NewFiles(const NewFiles&) = delete;
  NewFiles& operator=(const NewFiles&) = delete;

  absl::StatusOr<std::unique_ptr<NpyWriter>> Create(const std::string& name) {
    const std::string path = JoinPath(directory_, name);
    // An export that was killed may have left it.
    RETURN_IF_ERROR(Written(RemoveTree(file_system_, NewName(path))));
    paths_.push_back(path);
    absl::StatusOr<std::unique_ptr<WritableFile>> file = file_system_.OpenForUpdate(NewName(path));
    RETURN_IF_ERROR(Written(file.status()));
    return std::make_unique<NpyWriter>(*std::move(file));
  }

  // Writes the model file with its new name.
  absl::Status Add(const ModelFileOfExport& model) {
    paths_.push_back(model.path);
    const std::string name = NewName(model.path);
    RETURN_IF_ERROR(model.write(ParentDirectory(name), name.substr(name.rfind('/') + 1)));
    model_directory_ = ParentDirectory(name);
    return absl::OkStatus();
  }

  // Makes Replace remove this file of an earlier export, unless a new file has its name.
  void RemoveOld(const std::string& name) { removed_.push_back(JoinPath(directory_, name)); }

  // All new files must be finished. Writes `description` to export.json last, and removes the
  // earlier one first: while there is none, files of both exports may lie in the directory.
  absl::Status Replace(absl::string_view description) {
    const std::string described = JoinPath(directory_, kExportDescription);
    RETURN_IF_ERROR(Written(RemoveTree(file_system_, described)));
    RETURN_IF_ERROR(Written(file_system_.SyncDirectory(directory_)));
    for (const std::string& path : removed_) {
      if (std::find(paths_.begin(), paths_.end(), path) != paths_.end()) continue;
      RETURN_IF_ERROR(Written(RemoveTree(file_system_, path)));
    }
    for (const std::string& path : paths_) {
      RETURN_IF_ERROR(Written(file_system_.Rename(NewName(path), path)));
    }
    paths_.clear();
    RETURN_IF_ERROR(Written(file_system_.SyncDirectory(directory_)));
    if (!model_directory_.empty()) {
      RETURN_IF_ERROR(Written(file_system_.SyncDirectory(model_directory_)));
    }
    return Written(WriteAtomically(file_system_, described, description));
  }

 private:
  static std::string NewName(const std::string& path) { return absl::StrCat(path, ".new"); }

  FileSystem& file_system_;
  const std::string directory_;
  std::vector<std::string> paths_;
  std::vector<std::string> removed_;
  std::string model_directory_;  // Empty if the export has no model file.
};

// Returns the rows of `now`, values only, that `then` has not or has with another value. Adds the
// keys that only `then` has to `removed`.
BucketRows Changes(const BucketRows& then, const BucketRows& now, size_t dim,
                   std::vector<uint64_t>* removed) {
  BucketRows changes;
  size_t t = 0;
  for (size_t n = 0; n < now.keys.size(); ++n) {
    for (; t < then.keys.size() && then.keys[t] < now.keys[n]; ++t)
      removed->push_back(then.keys[t]);
    const float* const value = now.rows.data() + n * dim;
    const bool was_there = t < then.keys.size() && then.keys[t] == now.keys[n];
    const bool is_same =
        was_there && std::memcmp(then.rows.data() + t * dim, value, dim * sizeof(float)) == 0;
    if (was_there) ++t;
    if (is_same) continue;
    changes.keys.push_back(now.keys[n]);
    changes.rows.insert(changes.rows.end(), value, value + dim);
  }
  removed->insert(removed->end(), then.keys.begin() + static_cast<ptrdiff_t>(t), then.keys.end());
  return changes;
}

absl::Status NoTables(const Checkpoint& checkpoint) {
  return absl::FailedPreconditionError(
      absl::StrCat("checkpoint ", checkpoint.directory(),
                   " has no tables; `shoal export` without --tables writes its variables"));
}

absl::StatusOr<uint32_t> FindTable(const Checkpoint& checkpoint, const std::string& name) {
  std::vector<std::string> tables;
  for (uint32_t v = 0; v < checkpoint.slices().num_variables(); ++v) {
    if (!checkpoint.slices().is_table(v)) continue;
    tables.push_back(checkpoint.manifest().variables(static_cast<int>(v)).name());
    if (tables.back() == name) return v;
  }
  if (tables.empty()) {
    return NoTables(checkpoint);
  }
  return absl::NotFoundError(absl::StrCat("checkpoint ", checkpoint.directory(), " has no table ",
                                          name, "; it has ", absl::StrJoin(tables, ", ")));
}

// Returns the first slice of the same table in another checkpoint.
absl::StatusOr<uint32_t> SameTable(const Checkpoint& other, const v1::VariableSpec& table) {
  ASSIGN_OR_RETURN(const uint32_t found, FindTable(other, table.name()));
  const v1::VariableSpec& spec = other.manifest().variables(static_cast<int>(found));
  if (DimOf(spec) == DimOf(table) && spec.table().buckets() == table.table().buckets()) {
    return other.slices().first_slice_of(found);
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "checkpoint ", other.directory(), " has table ", table.name(), " with dim ", DimOf(spec),
      " and ", spec.table().buckets(), " buckets, the run has ", DimOf(table), " and ",
      table.table().buckets(), "; name a checkpoint of this run"));
}

absl::StatusOr<ExportedTable> ExportTable(Checkpoint& checkpoint, Checkpoint* since, uint32_t table,
                                          const std::string& name, NewFiles* files) {
  const SliceTable& slices = checkpoint.slices();
  const v1::VariableSpec& spec = checkpoint.manifest().variables(static_cast<int>(table));
  ExportedTable exported;
  exported.variable = table;
  exported.table = spec.name();
  uint32_t slice_then = 0;
  if (since != nullptr) {
    ASSIGN_OR_RETURN(slice_then, SameTable(*since, spec));
  }
  ASSIGN_OR_RETURN(const auto keys, files->Create(name + kKeysFile));
  ASSIGN_OR_RETURN(const auto values, files->Create(name + kValuesFile));
  std::vector<uint64_t> removed;
  for (uint32_t slice = slices.first_slice_of(table); slice < slices.first_slice_of(table + 1);
       ++slice, ++slice_then) {
    ASSIGN_OR_RETURN(BucketRows rows, checkpoint.ReadBucket(slice, {}));
    if (since != nullptr) {
      ASSIGN_OR_RETURN(const BucketRows then, since->ReadBucket(slice_then, {}));
      rows = Changes(then, rows, DimOf(spec), &removed);
    }
    RETURN_IF_ERROR(keys->Append(rows.keys));
    RETURN_IF_ERROR(values->Append(rows.rows));
    exported.rows += rows.keys.size();
  }
  RETURN_IF_ERROR(keys->Finish("<u8", absl::StrCat("(", exported.rows, ",)")));
  RETURN_IF_ERROR(values->Finish("<f4", absl::StrCat("(", exported.rows, ", ", DimOf(spec), ")")));
  exported.files = {{name + kKeysFile, keys->bytes()}, {name + kValuesFile, values->bytes()}};
  if (since == nullptr) {
    // An export with `since` that was killed may have left it. The keys in it may have rows now.
    files->RemoveOld(name + kRemovedFile);
    return exported;
  }
  exported.removed = removed.size();
  ASSIGN_OR_RETURN(const auto gone, files->Create(name + kRemovedFile));
  RETURN_IF_ERROR(gone->Append(removed));
  RETURN_IF_ERROR(gone->Finish("<u8", absl::StrCat("(", removed.size(), ",)")));
  exported.files.emplace_back(name + kRemovedFile, gone->bytes());
  return exported;
}

// Returns what distinguishes a checkpoint from all others.
Json Identity(const v1::Manifest& manifest) {
  return {{"run_id", manifest.run_id()},
          {"step", manifest.step()},
          {"term", manifest.term()},
          {"lineage", absl::StrCat(absl::Hex(manifest.lineage(), absl::kZeroPad16))}};
}

// Returns the initializer with the names of table_config.proto.
Json InitializerOf(const v1::VariableSpec& table, uint64_t seed) {
  const v1::Initializer& from = table.initializer();
  Json initializer;
  switch (from.kind()) {
    case v1::Initializer::KIND_UNIFORM:
      initializer = {{"distribution", "uniform"}, {"low", from.a()}, {"high", from.b()}};
      break;
    case v1::Initializer::KIND_NORMAL:
      initializer = {{"distribution", "normal"}, {"mean", from.a()}, {"stddev", from.b()}};
      break;
    case v1::Initializer::KIND_TRUNCATED_NORMAL:
      initializer = {
          {"distribution", "truncated_normal"}, {"mean", from.a()}, {"stddev", from.b()}};
      break;
    case v1::Initializer::KIND_CONSTANT:
      initializer = {{"distribution", "constant"}, {"value", from.a()}};
      break;
    default:
      initializer = {{"distribution", "constant"}, {"value", 0.0}};
  }
  initializer["seed"] = seed;
  return initializer;
}

// An earlier export in the directory, as its export.json describes it.
struct EarlierExport {
  std::string run_id;
  bool is_whole = true;  // it was made without `since`
  std::vector<std::string> files;
};

// Returns whether an export can have made a file of this name, so that one may be removed. Else a
// damaged export.json could name a directory, such as "..".
bool IsExportedName(const std::string& name) {
  return name.find('/') == std::string::npos &&
         (absl::EndsWith(name, kKeysFile) || absl::EndsWith(name, kValuesFile) ||
          absl::EndsWith(name, kRemovedFile));
}

// Returns nothing if the directory has no export.json.
absl::StatusOr<std::optional<EarlierExport>> ReadEarlierExport(FileSystem& file_system,
                                                               const std::string& directory) {
  const std::string path = JoinPath(directory, kExportDescription);
  ASSIGN_OR_RETURN(const std::optional<FileInfo> found, FindFile(file_system, path));
  if (!found.has_value()) return std::nullopt;
  const absl::StatusOr<std::string> text = ReadFile(file_system, path);
  RETURN_IF_ERROR(Written(text.status()));
  const Json description = Json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (!description.contains("run_id") || !description["run_id"].is_string() ||
      !description.contains("since") || !description.contains("tables")) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " is not of an export of tables; name another directory"));
  }
  EarlierExport earlier;
  earlier.run_id = description["run_id"].get<std::string>();
  earlier.is_whole = description["since"].is_null();
  for (const Json& table : description["tables"]) {
    if (!table.contains("files")) continue;
    for (const Json& file : table["files"]) {
      if (!file.contains("name") || !file["name"].is_string()) continue;
      const std::string name = file["name"].get<std::string>();
      if (IsExportedName(name)) earlier.files.push_back(name);
    }
  }
  return earlier;
}

// Returns an error if the new export would mix with one of another run or of another kind.
absl::Status CheckSameKind(const EarlierExport& earlier, const std::string& run_id, bool is_whole,
                           const std::string& directory) {
  std::string what;
  if (earlier.run_id != run_id) {
    what = absl::StrCat("rows of another run, ", earlier.run_id);
  } else if (earlier.is_whole != is_whole) {
    what = earlier.is_whole ? "all rows of this run, and an export with --since has only changes"
                            : "an export with --since, and this one has all rows";
  } else {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat(directory, " has ", what, "; name another directory, or remove this one first"));
}

// Returns the contents of export.json.
std::string Describe(const Checkpoint& checkpoint, const Checkpoint* since,
                     const std::vector<ExportedTable>& exported) {
  const v1::Manifest& manifest = checkpoint.manifest();
  Json tables = Json::array();
  for (const ExportedTable& table : exported) {
    const v1::VariableSpec& spec = manifest.variables(static_cast<int>(table.variable));
    Json files = Json::array();
    for (const auto& [name, bytes] : table.files)
      files.push_back({{"name", name}, {"bytes", bytes}});
    tables.push_back({{"name", table.table},
                      {"dim", DimOf(spec)},
                      {"rows", table.rows},
                      {"removed", table.removed},
                      {"files", std::move(files)},
                      {"initializer", InitializerOf(spec, manifest.seed())}});
  }
  Json description = Identity(manifest);
  description["since"] = since == nullptr ? Json(nullptr) : Identity(since->manifest());
  description["tables"] = std::move(tables);
  return absl::StrCat(
      description.dump(2, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace), "\n");
}

}  // namespace

absl::StatusOr<std::vector<ExportedTable>> ExportTables(FileSystem& file_system,
                                                        Checkpoint& checkpoint, Checkpoint* since,
                                                        const std::string& directory,
                                                        const ModelFileOfExport* model) {
  if (!checkpoint.slices().has_tables()) {
    return NoTables(checkpoint);
  }
  ASSIGN_OR_RETURN(const std::optional<EarlierExport> earlier,
                   ReadEarlierExport(file_system, directory));
  if (earlier.has_value()) {
    RETURN_IF_ERROR(
        CheckSameKind(*earlier, checkpoint.manifest().run_id(), since == nullptr, directory));
  }
  RETURN_IF_ERROR(Written(file_system.MakeDirectory(directory)));
  NewFiles files(file_system, directory);
  if (earlier.has_value()) {
    for (const std::string& name : earlier->files) files.RemoveOld(name);
  }
  std::vector<ExportedTable> tables;
  std::set<std::string> names;
  for (uint32_t v = 0; v < checkpoint.slices().num_variables(); ++v) {
    if (!checkpoint.slices().is_table(v)) continue;
    const std::string name =
        TableFileName(checkpoint.manifest().variables(static_cast<int>(v)).name());
    if (!names.insert(name).second) {
      return absl::FailedPreconditionError(
          absl::StrCat("two tables would have the files ", name, ".*.npy; rename one of them"));
    }
    ASSIGN_OR_RETURN(ExportedTable exported, ExportTable(checkpoint, since, v, name, &files));
    tables.push_back(std::move(exported));
  }
  if (model != nullptr) RETURN_IF_ERROR(files.Add(*model));
  RETURN_IF_ERROR(files.Replace(Describe(checkpoint, since, tables)));
  return tables;
}

absl::StatusOr<std::unique_ptr<TableReader>> TableReader::Open(Checkpoint& checkpoint,
                                                               const std::string& table) {
  ASSIGN_OR_RETURN(const uint32_t found, FindTable(checkpoint, table));
  ASSIGN_OR_RETURN(const TableOptions options,
                   TableOptionsFrom(checkpoint.manifest().variables(static_cast<int>(found)), {}));
  ASSIGN_OR_RETURN(std::unique_ptr<TableUpdater> updater,
                   TableUpdater::Create(options, checkpoint.manifest().seed()));
  return absl::WrapUnique(new TableReader(checkpoint, found, std::move(updater)));
}

absl::StatusOr<TableReader::Row> TableReader::Find(uint64_t key) {
  const uint32_t slice = checkpoint_.slices().BucketOf(table_, key);
  auto bucket = buckets_.find(slice);
  if (bucket == buckets_.end()) {
    ASSIGN_OR_RETURN(BucketRows read, checkpoint_.ReadBucket(slice, {}));
    bucket = buckets_.emplace(slice, std::move(read)).first;
  }
  const BucketRows& rows = bucket->second;
  const size_t dim = updater_->dim();
  Row row;
  row.value.resize(dim);
  const auto stored = std::lower_bound(rows.keys.begin(), rows.keys.end(), key);
  if (stored != rows.keys.end() && *stored == key) {
    const auto place = static_cast<size_t>(stored - rows.keys.begin());
    row.is_stored = true;
    row.touched = rows.touched[place];
    std::memcpy(row.value.data(), rows.rows.data() + place * dim, dim * sizeof(float));
    return row;
  }
  const auto counted = std::lower_bound(rows.counted_keys.begin(), rows.counted_keys.end(), key);
  if (counted != rows.counted_keys.end() && *counted == key) {
    row.count = rows.counts[static_cast<size_t>(counted - rows.counted_keys.begin())];
  }
  updater_->FillInitialValue(key, row.value.data());
  return row;
}

}  // namespace shoal

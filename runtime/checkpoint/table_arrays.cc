#include "runtime/checkpoint/table_arrays.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"

#include "base/status_macros.h"
#include "proto/v1/variable.pb.h"

namespace shoal {
namespace {

constexpr char kKeysWanted[] = "int64 or uint64 keys [rows]";
constexpr char kValuesWanted[] = "float32 values [rows, dim]";
// Keys are read in blocks of so many when a table is indexed.
constexpr uint64_t kBlockKeys = 1 << 16;
constexpr uint64_t kMostRows = UINT32_MAX;

absl::StatusOr<SliceTable> MakeBuckets() {
  v1::VariableSpec spec;
  spec.set_name("rows");
  spec.add_shape(1);
  spec.set_dtype(v1::DATA_TYPE_FLOAT32);
  spec.set_update(v1::UPDATE_KIND_OPTIMIZER);
  spec.mutable_table()->set_buckets(TableArrays::kBuckets);
  return SliceTable::Create(absl::MakeConstSpan(&spec, 1), /*slice_bytes=*/64);
}

absl::Status ReadBytes(const ReadableFile& file, uint64_t offset, absl::Span<char> out) {
  ASSIGN_OR_RETURN(const size_t read, file.Read(offset, out));
  return read == out.size() ? absl::OkStatus()
                            : absl::DataLossError("a file with rows has become shorter");
}

// Reads the rows with these numbers, one after the other. Rows that follow each other in the file
// are read at once.
absl::Status ReadRows(const ReadableFile& file, uint64_t begin, uint64_t row_bytes,
                      const std::vector<uint32_t>& rows, char* out) {
  size_t together = 0;
  for (size_t i = 0; i < rows.size(); i += together) {
    together = 1;
    while (i + together < rows.size() && rows[i + together] == rows[i] + together) ++together;
    RETURN_IF_ERROR(ReadBytes(file, begin + rows[i] * row_bytes,
                              {out + i * row_bytes, static_cast<size_t>(together * row_bytes)}));
  }
  return absl::OkStatus();
}

absl::StatusOr<NpyArray> ReadHeader(FileSystem& file_system, const std::string& path,
                                    absl::string_view wanted) {
  ASSIGN_OR_RETURN(const std::unique_ptr<ReadableFile> file, file_system.OpenForRead(path));
  ASSIGN_OR_RETURN(const uint64_t bytes, file->Size());
  std::string head(std::min<uint64_t>(bytes, kMostNpyHeaderBytes), '\0');
  RETURN_IF_ERROR(ReadBytes(*file, 0, absl::MakeSpan(&head[0], head.size())));
  absl::StatusOr<NpyArray> array = ParseNpyHeader(head, bytes, wanted);
  if (array.ok()) return array;
  return absl::Status(array.status().code(), absl::StrCat(path, ": ", array.status().message()));
}

absl::Status OtherArray(const std::string& path, const NpyArray& array, absl::string_view wanted) {
  return absl::InvalidArgumentError(absl::StrCat(path, " has elements of type ", array.Type(),
                                                 " and shape [", absl::StrJoin(array.dims, ","),
                                                 "]; save ", wanted));
}

}  // namespace

std::string TableFileName(absl::string_view table) {
  return absl::StrReplaceAll(table, {{"/", "."}});
}

absl::StatusOr<bool> TableArrays::AreIn(const FileSystem& file_system,
                                        const std::string& directory) {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, file_system.List(directory));
  return std::any_of(names.begin(), names.end(), [](const std::string& name) {
    return absl::EndsWith(name, kKeysFile) || absl::EndsWith(name, kValuesFile);
  });
}

TableArrays::TableArrays(FileSystem& file_system, std::string directory, SliceTable buckets)
    : file_system_(file_system), directory_(std::move(directory)), buckets_(std::move(buckets)) {}

absl::StatusOr<std::unique_ptr<TableArrays>> TableArrays::Open(FileSystem& file_system,
                                                               const std::string& directory) {
  ASSIGN_OR_RETURN(SliceTable buckets, MakeBuckets());
  auto arrays = absl::WrapUnique(new TableArrays(file_system, directory, std::move(buckets)));
  ASSIGN_OR_RETURN(const std::vector<std::string> files, file_system.List(directory));
  const bool is_described =
      std::find(files.begin(), files.end(), kExportDescription) != files.end();
  std::set<std::string> names;
  for (const std::string& file : files) {
    if (absl::EndsWith(file, kRemovedFile)) {
      return absl::InvalidArgumentError(
          absl::StrCat(JoinPath(directory, file),
                       " belongs to an export of what changed since a checkpoint; export all "
                       "rows, without --since"));
    }
    if (absl::EndsWith(file, ".npy.new") && !is_described) {
      return absl::InvalidArgumentError(absl::StrCat(
          JoinPath(directory, file), " belongs to an export that has not ended; export again"));
    }
    absl::string_view name = file;
    if (absl::ConsumeSuffix(&name, kKeysFile) || absl::ConsumeSuffix(&name, kValuesFile)) {
      names.emplace(name);
    }
  }
  for (const std::string& name : names) RETURN_IF_ERROR(arrays->AddTable(name));
  return arrays;
}

std::string TableArrays::PathOf(const std::string& name, absl::string_view end) const {
  return JoinPath(directory_, absl::StrCat(name, end));
}

absl::Status TableArrays::AddTable(const std::string& name) {
  const std::string keys_path = PathOf(name, kKeysFile), values_path = PathOf(name, kValuesFile);
  Table table;
  for (const std::string& path : {keys_path, values_path}) {
    const bool has_keys = path == keys_path;
    absl::StatusOr<NpyArray> array =
        ReadHeader(file_system_, path, has_keys ? kKeysWanted : kValuesWanted);
    if (absl::IsNotFound(array.status())) {
      return absl::NotFoundError(
          absl::StrCat("there is no ", path, " beside the other file of ", name, "; write both"));
    }
    RETURN_IF_ERROR(array.status());
    (has_keys ? table.keys : table.values) = *std::move(array);
  }
  const NpyArray &keys = table.keys, &values = table.values;
  if (keys.dims.size() != 1 || (keys.kind != 'i' && keys.kind != 'u') || keys.element_bytes != 8) {
    return OtherArray(keys_path, keys, kKeysWanted);
  }
  if (values.dims.size() != 2 || values.kind != 'f' || values.element_bytes != 4) {
    return OtherArray(values_path, values, kValuesWanted);
  }
  if (keys.dims[0] != values.dims[0]) {
    return absl::InvalidArgumentError(absl::StrCat(keys_path, " has ", keys.dims[0], " keys, but ",
                                                   values_path, " has ", values.dims[0],
                                                   " rows; write a row for each key"));
  }
  if (static_cast<uint64_t>(keys.dims[0]) > kMostRows) {
    return absl::InvalidArgumentError(
        absl::StrCat(keys_path, " has ", keys.dims[0], " keys; at most ", kMostRows, " are read"));
  }
  tables_.emplace(name, std::move(table));
  return absl::OkStatus();
}

std::map<std::string, int64_t> TableArrays::dims() const {
  std::map<std::string, int64_t> dims;
  for (const auto& [name, table] : tables_) dims[name] = table.values.dims[1];
  return dims;
}

absl::Status TableArrays::Use(const std::string& name) {
  if (used_ == name) return absl::OkStatus();
  used_.clear();
  ASSIGN_OR_RETURN(keys_file_, file_system_.OpenForRead(PathOf(name, kKeysFile)));
  ASSIGN_OR_RETURN(values_file_, file_system_.OpenForRead(PathOf(name, kValuesFile)));
  used_ = name;
  return absl::OkStatus();
}

absl::Status TableArrays::ReadKeys(const Table& table, uint64_t first, uint64_t count,
                                   std::vector<uint64_t>* keys) const {
  keys->resize(count);
  return ReadBytes(*keys_file_, table.keys.begin + first * sizeof(uint64_t),
                   {reinterpret_cast<char*>(keys->data()), count * sizeof(uint64_t)});
}

// The keys are read twice, first to count the rows of each bucket, so that only the numbers of the
// rows must be in memory.
absl::Status TableArrays::Index(Table* table) {
  const auto num_rows = static_cast<uint64_t>(table->keys.dims[0]);
  std::vector<uint32_t> rows(num_rows);
  std::vector<size_t> ends(kBuckets + 1, 0);
  std::vector<uint64_t> keys;
  for (const bool counts : {true, false}) {
    for (uint64_t first = 0; first < num_rows; first += kBlockKeys) {
      const uint64_t count = std::min(kBlockKeys, num_rows - first);
      RETURN_IF_ERROR(ReadKeys(*table, first, count, &keys));
      for (uint64_t i = 0; i < count; ++i) {
        const uint32_t bucket = buckets_.BucketOf(0, keys[i]);
        // While rows are counted, ends[b + 1] is their number in bucket b. Then ends[b] is the
        // place of the next row of bucket b.
        if (counts) {
          ++ends[bucket + 1];
        } else if (ends[bucket] < num_rows) {
          rows[ends[bucket]++] = static_cast<uint32_t>(first + i);
        } else {
          return absl::DataLossError("keys changed while they were read");
        }
      }
    }
    for (uint32_t b = 0; counts && b < kBuckets; ++b) ends[b + 1] += ends[b];
  }
  // Each bucket ends where the next one begins.
  ends.insert(ends.begin(), 0);
  ends.pop_back();
  table->rows = std::move(rows);
  table->begins = std::move(ends);
  return absl::OkStatus();
}

absl::StatusOr<BucketRows> TableArrays::ReadBucket(const std::string& name, uint32_t bucket) {
  Table& table = tables_.at(name);
  RETURN_IF_ERROR(Use(name));
  if (table.begins.empty()) RETURN_IF_ERROR(Index(&table));
  std::vector<uint32_t> rows(table.rows.begin() + static_cast<ptrdiff_t>(table.begins[bucket]),
                             table.rows.begin() + static_cast<ptrdiff_t>(table.begins[bucket + 1]));
  BucketRows found;
  found.keys.resize(rows.size());
  RETURN_IF_ERROR(ReadRows(*keys_file_, table.keys.begin, sizeof(uint64_t), rows,
                           reinterpret_cast<char*>(found.keys.data())));
  std::vector<std::pair<uint64_t, uint32_t>> order;  // the key and the number of the row
  order.reserve(rows.size());
  for (size_t r = 0; r < rows.size(); ++r) order.emplace_back(found.keys[r], rows[r]);
  std::sort(order.begin(), order.end());
  for (size_t r = 0; r < order.size(); ++r) {
    if (r > 0 && order[r].first == order[r - 1].first) {
      const uint64_t key = order[r].first;
      return absl::InvalidArgumentError(absl::StrCat(
          PathOf(name, kKeysFile), " has key ",
          table.keys.kind == 'i' ? absl::StrCat(static_cast<int64_t>(key)) : absl::StrCat(key),
          " in rows ", order[r - 1].second, " and ", order[r].second, "; leave one of them"));
    }
    found.keys[r] = order[r].first;
    rows[r] = order[r].second;
  }
  const auto dim = static_cast<size_t>(table.values.dims[1]);
  found.rows.resize(rows.size() * dim);
  RETURN_IF_ERROR(ReadRows(*values_file_, table.values.begin, dim * sizeof(float), rows,
                           reinterpret_cast<char*>(found.rows.data())));
  return found;
}

}  // namespace shoal

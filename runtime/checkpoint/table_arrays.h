// Rows of tables in NumPy arrays, from which a run may start (init_from): NAME.keys.npy and
// NAME.values.npy for each table, as `shoal export --tables` and programs of users write them.
// GivenTensors reads the other variables from a model.safetensors in the same directory.
#ifndef SHOAL_RUNTIME_CHECKPOINT_TABLE_ARRAYS_H_
#define SHOAL_RUNTIME_CHECKPOINT_TABLE_ARRAYS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "base/file_system.h"
#include "ml/data/records/npy_file.h"
#include "runtime/plan/slice_table.h"
#include "runtime/tables/bucket_rows.h"

namespace shoal {

// The ends of the names of a table's files, and the file that an export writes last.
inline constexpr char kKeysFile[] = ".keys.npy";
inline constexpr char kValuesFile[] = ".values.npy";
inline constexpr char kRemovedFile[] = ".removed.npy";
inline constexpr char kExportDescription[] = "export.json";

// Returns the NAME of a table's files: that of the table, in which each '/' becomes '.'.
std::string TableFileName(absl::string_view table);

// The order of the rows in the arrays does not matter. Not thread-safe.
class TableArrays {
 public:
  // Rows are read by buckets, those that a SliceTable has for a table of so many.
  static constexpr uint32_t kBuckets = 1024;

  // Returns whether the directory has a file with keys or values of a table.
  static absl::StatusOr<bool> AreIn(const FileSystem& file_system, const std::string& directory);

  // Opens the tables in the directory and checks the headers of their files. Errors name the file
  // and the remedy. The file system must outlive the object.
  static absl::StatusOr<std::unique_ptr<TableArrays>> Open(FileSystem& file_system,
                                                           const std::string& directory);

  // Returns the number of floats in a row of each table, keyed by the NAME of its files.
  std::map<std::string, int64_t> dims() const;

  // Reads the keys of a bucket's rows, rising, and their values. The table must exist.
  // InvalidArgument: a key has several rows. The first call for a table reads all of its keys, and
  // the object keeps 4 bytes for each of its rows from then on.
  absl::StatusOr<BucketRows> ReadBucket(const std::string& name, uint32_t bucket);

 private:
  struct Table {
    NpyArray keys, values;  // The headers only.
    // The numbers of the rows in the files, bucket by bucket, rising in each; and the place in
    // `rows` at which each bucket begins, then its end. Both are empty until the table is read.
    std::vector<uint32_t> rows;
    std::vector<size_t> begins;
  };

  TableArrays(FileSystem& file_system, std::string directory, SliceTable buckets);
  std::string PathOf(const std::string& name, absl::string_view end) const;
  absl::Status AddTable(const std::string& name);
  // Opens the files of a table, and closes those of another one.
  absl::Status Use(const std::string& name);
  absl::Status Index(Table* table);
  // Sets `keys` to those of `count` rows from row `first` on.
  absl::Status ReadKeys(const Table& table, uint64_t first, uint64_t count,
                        std::vector<uint64_t>* keys) const;

  FileSystem& file_system_;
  const std::string directory_;
  const SliceTable buckets_;
  std::map<std::string, Table> tables_;
  // The table whose files are open; empty if there is none.
  std::string used_;
  std::unique_ptr<ReadableFile> keys_file_, values_file_;
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_CHECKPOINT_TABLE_ARRAYS_H_

// Writes rows of tables from a checkpoint as NumPy arrays, and looks single rows up.
#ifndef SHOAL_DEPLOY_TABLE_EXPORT_H_
#define SHOAL_DEPLOY_TABLE_EXPORT_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "base/file_system.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/tables/bucket_rows.h"
#include "runtime/tables/table_updater.h"

namespace shoal {

// The files that were written for one table.
struct ExportedTable {
  uint32_t variable = 0;  // the table's index in the manifest
  std::string table;
  uint64_t rows = 0;
  uint64_t removed = 0;  // only with `since`
  // The name of each file in the directory, and its size.
  std::vector<std::pair<std::string, uint64_t>> files;
};

// Writes TABLE.keys.npy (u64) and TABLE.values.npy (f32, [rows, dim]) for each table to the
// directory, which is created if necessary: bucket by bucket, in each bucket by rising key. A '/'
// in a table's name becomes '.'. If `since` is not null, writes only the rows that are not in that
// checkpoint or have another value there, and TABLE.removed.npy with the keys of the rows that
// exist only there. Last it writes export.json, which says what the files are
// (docs/checkpoint_format.md). An earlier export of the same run and the same kind (with or without
// `since`) in the directory is replaced: its files stay as they are until the new ones of all
// tables are written and synced, and those that the new one does not write are removed. After an
// error before that, only the earlier ones are there. The earlier export.json is removed before
// another file is replaced, so with it, also after a crash, all files are of the export that it
// describes. Errors name the remedy. Returns FailedPrecondition, and changes nothing, if the
// checkpoint has no tables or the directory has an export of another run or kind; also if `since`
// is not of the same tables.
//
// A model file that is not null is part of the export: `write` is called after the rows are written
// with the directory and the name of a file, which then gets the name `path` together with the
// other files. An error of `write` is returned.
struct ModelFileOfExport {
  std::string path;
  std::function<absl::Status(const std::string& directory, const std::string& name)> write;
};
absl::StatusOr<std::vector<ExportedTable>> ExportTables(FileSystem& file_system,
                                                        Checkpoint& checkpoint, Checkpoint* since,
                                                        const std::string& directory,
                                                        const ModelFileOfExport* model = nullptr);

// Finds rows of one table by key.
class TableReader {
 public:
  struct Row {
    std::vector<float> value;
    bool is_stored = false;
    // If it is stored: the version of its bucket that made its value, or TouchedBefore.
    uint32_t touched = 0;
    uint32_t count = 0;  // if not stored: the number of updates that touched it
  };

  // The checkpoint must outlive the reader. NotFound names the tables that there are.
  static absl::StatusOr<std::unique_ptr<TableReader>> Open(Checkpoint& checkpoint,
                                                           const std::string& table);
  absl::StatusOr<Row> Find(uint64_t key);
  uint32_t min_count() const { return updater_->options().min_count; }

 private:
  TableReader(Checkpoint& checkpoint, uint32_t table, std::unique_ptr<TableUpdater> updater)
      : checkpoint_(checkpoint), table_(table), updater_(std::move(updater)) {}

  Checkpoint& checkpoint_;
  const uint32_t table_;
  const std::unique_ptr<TableUpdater> updater_;
  std::map<uint32_t, BucketRows> buckets_;  // the buckets that were read, keyed by slice
};

}  // namespace shoal

#endif  // SHOAL_DEPLOY_TABLE_EXPORT_H_

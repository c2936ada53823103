#ifndef SHOAL_PS_ROWS_BASE_H_
#define SHOAL_PS_ROWS_BASE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>

#include "base/file_system.h"
#include "ps/snapshot.h"
#include "runtime/checkpoint/shard_base.h"

namespace shoal {

// The newest shard of this ps that has all rows of its tables. While it is in a published
// checkpoint, later shards of the lineage have only the rows that were touched since, until those
// are more than half of its rows. For one thread at a time.
//
// Every checkpoint that is published after the base has a shard of this ps that names it, so the
// base's files are kept as long as this object may name them.
class RowsBase {
 public:
  // Returns whether the snapshot is to be written as changes. The answer for a snapshot that could
  // not be written stays the same, so that a second attempt writes the same bytes.
  bool Serves(const FileSystem& file_system, const SnapshotLineage& lineage,
              const Snapshot& snapshot);
  // The snapshot was written, with all rows, as this file.
  void Set(const SnapshotLineage& lineage, const Snapshot& snapshot, const v1::ShardFile& file);

  const ShardBase& shard() const { return shard_; }
  // The version of a bucket in the base.
  uint64_t version_of(uint32_t slice) const { return versions_.at(slice); }

 private:
  using LineageKey = std::tuple<uint64_t, uint64_t>;

  bool IsThere(const FileSystem& file_system, const std::string& root);
  bool ServesNow(const FileSystem& file_system, const SnapshotLineage& lineage,
                 const Snapshot& snapshot);

  LineageKey lineage_;
  ShardBase shard_;
  bool is_published_ = false;
  uint64_t num_rows_ = 0;
  std::map<uint32_t, uint64_t> versions_;  // by slice
  // The snapshot of the last answer.
  std::optional<std::tuple<LineageKey, uint64_t>> asked_;
  bool answer_ = false;
};

}  // namespace shoal

#endif  // SHOAL_PS_ROWS_BASE_H_

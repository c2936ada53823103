#ifndef SHOAL_PS_ROWS_BASE_H_
#define SHOAL_PS_ROWS_BASE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "base/file_system.h"
#include "ps/snapshot.h"
#include "runtime/checkpoint/shard_base.h"
#include "runtime/tables/stored_rows.h"

namespace shoal {

// A shard file of a checkpoint has either all keys of this ps's tables (a base) or only the keys
// that changed since the file before it (a link). This class remembers the chain (base, link, link,
// ...) that the next shard file of this ps can continue. A new base is written when the changes
// exceed half of the base's keys, when the chain has checkpoint.keep links after its base (or 8, if
// that is less), or when the base has no keys, as that of a ps without tables. Not thread-safe.
//
// Only the shard that was written last can become the newest link, once its checkpoint is
// published. The shards that follow continue it, so their checkpoints name the whole chain, and
// files that a checkpoint names are not deleted. A shard that was followed before its checkpoint
// was published is named by this checkpoint alone, so its file may be deleted with it.
class RowsBase {
 public:
  // The keys of a bucket that a link has.
  struct Changes {
    uint64_t since = 0;  // those that were touched after this version of the bucket
    BucketCut::Size size;
  };
  // The form of a shard: `bases` is the chain of shards that it continues, empty if the shard has
  // all keys (a new base). `changes` says which keys it has of each bucket, by slice. The writer
  // selects them bucket by bucket: all selections at once could take half as much memory as the
  // index of the tables, of which a full ps has none left.
  struct Plan {
    std::vector<ShardBase> bases;
    std::map<uint32_t, Changes> changes;
  };
  // Decides how the snapshot is written. The plan for a snapshot that could not be written stays
  // the same, so that a second attempt writes the same bytes.
  Plan PlanFor(const FileSystem& file_system, const SnapshotLineage& lineage,
               const Snapshot& snapshot);
  // The snapshot was written by the newest plan as this file, with so many keys.
  void Add(const SnapshotLineage& lineage, const Snapshot& snapshot, uint64_t num_keys,
           const v1::ShardFile& file);

 private:
  using LineageKey = std::tuple<uint64_t, uint64_t>;
  struct Link {
    ShardBase shard;
    uint64_t num_keys = 0;                  // keys with rows, and counted ones
    std::map<uint32_t, uint64_t> versions;  // the buckets' versions, keyed by slice
  };

  // Takes over the shard that was written last if its checkpoint is published.
  void Advance(const FileSystem& file_system, const std::string& root);
  // Returns whether the shards can be continued, apart from the number of changes.
  bool MayContinue(const FileSystem& file_system, const SnapshotLineage& lineage,
                   const Snapshot& snapshot) const;
  // Counts the changes since the newest shard. Returns false if there are too many.
  bool CountChanges(const Snapshot& snapshot, Plan* plan) const;

  LineageKey lineage_;
  std::vector<Link> published_;
  std::vector<Link> written_;  // the shard that was written last, after those that it continues
  // The snapshot of the newest plan, and what the plan continues.
  std::optional<std::tuple<LineageKey, uint64_t>> planned_;
  std::vector<Link> continued_;
};

}  // namespace shoal

#endif  // SHOAL_PS_ROWS_BASE_H_

// A snapshot of a ps's slices, and the functions that write it as a shard of a checkpoint.
#ifndef SHOAL_PS_SNAPSHOT_H_
#define SHOAL_PS_SNAPSHOT_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"

#include "base/file_system.h"
#include "proto/v1/variable.pb.h"
#include "runtime/plan/slice_table.h"
#include "runtime/variables/slice_store_events.h"

namespace shoal {
namespace v1 {
class LoadSlicesRequest;
class ReportShardRequest;
}  // namespace v1

class PartitionedStore;
class RowsBase;

// Describes the slices of this ps in a lineage, and where their snapshots are written.
struct SnapshotLineage {
  uint64_t lineage = 0;
  uint64_t term = 0;
  uint32_t num_ps = 1;
  uint64_t last_version = UINT64_MAX;  // SYNC: the run ends at this version.
  uint32_t kept_checkpoints = 3;
  std::string root;  // The directory of all checkpoints; empty if none are written.
  std::vector<v1::VariableSpec> variables;
  // Names of slots, indexed by variable; empty where this ps has no slice.
  std::vector<std::vector<std::string>> slots;
  std::vector<Slice> slices;
  std::vector<uint32_t> first_slice;  // Indexed by variable.
  uint32_t report_slice = 0;

  // Describes the lineage that `request` has started and of which `store` is this ps's part.
  static SnapshotLineage Of(const v1::LoadSlicesRequest& request, const PartitionedStore& store);

  // Returns the name of the directory, below the root, that all ps write a cut of this lineage to.
  std::string GetDirectory(uint64_t version) const;
};

// All slices of a ps at one cut. It holds the buffers of their values until it is destroyed, and
// the rows of buckets at most until the shard is written.
struct Snapshot {
  uint64_t version = 0;
  std::vector<SliceStoreEvents::CutPart> parts;
};

// The functions that WriteSnapshot calls. Each may be null.
struct SnapshotCalls {
  std::function<bool()> should_stop;      // Asked between tensors.
  std::function<void()> on_rows_dropped;  // The cuts of the buckets have been released.
};
// Writes the snapshot durably as shard `ps_index` of its checkpoint, and fills in the report for
// the chief. The shard has all rows of tables, or those that changed since the shard that `base`
// names. The cuts of its buckets are released as soon as they have been read, those of the run's
// last version, which is written again after an error, once the shard is written. Returns CANCELLED
// once `should_stop` returns true.
absl::Status WriteSnapshot(FileSystem& file_system, uint32_t ps_index,
                           const SnapshotLineage& lineage, const Snapshot& snapshot,
                           const SnapshotCalls& calls, RowsBase* base,
                           v1::ReportShardRequest* report);

// Writes the snapshot's part of model.safetensors durably. Returns CANCELLED once `should_stop`
// returns true.
absl::Status ExportSnapshot(FileSystem& file_system, const SnapshotLineage& lineage,
                            const Snapshot& snapshot, const std::function<bool()>& should_stop);

}  // namespace shoal

#endif  // SHOAL_PS_SNAPSHOT_H_

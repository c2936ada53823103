// Writes this ps's part of every cut to disk while training continues.
#ifndef SHOAL_PS_SHARD_CHECKPOINTER_H_
#define SHOAL_PS_SHARD_CHECKPOINTER_H_

#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "base/clock.h"
#include "base/file_system.h"
#include "base/mutex.h"
#include "ps/ps_metrics.h"
#include "ps/rows_base.h"
#include "ps/snapshot.h"
#include "ps/snapshot_queue.h"
#include "runtime/rpc/chief_client.h"
#include "runtime/variables/slice_store_events.h"

namespace shoal {
namespace v1 {
class Identity;
}  // namespace v1

// A SnapshotQueue with two threads: one writes snapshots, the other reports to the chief. A shard
// that cannot be written is reported too, and training continues. Thread-safe; AddParts never
// blocks.
class ShardCheckpointer {
 public:
  struct Options {
    uint32_t ps_index = 0;
    FileSystem* file_system = nullptr;  // Must outlive the checkpointer, as must the next two.
    ChiefClient* chief = nullptr;
    const Clock* clock = nullptr;
    std::function<v1::Identity()> identity;  // Returns the task's current identity.
    PsMetrics* metrics = nullptr;            // Must outlive the checkpointer.
  };

  explicit ShardCheckpointer(Options options);
  // The same as Stop.
  ~ShardCheckpointer();

  // Forgets the cuts of the lineage, also the one that is being written. A ps calls it before it
  // loads other rows: the cuts keep all rows that they were taken of.
  void EndLineage();
  // Waits until the writer has dropped the rows of a cut that was forgotten while it wrote them: it
  // stops after the tensor that it is writing. Returns UNKNOWN if it still holds them after
  // `longest`, because the disk is slow or hangs.
  absl::Status AwaitRows(absl::Duration longest);
  // Does what EndLineage does, and starts another lineage.
  void StartLineage(SnapshotLineage lineage);
  // See SnapshotQueue.
  void Ask(uint64_t version);
  void AddParts(std::vector<SliceStoreEvents::CutPart>* parts);

  bool is_writing();

  // Waits for the file that is being written and the report that is being sent. Idempotent.
  void Stop();

 private:
  void WriteSnapshots();
  void SendReports();
  absl::Status Write(const SnapshotQueue::Work& work, v1::ReportShardRequest* report);
  absl::Status Export(const SnapshotQueue::Work& work);

  const Options options_;
  Mutex mutex_;
  CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  // The writer keeps rows of tables in memory for the snapshot that it writes.
  bool writes_rows_ ABSL_GUARDED_BY(mutex_) = false;
  SnapshotQueue queue_ ABSL_GUARDED_BY(mutex_);
  RowsBase rows_base_;  // Used by writer_ only.
  std::thread writer_;
  std::thread reporter_;
};

}  // namespace shoal

#endif  // SHOAL_PS_SHARD_CHECKPOINTER_H_

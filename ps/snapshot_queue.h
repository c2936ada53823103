// Decides which snapshots of a ps are written as shards of checkpoints, and what is reported to the
// chief.
#ifndef SHOAL_PS_SNAPSHOT_QUEUE_H_
#define SHOAL_PS_SNAPSHOT_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "proto/v1/chief_service.pb.h"
#include "ps/snapshot.h"
#include "runtime/rpc/retry.h"
#include "runtime/variables/slice_store_events.h"

namespace shoal {

// Gathers the slices of a cut as they reach it. One snapshot is being written, first as a shard and
// then, if the chief asks for it, into model.safetensors; one more may wait. When a second one
// wants to wait, one of the two is dropped: a disk that is slower than the schedule costs
// checkpoints, not memory.
//
// All ps must drop the same snapshots, because a checkpoint needs the shards of all of them, so the
// choice does not depend on a ps's speed. A cut that was requested, or is the run's last, is
// dropped only for a later such cut. Otherwise the cut stays whose version is divisible by the
// higher power of two, or else the later one. A ps that needs up to 2^k periods of the schedule to
// write one snapshot then writes every cut whose version is divisible by 2^(k+1), and so do all
// faster ps. Example: while a slow ps writes cut 8, cut 12 waits and cut 16 arrives; 12 is dropped,
// because 16 is divisible by a higher power of two. A single ps keeps the later cut.
//
// A state machine that neither writes files nor makes calls itself. Not thread-safe.
class SnapshotQueue {
 public:
  explicit SnapshotQueue(uint32_t ps_index);

  // Starts a lineage and forgets snapshots and reports of earlier ones.
  void StartLineage(SnapshotLineage lineage);
  // Notes that the chief has requested the cut. Called before the cut's parts are added.
  void Ask(uint64_t version);
  // Moves the parts out of the list. Returns the number of snapshots that were dropped.
  size_t AddParts(std::vector<SliceStoreEvents::CutPart>* parts);

  // --- Writing.
  struct Work {
    std::shared_ptr<const SnapshotLineage> lineage;
    Snapshot snapshot;
    bool is_export = false;
  };
  // Returns what is to be written now, nothing while the previous snapshot is not finished. The
  // caller then calls OnWritten.
  std::optional<Work> TakeWork(absl::Time now);
  // Returns the time at which TakeWork will have work, if nothing else happens.
  absl::Time work_time() const;
  // Work has been written, or has failed with `status`. For a shard, `report` describes the file.
  // A shard that failed is reported, except that of the run's last version: the run needs it, so it
  // is written again until it succeeds or the chief ends the run.
  void OnWritten(absl::Time now, Work work, const absl::Status& status,
                 v1::ReportShardRequest report);
  bool is_writing() const { return writing_; }
  // Returns false if another lineage has been started: then nobody needs the work any more.
  bool IsOfLineage(const Work& work) const { return work.lineage == lineage_; }
  // Returns true if a requested snapshot, or the run's last, waits for the writer.
  bool ShouldStopExport() const {
    return waiting_.has_value() && waiting_priority_ > kMostPriority;
  }

  // --- Reports: at most one is being sent.
  // Returns the report to send now, whose identity has only the lineage. The caller then calls
  // OnReported.
  std::optional<v1::ReportShardRequest> TakeReport(absl::Time now);
  // Returns the time at which TakeReport will have a report, if nothing else happens.
  absl::Time report_time() const;
  // Takes the result of sending `report`. If the chief itself did not answer, the report is sent
  // again until the lineage ends.
  void OnReported(absl::Time now, const v1::ReportShardRequest& report, const absl::Status& status,
                  const v1::ReportShardResponse& response);

 private:
  // The highest priority of a cut that was not requested.
  static constexpr int kMostPriority = 63;

  bool IsAskedOrLast(uint64_t version) const;
  int GetPriority(uint64_t version) const;
  void GiveUp(uint64_t version, uint64_t stays);
  v1::ReportShardRequest MakeReport(uint64_t version) const;
  void AddReport(v1::ReportShardRequest report);
  void OnShardReported(const v1::ReportShardResponse& response);
  const v1::ReportShardRequest* NextReport() const;
  // Moves the waiting snapshot to the writer if that is free.
  void Advance();

  std::shared_ptr<const SnapshotLineage> lineage_;
  std::set<uint64_t> asked_;                // Requested cuts that are not complete.
  std::map<uint64_t, Snapshot> gathering_;  // Keyed by version.
  // The snapshot that is being written and reported; `waiting_` is the one after it.
  std::optional<Work> next_;
  absl::Time write_at_ = absl::InfinitePast();
  bool writing_ = false;
  std::optional<v1::ReportShardRequest> written_;  // Not acknowledged by the chief yet.
  Snapshot held_;         // Kept until the chief says whether to export it.
  uint64_t version_ = 0;  // The version of the snapshot of next_, later of held_.
  std::optional<Snapshot> waiting_;
  int waiting_priority_ = 0;
  std::deque<v1::ReportShardRequest> reports_;  // Other reports, which no snapshot waits for.
  bool sending_ = false;
  absl::Time send_at_ = absl::InfinitePast();
  Backoff backoff_;
};

}  // namespace shoal

#endif  // SHOAL_PS_SNAPSHOT_QUEUE_H_

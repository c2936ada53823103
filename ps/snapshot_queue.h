// Which snapshots of a ps become shards of checkpoints, and what the chief is told of them.
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
// then, if the chief wants that, into model.safetensors; and one waits: of two that want to wait
// one is given up, so that a disk which is slower than the schedule costs checkpoints and not
// memory.
//
// Which one must not depend on a ps's own speed: a checkpoint needs the shards of all ps. A cut
// that was asked for, or is the run's last, is given up only for a later such cut. Of others the
// one stays whose version a higher power of two divides, else the later one: a ps whose disk takes
// as long as up to 2^k cuts then writes every cut that 2^(k+1) divides, and so do all faster ones.
// A ps that is alone keeps the later one.
//
// A state machine, one thread at a time: it writes nothing and calls nobody.
class SnapshotQueue {
 public:
  explicit SnapshotQueue(uint32_t ps_index);

  // Forgets snapshots and reports of the lineage before.
  void StartLineage(SnapshotLineage lineage);
  // The chief asks for the cut. Before its parts come.
  void Ask(uint64_t version);
  // Takes the parts out of the list. The number of snapshots that were given up.
  size_t AddParts(std::vector<SliceStoreEvents::CutPart>* parts);

  // --- Writing.
  struct Work {
    std::shared_ptr<const SnapshotLineage> lineage;
    Snapshot snapshot;
    bool is_export = false;
  };
  // What is to be written next; follow with OnWritten. None: there is none, or the snapshot before
  // is not through.
  std::optional<Work> TakeWork();
  // `report` has the file of a shard that was written.
  void OnWritten(Work work, const absl::Status& status, v1::ReportShardRequest report);
  bool is_writing() const { return writing_; }
  // A stop or the end of the run waits for another snapshot.
  bool ShouldStopExport() const {
    return waiting_.has_value() && waiting_priority_ > kMostPriority;
  }

  // --- Reports: at most one is on its way.
  // The report to be sent now, its identity yet without all but the lineage; follow with
  // OnReported.
  std::optional<v1::ReportShardRequest> TakeReport(absl::Time now);
  // When TakeReport has one, if nothing else happens.
  absl::Time report_time() const;
  // A report that the chief itself did not answer is sent again, until the lineage ends.
  void OnReported(absl::Time now, const v1::ReportShardRequest& report, const absl::Status& status,
                  const v1::ReportShardResponse& response);

  // Snapshots that are gathered, wait or are being written.
  size_t num_held() const;

 private:
  static constexpr int kMostPriority = 63;  // Of a cut that nobody asked for.

  bool IsAskedOrLast(uint64_t version) const;
  int PriorityOf(uint64_t version) const;
  void GiveUp(uint64_t version, uint64_t stays);
  v1::ReportShardRequest ReportOf(uint64_t version) const;
  void AddReport(v1::ReportShardRequest report);
  void OnShardReported(const v1::ReportShardResponse& response);
  const v1::ReportShardRequest* NextReport() const;
  // Lets the one that waits take its turn if that has come.
  void Advance();

  std::shared_ptr<const SnapshotLineage> lineage_;
  std::set<uint64_t> asked_;                // Those that are not complete.
  std::map<uint64_t, Snapshot> gathering_;  // By version.
  // One snapshot goes through these, and one waits.
  std::optional<Work> next_;
  bool writing_ = false;
  std::optional<v1::ReportShardRequest> written_;  // Until the chief has it,
  Snapshot held_;                                  // and says whether it wants an export.
  uint64_t version_ = 0;                           // Of that snapshot.
  std::optional<Snapshot> waiting_;
  int waiting_priority_ = 0;
  std::deque<v1::ReportShardRequest> reports_;  // Others, which hold nothing back.
  bool sending_ = false;
  absl::Time send_at_ = absl::InfinitePast();
  Backoff backoff_;
};

}  // namespace shoal

#endif  // SHOAL_PS_SNAPSHOT_QUEUE_H_

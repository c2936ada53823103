#ifndef SHOAL_CHIEF_SESSION_CHECKPOINTS_H_
#define SHOAL_CHIEF_SESSION_CHECKPOINTS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

#include "chief/session/checkpoint_watch.h"
#include "chief/session/model_exports.h"
#include "chief/session/session_context.h"
#include "chief/session/session_records.h"
#include "proto/v1/chief_service.pb.h"

namespace shoal {

// Turns cuts into durable checkpoints: collects the shards, hands out manifests, asks for a cut
// when one is due or wanted, and gives up and counts those that fail. CutLedger keeps the cuts
// themselves. Not thread-safe.
class Checkpoints {
 public:
  // Both are borrowed.
  Checkpoints(SessionContext* context, ModelExports* exports);

  // Takes the report that a ps has written its shard of a cut, or could not. The sender has been
  // checked.
  absl::Status ReportShard(absl::Time now, const v1::ReportShardRequest& request);
  // Hands out the manifests of cuts that have all their shards, up to the version `newest`.
  void WriteManifests(absl::Time now, uint64_t newest);
  // Takes the result of writing a manifest; if it could not be written, training continues without
  // that checkpoint. Returns whether the run has a new checkpoint.
  bool OnManifestWritten(absl::Time now, const ManifestToWrite& write, const absl::Status& status);

  // Writes the manifest of the final checkpoint again when that is due.
  void RepeatIfDue(absl::Time now);

  // Asks for a cut on behalf of a user and returns its version; FAILED_PRECONDITION: none can be
  // made now, and the request does not stop the run.
  absl::StatusOr<uint64_t> Request(absl::Time now, bool stop);
  // Asks for a cut if the training has been without one for long enough.
  void SaveIfDue(absl::Time now);
  // Counts a checkpoint that is overdue, whatever the reason, as failed, and logs it.
  void Watch(absl::Time now);
  void OnRollback();

  uint64_t durable_version() const { return context_.cuts.durable_version(); }
  const std::string& durable_directory() const { return context_.cuts.durable_directory(); }
  // Returns whether the run would go back to this checkpoint and no ps may still be reading an
  // older one.
  bool RestsOn(absl::string_view directory) const;
  // Returns how many checkpoints have failed, and why the last of them did.
  uint64_t num_failed() const { return num_failed_; }
  const std::string& last_failure() const { return last_failure_; }
  // Returns why the newest cut became no checkpoint; empty: it did, or there was none.
  std::string open_failure() const { return newest_has_failed_ ? last_failure_ : ""; }

 private:
  void WriteManifest(const CutLedger::Complete& cut);
  // While one manifest is being written, one waits; older ones are given up.
  void GiveUpSuperseded(absl::Time now, uint64_t newest);
  // Counts a cut that becomes no checkpoint as failed.
  void GiveUp(uint64_t version, const std::string& directory, absl::string_view why);
  // Leaves out a superseded cut of a run whose checkpoints succeed: nothing has failed.
  void LeaveOut(uint64_t version, const std::string& directory, absl::string_view why);
  void Forget(uint64_t version, const std::string& directory, const std::string& why);
  // Returns whether the newest checkpoint, or the start of the training, is recent.
  bool IsFresh(absl::Time now) const;
  void CountFailure(uint64_t step, absl::string_view why);
  // Returns whether no later checkpoint than that of `version` will be made.
  bool IsLast(uint64_t version) const;
  // Lets the final checkpoint be written again. After peer_wait, the longest wait for tasks, the
  // run fails; starting the run again may succeed.
  void OnFinalFailed(absl::Time now, absl::string_view why);
  void BeginWatch(absl::Time now);

  SessionContext& context_;
  ModelExports& exports_;
  uint32_t manifests_under_way_ = 0;
  // SYNC: the final checkpoint, whose attempt has failed.
  std::optional<ManifestToWrite> repeated_;
  absl::Time repeat_at_ = absl::InfiniteFuture();
  absl::Time final_fails_since_ = absl::InfiniteFuture();
  uint64_t num_failed_ = 0;
  std::string last_failure_;
  bool newest_has_failed_ = false;
  absl::Time save_due_ = absl::InfiniteFuture();
  uint64_t saved_step_ = 0;               // The last cut that was asked for or became durable.
  std::optional<CheckpointWatch> watch_;  // None before the training has begun.
  // The time at which the newest checkpoint became durable; before the first checkpoint, the time
  // at which training began.
  absl::Time checkpoint_since_ = absl::InfiniteFuture();
};

}  // namespace shoal

#endif  // SHOAL_CHIEF_SESSION_CHECKPOINTS_H_

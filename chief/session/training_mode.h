#ifndef SHOAL_CHIEF_SESSION_TRAINING_MODE_H_
#define SHOAL_CHIEF_SESSION_TRAINING_MODE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "chief/ledgers/evaluation_ledger.h"
#include "chief/session/ps_reloads.h"
#include "proto/v1/checkpoint.pb.h"
#include "proto/v1/chief_service.pb.h"
#include "runtime/cluster/task.h"
#include "runtime/plan/batch_key.h"

namespace shoal {

// The time between two attempts to write the final checkpoint.
inline constexpr absl::Duration kFinalRetry = absl::Seconds(2);

// One failure of a batch.
struct BadBatchReport {
  BatchKey batch;
  TaskId worker;
  uint64_t incarnation = 0;
  bool is_certain = false;  // Computing the batch again does not help.
  std::string detail;
};

// The decisions of a session that synchronous and asynchronous training make in different ways.
// SyncMode and AsyncMode begin with the run's plan, i.e. when the first worker has registered;
// UnplannedMode acts before. The defaults are those of a mode that has nothing to do there.
//
// Not thread-safe. The session has checked the sender, its lineage and that the run has a plan.
class TrainingMode {
 public:
  virtual ~TrainingMode() = default;

  // --- Progress of the run.
  // Returns the number of updates that have been applied.
  virtual uint64_t newest_step() const = 0;
  // Returns the newest step that was reported together with all steps before it.
  virtual uint64_t reported_steps() const = 0;
  // Returns the number of epochs that are complete.
  virtual uint32_t num_epochs() const = 0;
  // Returns the batches that the run leaves out for ever, with the reasons.
  virtual const std::map<BatchKey, std::string>& skipped() const = 0;

  // --- Tasks that are lost, and ps that load.
  // Called when the task has lost its place, or another process has taken it.
  virtual void OnTaskLost(TaskId /*task*/, uint64_t /*incarnation*/) {}
  // Returns whether all ps go back to the last checkpoint when one of them has lost its variables.
  // Otherwise only that one loads again, and the others continue.
  virtual bool RollsBackAllPs() const = 0;
  // Called when all ps go back to the checkpoint of this version.
  virtual void OnRollback(uint64_t /*version*/) {}
  // Returns how a ps that has lost its variables comes back.
  virtual PsReloads& reloads() { return reloads_; }
  virtual void OnTrainingStarts() {}
  // Returns the first epoch that ps need to remember batches of.
  virtual uint32_t first_kept_epoch() const { return 0; }

  // --- Reports.
  virtual absl::Status ReportSteps(absl::Time now, const v1::ReportStepsRequest& request) = 0;
  virtual absl::Status AddEvaluation(absl::Time now, const v1::ReportEvaluationRequest& request,
                                     const EvaluationSums& sums) = 0;
  virtual absl::Status ReportNorms(const v1::ReportNormsRequest& request);
  // Returns the factor by which the gradient of the step is scaled, once all its norms are known.
  virtual std::optional<double> NormScale(uint64_t /*step*/) const { return std::nullopt; }
  virtual void ReportBadBatch(const BadBatchReport& report) = 0;
  virtual absl::StatusOr<v1::LeaseBatchesResponse> LeaseBatches(
      absl::Time now, const v1::LeaseBatchesRequest& request) = 0;

  // --- Cuts.
  // Returns whether a checkpoint can be made on request now, or is on its way.
  virtual bool CanCut() const = 0;
  // Asks for a cut on behalf of a user and returns its version; where none can be made, the version
  // of the durable one.
  virtual uint64_t RequestCut() = 0;
  // Returns whether the requested cut may become complete without another step.
  virtual bool CanReachCut() const { return false; }
  // Returns whether the last steps are under way, so that the final cut is near.
  virtual bool IsNearEnd() const { return false; }
  // Asks for a cut because enough time has passed. Returns false if the last cut of the run is
  // near.
  virtual bool SaveNow() = 0;
  // Returns the number of steps between two cuts where the run file does not set it.
  virtual uint64_t StepsPerEpoch() const = 0;
  // Returns INVALID_ARGUMENT if the run has no such version.
  virtual absl::Status CheckVersion(uint64_t /*version*/) const { return absl::OkStatus(); }
  // Returns false for a cut that was given up.
  virtual bool IsUnderWay(uint64_t /*version*/) const { return true; }
  virtual void OnShard(uint32_t /*ps*/, const v1::ReportShardRequest& /*shard*/) {}
  // Returns whether a manifest is written only when the one before it has been written.
  virtual bool WritesOneManifest() const { return true; }
  // Called when the manifest of the cut is about to be written. The mode adds its own fields.
  virtual void OnManifestBegun(uint64_t /*version*/, v1::Manifest* /*manifest*/) {}
  virtual void OnCutDurable(uint64_t version, const std::string& directory) = 0;
  virtual void OnCutFailed(uint64_t /*version*/) {}
  // Returns whether the run ends with the cut.
  virtual bool IsFinalCut(uint64_t version) const = 0;
  // Returns the final cut if nothing but its shards is missing.
  virtual std::optional<uint64_t> AwaitedFinalCut() const = 0;

  // --- The flow of the run, after every event and at least a few times a second.
  // Writes the lines of steps, and begins cuts that are due.
  virtual void Advance(absl::Time now) = 0;
  // Returns the newest version whose lines are all written: cuts up to it may become durable.
  // Returns nullopt if no cut may.
  virtual std::optional<uint64_t> NewestWrittenVersion(absl::Time now) = 0;
  // Ends the run if its last checkpoint is durable.
  virtual void FinishIfDurable(absl::Time now) = 0;
  // Called when the run is over. Lines that wait for something are written as they are.
  virtual void OnRunOver() {}

 private:
  PsReloads reloads_;
};

inline absl::Status TrainingMode::ReportNorms(const v1::ReportNormsRequest& /*request*/) {
  return absl::FailedPreconditionError("this run does not clip by global norm");
}

}  // namespace shoal

#endif  // SHOAL_CHIEF_SESSION_TRAINING_MODE_H_

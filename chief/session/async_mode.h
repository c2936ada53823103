#ifndef SHOAL_CHIEF_SESSION_ASYNC_MODE_H_
#define SHOAL_CHIEF_SESSION_ASYNC_MODE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "chief/session/async_reloads.h"
#include "chief/session/async_session.h"
#include "chief/session/bad_batches.h"
#include "chief/session/session_context.h"
#include "chief/session/training_mode.h"

namespace shoal {

// Asynchronous training: the chief leases batches to workers, and every batch is an update by
// itself. When a ps loses its variables, it alone loads the last checkpoint, and what it lacks is
// computed again while the others train. An AsyncSession keeps the leases and the cuts; this class
// connects it with the rest of the session. Not thread-safe.
class AsyncMode : public TrainingMode {
 public:
  // Both are borrowed. The run has its plan. FAILED_PRECONDITION: the checkpoint's ledger does not
  // fit the plan.
  static absl::StatusOr<std::unique_ptr<AsyncMode>> Create(SessionContext* context,
                                                           BadBatches* bad_batches);

  uint64_t newest_step() const override { return async_.ledger().updates(); }
  uint64_t reported_steps() const override { return async_.lines().newest(); }
  uint32_t num_epochs() const override { return async_.ledger().FirstOpenEpoch(); }
  const std::map<BatchKey, std::string>& skipped() const override {
    return async_.ledger().skipped();
  }

  bool RollsBackAllPs() const override { return false; }
  void OnTaskLost(TaskId task, uint64_t incarnation) override;
  PsReloads& reloads() override { return reloads_; }
  uint32_t first_kept_epoch() const override { return async_.first_kept_epoch(); }

  absl::Status ReportSteps(absl::Time now, const v1::ReportStepsRequest& request) override;
  absl::Status AddEvaluation(absl::Time now, const v1::ReportEvaluationRequest& request,
                             const EvaluationSums& sums) override;
  void ReportBadBatch(const BadBatchReport& report) override;
  absl::StatusOr<v1::LeaseBatchesResponse> LeaseBatches(
      absl::Time now, const v1::LeaseBatchesRequest& request) override;

  bool CanCut() const override;
  uint64_t RequestCut() override;
  bool CanReachCut() const override { return async_.all_serve(); }
  bool IsNearEnd() const override { return async_.ledger().is_at_end(); }
  bool SaveNow() override;
  uint64_t StepsPerEpoch() const override;
  bool IsUnderWay(uint64_t version) const override { return async_.IsUnderWay(version); }
  void OnShard(uint32_t ps, const v1::ReportShardRequest& shard) override;
  bool WritesOneManifest() const override { return false; }
  void OnManifestBegun(uint64_t version, v1::Manifest* manifest) override;
  void OnCutDurable(uint64_t version, const std::string& directory) override;
  void OnCutFailed(uint64_t version) override;
  bool IsFinalCut(uint64_t version) const override { return AwaitedFinalCut() == version; }
  std::optional<uint64_t> AwaitedFinalCut() const override;

  void Advance(absl::Time now) override;
  std::optional<uint64_t> NewestWrittenVersion(absl::Time now) override;
  void FinishIfDurable(absl::Time now) override;
  void OnRunOver() override;

 private:
  AsyncMode(SessionContext* context, BadBatches* bad_batches, const AsyncSession::Options& options);

  void TakeLines();
  // Returns whether metrics.jsonl has the lines of all updates that the cut contains, or the cut
  // does not wait for them any longer.
  bool LinesOfCutAreWritten(absl::Time now);
  // Notes from time to time which worker gets no batches because of sync.clock_bound, and for which
  // slow worker it waits.
  void NoteSlowWorker(absl::Time now);

  SessionContext& context_;
  BadBatches& bad_batches_;
  AsyncSession async_;
  AsyncReloads reloads_;
  bool final_cut_has_failed_ = false;  // A final cut failed since the last call of Advance.
  absl::Time next_cut_ = absl::InfinitePast();
  // The time at which a cut that has all shards stops waiting for its lines.
  absl::Time lines_deadline_ = absl::InfiniteFuture();
  std::optional<uint32_t> slowest_;
  absl::Time slow_note_ = absl::InfiniteFuture();  // When the next note of it is due.
};

}  // namespace shoal

#endif  // SHOAL_CHIEF_SESSION_ASYNC_MODE_H_

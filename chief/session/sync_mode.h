#ifndef SHOAL_CHIEF_SESSION_SYNC_MODE_H_
#define SHOAL_CHIEF_SESSION_SYNC_MODE_H_

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "chief/ledgers/gradient_norms.h"
#include "chief/session/bad_batches.h"
#include "chief/session/session_context.h"
#include "chief/session/training_mode.h"

namespace shoal {

// Synchronous training: slices apply steps by themselves and make cuts at the same version. A step
// counts when the ps with the report slice has reported it. When a ps loses its variables, all ps
// go back to the last checkpoint and compute the same steps again. Not thread-safe.
class SyncMode : public TrainingMode {
 public:
  // Both are borrowed. The run has its plan, and resumes from the durable version.
  SyncMode(SessionContext* context, BadBatches* bad_batches);

  uint64_t newest_step() const override { return newest_step_; }
  uint64_t reported_steps() const override { return newest_step_; }
  uint32_t num_epochs() const override;
  const std::map<BatchKey, std::string>& skipped() const override {
    return bad_batches_.decisions().skipped();
  }

  bool RollsBackAllPs() const override { return true; }
  void OnRollback(uint64_t version) override;
  void OnTrainingStarts() override;

  absl::Status ReportSteps(absl::Time now, const v1::ReportStepsRequest& request) override;
  absl::Status AddEvaluation(absl::Time now, const v1::ReportEvaluationRequest& request,
                             const EvaluationSums& sums) override;
  absl::Status ReportNorms(const v1::ReportNormsRequest& request) override;
  std::optional<double> NormScale(uint64_t step) const override;
  void ReportBadBatch(const BadBatchReport& report) override;
  absl::StatusOr<v1::LeaseBatchesResponse> LeaseBatches(
      absl::Time now, const v1::LeaseBatchesRequest& request) override;

  bool CanCut() const override;
  uint64_t RequestCut() override;
  bool CanReachCut() const override;
  bool IsNearEnd() const override;
  bool SaveNow() override;
  uint64_t StepsPerEpoch() const override;
  absl::Status CheckVersion(uint64_t version) const override;
  void OnCutDurable(uint64_t version, const std::string& directory) override;
  void OnCutFailed(uint64_t version) override;
  bool IsFinalCut(uint64_t version) const override;
  std::optional<uint64_t> AwaitedFinalCut() const override;

  void Advance(absl::Time now) override;
  std::optional<uint64_t> NewestWrittenVersion(absl::Time now) override;
  void FinishIfDurable(absl::Time now) override;

 private:
  bool HasGradient(uint32_t slice) const;
  // Requests the last cut of an interrupted run unless a cut is requested already.
  void RequestLastCut(absl::Time now);
  bool IsAtEnd() const;
  // Returns whether the evaluation of the step, which is not complete, cannot become complete.
  bool WillLackEvaluation(uint64_t step) const;
  // Drops the lines above this version. Workers may be beyond the last checkpoint of a stop, and a
  // resumed run computes those steps again.
  void ForgetLinesAbove(uint64_t version);

  SessionContext& context_;
  BadBatches& bad_batches_;
  uint64_t newest_step_;
  // Steps that are applied, but whose evaluation is not complete.
  std::deque<v1::StepReport> held_lines_;
  std::optional<GradientNorms> norms_;  // Only in runs that clip by global norm.
  bool has_failed_cut_ = false;         // A cut has failed since Advance was called.
  // When an interrupted run may request a cut in place of the one that has failed.
  absl::Time next_cut_ = absl::InfinitePast();
};

}  // namespace shoal

#endif  // SHOAL_CHIEF_SESSION_SYNC_MODE_H_

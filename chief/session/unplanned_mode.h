#ifndef SHOAL_CHIEF_SESSION_UNPLANNED_MODE_H_
#define SHOAL_CHIEF_SESSION_UNPLANNED_MODE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "chief/session/bad_batches.h"
#include "chief/session/session_context.h"
#include "chief/session/training_mode.h"

namespace shoal {

// The mode of a run that has no plan yet: no worker has registered, and all that can happen is a
// stop. A resumed run is at its checkpoint.
class UnplannedMode : public TrainingMode {
 public:
  // Both are borrowed.
  UnplannedMode(SessionContext* context, const BadBatches* bad_batches)
      : context_(*context), bad_batches_(*bad_batches) {}

  uint64_t newest_step() const override { return context_.cuts.durable_version(); }
  uint64_t reported_steps() const override { return newest_step(); }
  uint32_t num_epochs() const override { return 0; }
  const std::map<BatchKey, std::string>& skipped() const override {
    return bad_batches_.decisions().skipped();
  }
  bool RollsBackAllPs() const override { return false; }
  absl::Status ReportSteps(absl::Time /*now*/, const v1::ReportStepsRequest& /*request*/) override {
    return NoPlan();
  }
  absl::Status AddEvaluation(absl::Time /*now*/, const v1::ReportEvaluationRequest& /*request*/,
                             const EvaluationSums& /*sums*/) override {
    return NoPlan();
  }
  void ReportBadBatch(const BadBatchReport& /*report*/) override {}
  absl::StatusOr<v1::LeaseBatchesResponse> LeaseBatches(
      absl::Time /*now*/, const v1::LeaseBatchesRequest& /*request*/) override {
    return NoPlan();
  }
  bool CanCut() const override { return false; }
  uint64_t RequestCut() override { return context_.cuts.durable_version(); }
  bool SaveNow() override { return false; }
  uint64_t StepsPerEpoch() const override { return 0; }
  void OnCutDurable(uint64_t /*version*/, const std::string& /*directory*/) override {}
  bool IsFinalCut(uint64_t /*version*/) const override { return false; }
  std::optional<uint64_t> AwaitedFinalCut() const override { return std::nullopt; }
  void Advance(absl::Time /*now*/) override {}
  std::optional<uint64_t> NewestWrittenVersion(absl::Time /*now*/) override { return std::nullopt; }
  void FinishIfDurable(absl::Time /*now*/) override {
    if (!context_.phases.is_over() && context_.phases.is_interrupted()) {
      context_.FinishInterrupted();
    }
  }

 private:
  static absl::Status NoPlan() { return absl::UnavailableError("the run has no plan yet"); }

  SessionContext& context_;
  const BadBatches& bad_batches_;
};

}  // namespace shoal

#endif  // SHOAL_CHIEF_SESSION_UNPLANNED_MODE_H_

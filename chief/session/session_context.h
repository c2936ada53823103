#ifndef SHOAL_CHIEF_SESSION_SESSION_CONTEXT_H_
#define SHOAL_CHIEF_SESSION_SESSION_CONTEXT_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"

#include "chief/ledgers/cut_ledger.h"
#include "chief/ledgers/evaluation_ledger.h"
#include "chief/ledgers/membership.h"
#include "chief/ledgers/table_memory_ledger.h"
#include "chief/session/reachability.h"
#include "chief/session/run_phases.h"
#include "chief/session/run_plan.h"
#include "chief/session/session_log.h"
#include "chief/session/session_options.h"
#include "chief/session/training_mode.h"
#include "proto/v1/chief_service.pb.h"

namespace shoal {

// Remembers when the training last made progress. A step, a shard and an evaluation are progress
// (OnProgress). So is a batch that a worker begins (OnBatchBegun), unless a worker has begun the
// same batch since the last OnProgress: then it is computed again. A sign of progress from within
// an evaluation (OnSign) keeps the run alive, too, but signs alone do so for at most an hour: a
// block that is evaluated again and again gives signs as well.
class TrainingProgress {
 public:
  void OnProgress(absl::Time now);
  void OnBatchBegun(absl::Time now, const BatchKey& batch);
  void OnSign(absl::Time now);
  absl::Time last() const { return last_; }
  // Returns the time of the last progress or sign.
  absl::Time last_sign() const { return std::max(last_, last_sign_); }

 private:
  absl::Time last_ = absl::InfinitePast();
  std::set<BatchKey> begun_;  // Batches that workers have begun since the last OnProgress.
  absl::Time first_sign_ = absl::InfiniteFuture();  // The first one since the last OnProgress.
  absl::Time last_sign_ = absl::InfinitePast();
};

// The chief's knowledge of one ps.
struct PsState {
  uint64_t incarnation = 0;  // The process that registered last; 0: none has.
  // The lineage that it was asked to load. It may serve it before its answer arrives.
  uint64_t asked_lineage = 0;
  uint64_t loaded_lineage = 0;  // The lineage that it serves; 0: none.
  bool has_served = false;      // This process has served the run.
  bool finished = false;        // It has acknowledged the end of the run.
  std::string load_trouble;     // The reason why its last load failed; empty if it did not.
  absl::Time missing_since = absl::InfiniteFuture();
};

// The state that the parts of a TrainingSession share. Not thread-safe.
struct SessionContext {
  explicit SessionContext(SessionOptions session_options);
  SessionContext(const SessionContext&) = delete;
  SessionContext& operator=(const SessionContext&) = delete;

  bool IsLivePs(uint32_t index) const { return membership.IsLive(TaskId{Job::kPs, index}); }
  // Returns whether the ps has the variables of this lineage and answers workers.
  bool Serves(uint32_t index) const;
  // Returns the number of workers of the resolved run.
  uint32_t num_replicas() const;
  // Returns the ps with the report slice, which counts the steps. Needs the plan.
  uint32_t reporter() const;
  // Notes in the log that the reporter sent `step` although the chief has only the steps up to
  // `newest`; it has to send those in between first.
  void NoteGap(absl::Time now, uint64_t step, uint64_t newest);
  // Returns whether the run has a durable checkpoint. If not, restarted ps begin with the initial
  // values, which are version 0.
  bool has_checkpoint() const { return !cuts.durable_directory().empty(); }
  // Returns whether the run makes its last checkpoint, and no step will be completed before it.
  bool EndsWithoutSteps() const;
  // Ends the run with an error after a last checkpoint of what all ps have applied. Every error
  // that occurs while all ps live ends the run in this way; for other errors the parts of the
  // session call phases.Fail. With `unless_trained` the error is forgotten if all steps are applied
  // before the run ends.
  void EndAfterCheckpoint(const std::string& message,
                          absl::StatusCode code = absl::StatusCode::kFailedPrecondition,
                          bool unless_trained = false);
  // Ends an interrupted run. Called when its last checkpoint is durable, or cannot be made.
  void FinishInterrupted();
  // "The last checkpoint is that of step 7, ckpt-7-1-0000000000000001", as a part of a message.
  std::string LastCheckpoint() const;
  // Adds to a ps's report of a step what only the chief knows: whether the model classifies, and
  // the names of its metrics.
  void NameFigures(v1::StepReport* report) const;
  // Fills in the chief as the sender of a command.
  void FillIdentity(v1::Identity* identity) const;
  // Switches to another mode, which is owned from now on.
  void SetMode(std::unique_ptr<TrainingMode> new_mode);

  const SessionOptions options;
  SessionLog log;
  RunPhases phases;
  std::unique_ptr<TrainingMode> mode;  // Never null after SetMode.
  Membership membership;
  Reachability reachability;
  std::vector<PsState> ps;
  CutLedger cuts;
  TableMemoryLedger tables;
  TrainingProgress progress;
  uint64_t num_rollbacks = 0;
  v1::GetRunStatusResponse::Rollback last_rollback;
  // "batch 3 of epoch 1 is skipped: ..."; empty: this chief skipped none.
  std::string last_skipped;

  // The first worker's declaration and what follows from it. Not set before a worker has
  // registered.
  std::optional<v1::ModelDeclaration> model;
  std::unique_ptr<RunPlan> plan;
  std::optional<EvaluationLedger> evaluations;
};

}  // namespace shoal

#endif  // SHOAL_CHIEF_SESSION_SESSION_CONTEXT_H_

#ifndef SHOAL_CHIEF_SESSION_BAD_BATCHES_H_
#define SHOAL_CHIEF_SESSION_BAD_BATCHES_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "chief/ledgers/bad_batch_decisions.h"
#include "chief/session/admission.h"
#include "chief/session/session_context.h"
#include "chief/session/session_records.h"
#include "proto/v1/chief_service.pb.h"
#include "proto/v1/parameter_service.pb.h"

namespace shoal {

// Handles batches whose gradients are not finite or whose computation crashes, and variables that
// are not finite after an update. Publishes to all tasks which batches they skip. Not thread-safe.
class BadBatches {
 public:
  // Both are borrowed. The context has no mode yet.
  BadBatches(SessionContext* context, Admission* admission);

  // Checks a report of a bad batch and hands it to the mode. A launcher, which is not a task of the
  // run, may report the death of a worker; such a report counts only for an incarnation that the
  // chief has issued.
  absl::Status Report(absl::Time now, const v1::ReportBadBatchRequest& request);
  // Ends the run: a variable is not finite after an update.
  absl::Status ReportPoisoned(const v1::PoisonedSlice& poisoned);

  // Take the answers of the ps. Answers of older lineages are ignored.
  void OnWithheld(const PsCommand& command, const v1::WithholdBatchResponse& response);
  void OnDecisionAcknowledged(const PsCommand& command);

  // Decides what can be decided. Returns why all ps have to go back to the last checkpoint; empty
  // if they do not.
  std::string Decide();
  void OnRollback() { decisions_.OnRollback(); }
  // Call it when the run has its plan. Skips of batches that contain other examples than in the
  // checkpoint are dropped.
  void OnPlan();
  // Publishes the batches that are skipped or delivered if they have changed.
  void Publish();
  // Ends the run, after a checkpoint, if so many batches next to each other are skipped that it
  // will not recover.
  void EndIfDiverging(const std::map<BatchKey, std::string>& skipped);

  BadBatchDecisions& decisions() { return decisions_; }
  const BadBatchDecisions& decisions() const { return decisions_; }

 private:
  // Logs the batches that are not published as skipped yet.
  void NoteSkipped(const std::map<BatchKey, std::string>& skipped);

  SessionContext& context_;
  Admission& admission_;
  BadBatchDecisions decisions_;
  std::pair<uint64_t, size_t> published_ = {0, 0};  // Changes of decisions_, batches skipped.
};

}  // namespace shoal

#endif  // SHOAL_CHIEF_SESSION_BAD_BATCHES_H_

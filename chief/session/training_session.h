#ifndef SHOAL_CHIEF_SESSION_TRAINING_SESSION_H_
#define SHOAL_CHIEF_SESSION_TRAINING_SESSION_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "chief/session/admission.h"
#include "chief/session/bad_batches.h"
#include "chief/session/checkpoints.h"
#include "chief/session/full_ps_watch.h"
#include "chief/session/model_exports.h"
#include "chief/session/ps_commands.h"
#include "chief/session/rollout.h"
#include "chief/session/roster.h"
#include "chief/session/session_context.h"
#include "chief/session/session_options.h"
#include "chief/session/session_records.h"
#include "chief/session/session_status.h"
#include "chief/session/training_mode.h"
#include "chief/session/waits.h"
#include "proto/v1/chief_service.pb.h"
#include "proto/v1/parameter_service.pb.h"

namespace shoal {

// The chief's view of the run: who takes part, which lineage of the variables is valid, what became
// of bad batches, which cuts are durable, when the run is over. It is not on the path of a step:
// slices apply steps by themselves.
//
//     WAITING ----> PREPARING ----> TRAINING ----> STOPPING ----> DONE        any ----> FAILED
//    (all ps and      ^   (all ps     |    (the last or the requested cut
//     one worker      |    loaded)    |     is being made durable)
//     registered)     +---------------+
//                      a ps lost its state, or a bad batch is on some slices:
//                      new lineage, all go back to the last durable cut
//
// In asynchronous training no task goes back: a lost ps loads again under the same lineage while
// the others continue.
//
// The session passes each event on to the part that decides about it, and then lets the run
// advance:
//
//     Admission    which tasks may register, and whether a call comes from one of them
//     Roster       which tasks take part now, and what all tasks know of them
//     Rollout      the phases (RunPhases) and lineages
//     TrainingMode steps, evaluations and cuts: SyncMode or AsyncMode
//     BadBatches   batches that are left out
//     Checkpoints  cuts on their way to the disk; ModelExports: their model.safetensors
//     Waits        what the run waits for, and when a wait ends it
//     FullPsWatch  when a ps without room for its tables ends the run
//     PsCommands   what the ps have to do
//
// Not thread-safe. It takes (now, message) and returns state, commands and records. Messages may be
// lost, repeated and reordered. Errors of the handlers are those documented in
// proto/v1/chief_service.proto.
class TrainingSession {
 public:
  using Options = SessionOptions;

  explicit TrainingSession(Options options);
  TrainingSession(const TrainingSession&) = delete;
  TrainingSession& operator=(const TrainingSession&) = delete;

  // --- Calls of chief_service.proto.
  absl::StatusOr<v1::RegisterTaskResponse> Register(absl::Time now,
                                                    const v1::RegisterTaskRequest& request);
  // Renews the lease. The driver answers when state().number() differs from known_state, or after a
  // while.
  absl::Status Heartbeat(absl::Time now, const v1::HeartbeatRequest& request);
  // Notes that the connection of a waiting heartbeat broke.
  void Disconnect(absl::Time now, const v1::Identity& identity);
  // Returns when the live holder of a place last called; none if the place is free.
  std::optional<absl::Time> LastContact(TaskId task) const { return roster_.LastContact(task); }
  // Takes the steps that follow reported_steps() and leaves the others.
  absl::Status ReportSteps(absl::Time now, const v1::ReportStepsRequest& request);
  // Returns the newest step that was reported together with all steps before it; the largest number
  // once the run is over.
  uint64_t reported_steps() const;
  absl::Status ReportShard(absl::Time now, const v1::ReportShardRequest& request);
  absl::Status ReportEvaluation(absl::Time now, const v1::ReportEvaluationRequest& request);
  absl::Status ReportBadBatch(absl::Time now, const v1::ReportBadBatchRequest& request);
  absl::StatusOr<v1::LeaseBatchesResponse> LeaseBatches(absl::Time now,
                                                        const v1::LeaseBatchesRequest& request);
  absl::Status ReportNorms(absl::Time now, const v1::ReportNormsRequest& request);
  std::optional<double> NormScale(uint64_t lineage, uint64_t step) const;
  // Returns the version of the checkpoint that will be made, or was. FAILED_PRECONDITION: the
  // request is for another run, or only a checkpoint is wanted and none can be made now.
  absl::StatusOr<uint64_t> RequestStop(absl::Time now, const v1::RequestStopRequest& request);
  v1::GetRunStatusResponse Status(absl::Time now) const { return status_.Describe(now); }

  // Ends this chief because another one has taken the run over. It must not write anything more.
  void Fence(const std::string& why) { context_.phases.Fence(why); }

  // --- Commands to ps.
  std::vector<PsCommand> TakeCommands(absl::Time now) { return commands_.Take(now); }
  // Takes the answer of a ps. Answers of older lineages and incarnations are ignored.
  void OnAnswer(absl::Time now, const PsCommand& command, const PsResponse& response);
  // Notes that a load has failed, that its answer was lost, or that the ps is still loading.
  void OnLoadFailed(absl::Time now, const PsCommand& command, const absl::Status& why);
  // Notes that the command could not be delivered; it is issued again soon.
  void OnUndelivered(absl::Time now, const PsCommand& command);

  // --- Records.
  std::vector<SessionRecord> TakeRecords();
  // Takes the result of writing a manifest. If it could not be written, training continues without
  // that checkpoint.
  void OnManifestWritten(absl::Time now, const ManifestToWrite& write, const absl::Status& status);
  void OnExported(absl::Time now, const ModelExport& made, const absl::Status& status);

  // --- Time.
  // Looks at leases, waits and their deadlines. Call it at least a few times a second.
  void Tick(absl::Time now);
  // Gives all tasks a whole lease, because the chief received no calls for `pause`. `now` does not
  // include the pause.
  void OnPause(absl::Time now, absl::Duration pause) { roster_.OnPause(now, pause); }

  // --- What there is to know.
  const v1::RunState& state() const { return context_.phases.state(); }
  const RunPhases& phases() const { return context_.phases; }
  const TrainingMode& mode() const { return *context_.mode; }
  const Checkpoints& checkpoints() const { return checkpoints_; }
  const ModelExports& exports() const { return exports_; }
  // Returns the error with which the chief's process ends. Tasks read theirs from the state.
  absl::Status failure() const { return context_.phases.failure(); }
  // Returns whether all ps have acknowledged that the run is over, or are gone.
  bool all_finished() const;
  // Returns null before the first worker has registered.
  const RunPlan* plan() const { return context_.plan.get(); }
  // Returns the model as the first worker declared it; null before that. A run with a plan has one.
  const v1::ModelDeclaration* model() const {
    return context_.model.has_value() ? &*context_.model : nullptr;
  }
  std::optional<EvaluationSums> Evaluation(uint64_t version) const;

 private:
  class AnswerHandler;

  // A new process has taken the place of a ps.
  void OnPsReplaced(absl::Time now, uint32_t index, uint64_t incarnation);
  void GoBack(absl::Time now, const std::string& reason);
  void Decide(absl::Time now);
  // Does what has become possible. Every event ends with it.
  void Progress(absl::Time now);

  SessionContext context_;
  Roster roster_;
  Admission admission_;
  BadBatches bad_batches_;
  ModelExports exports_;
  Checkpoints checkpoints_;
  Rollout rollout_;
  Waits waits_;
  FullPsWatch full_ps_watch_;
  PsCommands commands_;
  SessionStatus status_;
};

}  // namespace shoal

#endif  // SHOAL_CHIEF_SESSION_TRAINING_SESSION_H_

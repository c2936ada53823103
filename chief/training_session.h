#ifndef SHOAL_CHIEF_TRAINING_SESSION_H_
#define SHOAL_CHIEF_TRAINING_SESSION_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

#include "chief/async_session.h"
#include "chief/bad_batch_decisions.h"
#include "chief/checkpoint_watch.h"
#include "chief/cut_ledger.h"
#include "chief/evaluation_ledger.h"
#include "chief/export_ledger.h"
#include "chief/gradient_norms.h"
#include "chief/issued_incarnations.h"
#include "chief/membership.h"
#include "chief/reachability.h"
#include "chief/run_plan.h"
#include "chief/session_records.h"
#include "proto/v1/chief_service.pb.h"
#include "proto/v1/parameter_service.pb.h"

namespace shoal {

// The chief's view of the run: who takes part, which lineage of the variables is valid, what
// became of bad batches, which cuts are durable, when the run is over. It is not on the path of a
// step: slices apply steps by themselves.
//
//     WAITING ----> PREPARING ----> TRAINING ----> STOPPING ----> DONE        any ----> FAILED
//    (all ps and      ^   (all ps     |    (the last or the asked-for cut
//     one worker      |    loaded)    |     is being made durable)
//     registered)     +---------------+
//                      a ps lost its state, or a bad batch is on some slices:
//                      new lineage, all go back to the last durable cut
//
// That is SYNC. In ASYNC nobody goes back: a lost ps is loaded again under the same lineage while
// the others train on, and what is different besides (leases, evaluations, cuts, the end) is up to
// an AsyncSession.
//
// Single-threaded: (now, message) in, state, commands and records out. Messages may be lost,
// repeated and reordered. Errors of the handlers are those documented in
// proto/v1/chief_service.proto.
class TrainingSession {
 public:
  struct Options {
    v1::RunConfig run;  // As resolved.
    std::string run_id;
    uint64_t term = 1;
    uint32_t num_ps_tasks = 1;  // LOCAL: 1
    std::string checkpoint_root;
    std::optional<v1::RunConfig> shared_run;  // SharedByAllTasks; none: tasks are not asked.
    std::string token;                        // Content of checkpoint_root/TOKEN.
    std::optional<v1::Manifest> manifest;     // Resume from it;
    std::string manifest_directory;           // it is in this directory of checkpoint_root.
    absl::Duration lease = absl::Seconds(10);
    absl::Duration grace = absl::Seconds(1);
    // For tasks to register, ps to load, a worker to come back, or anything to go forward.
    absl::Duration peer_wait = absl::Seconds(300);
    // For a worker to compute one batch or evaluation block.
    absl::Duration stall = absl::Seconds(120);
    absl::Duration wait_note = absl::Seconds(10);       // Between two notes of one wait.
    absl::Duration ps_return_wait = absl::Seconds(30);  // For a lost ps to come back.
    // A cut is asked for after so much training without a checkpoint; 0: never for that.
    absl::Duration save_period = absl::ZeroDuration();
    // For a cut on request, before the last one has to do: StopTimes::checkpoint.
    absl::Duration stop_wait = absl::Seconds(20);
    absl::Duration lines_wait = absl::Seconds(10);  // ASYNC: for the reports of a cut's steps.
    absl::Duration resend = absl::Seconds(2);       // Commands that were not answered.
    absl::Duration resend_load = absl::Seconds(60);
    absl::Duration reload = absl::Seconds(2);            // Loads that failed and may succeed later.
    absl::Duration redeliver = absl::Milliseconds(300);  // Commands that did not arrive.
    // Cuts between those with a model.safetensors, 0: only the last one of the run has it. None:
    // not even that.
    std::optional<uint64_t> export_every;
    // For the export of the last checkpoint of a run that was stopped, or else peer_wait.
    absl::Duration export_wait = absl::Seconds(30);
  };

  explicit TrainingSession(Options options);
  ~TrainingSession();

  // --- Calls of chief_service.proto.
  absl::StatusOr<v1::RegisterTaskResponse> Register(absl::Time now,
                                                    const v1::RegisterTaskRequest& request);
  // Renews the lease. The driver then waits until state().number() differs from known_state, or a
  // while.
  absl::Status Heartbeat(absl::Time now, const v1::HeartbeatRequest& request);
  // The connection of a waiting heartbeat broke.
  void Disconnect(absl::Time now, const v1::Identity& identity);
  // When the live holder of a place was last heard; none if the place is free.
  std::optional<absl::Time> LastHeard(TaskId task) const;
  // Takes the steps that follow on reported_steps() and leaves the others.
  absl::Status ReportSteps(absl::Time now, const v1::ReportStepsRequest& request);
  // The newest step that was reported with all before it; every step once the run is over.
  uint64_t reported_steps() const;
  absl::Status ReportShard(absl::Time now, const v1::ReportShardRequest& request);
  absl::Status ReportEvaluation(absl::Time now, const v1::ReportEvaluationRequest& request);
  absl::Status ReportBadBatch(absl::Time now, const v1::ReportBadBatchRequest& request);
  absl::StatusOr<v1::LeaseBatchesResponse> LeaseBatches(absl::Time now,
                                                        const v1::LeaseBatchesRequest& request);
  absl::Status ReportNorms(absl::Time now, const v1::ReportNormsRequest& request);
  std::optional<double> NormScale(uint64_t lineage, uint64_t step) const;
  // The version of the checkpoint that will be made, or was. FAILED_PRECONDITION: of another run,
  // or only a checkpoint is wanted and none can be made now.
  absl::StatusOr<uint64_t> RequestStop(absl::Time now, const v1::RequestStopRequest& request);
  v1::GetRunStatusResponse Status(absl::Time now) const;

  // Another chief has taken the run over: this one ends and must write nothing more.
  void Fence(const std::string& why);

  // --- Answers to commands. Answers of older lineages and incarnations are ignored.
  void OnLoadAnswer(absl::Time now, const PsCommand& command,
                    const absl::StatusOr<v1::LoadSlicesResponse>& response);
  void OnWithholdAnswer(absl::Time now, const PsCommand& command,
                        const v1::WithholdBatchResponse& response);
  void OnDecideAnswer(const PsCommand& command);
  void OnCutAnswer(const PsCommand& command, const v1::RequestCutResponse& response);
  void OnAppliedAnswer(absl::Time now, const PsCommand& command,
                       const v1::GetAppliedResponse& response);
  void OnFinishAnswer(const PsCommand& command);
  // The command could not be delivered; it is issued again soon.
  void OnUndelivered(absl::Time now, const PsCommand& command);

  // The manifest is durable, or could not be written (training goes on without that checkpoint).
  void OnManifestWritten(absl::Time now, const ManifestToWrite& write, const absl::Status& status);

  void OnExported(absl::Time now, const ModelExport& made, const absl::Status& status);

  // Leases, waits and their deadlines. Call it at least a few times a second.
  void Tick(absl::Time now);
  // Nobody heard the tasks for `pause`, which `now` leaves out: all have their leases again.
  void OnPause(absl::Time now, absl::Duration pause);

  // --- What comes out.
  const v1::RunState& state() const { return state_; }
  std::vector<PsCommand> TakeCommands(absl::Time now);
  std::vector<SessionRecord> TakeRecords();
  bool interrupted() const { return stopping_; }
  // Why the newest cut came to no checkpoint; empty: it did, or there was none.
  std::string open_failure() const { return newest_cut_failed_ ? last_failure_ : ""; }
  // All ps were told that the run is over (or are gone).
  bool all_finished() const;
  // A ps that has written its shard of this cut writes its part of the export, too.
  bool WantsExport(uint64_t version) const { return exports_.IsWanted(version); }
  // The run has reached its end, and its last checkpoint has no model.safetensors yet.
  bool export_pending() const;
  // Applied updates.
  uint64_t newest_step() const {
    return async_ == nullptr ? newest_step_ : async_->ledger().updates();
  }
  // Epochs that are through. Wants a plan.
  uint32_t epochs() const {
    return async_ == nullptr ? plan_->steps.At(newest_step_).epoch
                             : async_->ledger().FirstOpenEpoch();
  }
  uint64_t durable_version() const { return cuts_.durable_version(); }
  const std::string& durable_directory() const { return cuts_.durable_directory(); }
  // Whether the run would go back to this checkpoint, and no ps may be reading an older one.
  bool RestsOn(absl::string_view directory) const;
  // Null before the first worker has registered.
  const RunPlan* plan() const { return plan_.get(); }
  std::optional<EvaluationSums> Evaluation(uint64_t version) const;
  // Batches that are left out for ever, with the reasons.
  const std::map<BatchKey, std::string>& skipped() const;
  // As the chief's process ends; tasks get it from the state.
  absl::Status failure() const;
  bool classifies() const { return model_.has_value() && model_->classifies(); }

 private:
  struct PsState {
    uint64_t incarnation = 0;     // that registered last
    uint64_t told_lineage = 0;    // that it was told to load; it may serve it before we hear so
    uint64_t loaded_lineage = 0;  // that it serves; 0: none
    bool finished = false;
    std::string load_trouble;  // Why it could not load the last time; empty: it could.
    absl::Time missing_since = absl::InfiniteFuture();
  };

  // What the run cannot go on without. One at a time: the first that holds.
  enum class WaitKind { kNone, kRegistration, kPs, kVariables, kLastCut, kWorkers, kProgress };
  // "ps/1" "to register" "start them with ...".
  struct WaitText {
    std::string whom, what, remedy;
  };

  absl::Status CheckReporter(const v1::ReportStepsRequest& request) const;
  uint32_t reporter() const;  // The ps with the report slice.
  void NoteGap(absl::Time now, uint64_t step, uint64_t newest);
  absl::Status AddEvaluation(absl::Time now, const v1::ReportEvaluationRequest& request,
                             const EvaluationSums& sums);
  bool HasGradient(uint32_t slice) const;
  // Renews the sender's lease.
  absl::Status CheckIdentity(absl::Time now, const v1::Identity& identity);
  // CheckIdentity, of a call about the current lineage that only tasks of `job` send. Another
  // sender's lease is not renewed: it may be dead, and the call of somebody else.
  absl::Status CheckReport(absl::Time now, const v1::Identity& identity, Job job);
  // Its lease had ended.
  void Revived(TaskId task);
  // A task names a later term than this chief's. Only the run's directory proves that it is one.
  absl::Status DoubtTerm(absl::Time now, uint64_t claimed);
  absl::Status AdmitWorker(const v1::RegisterTaskRequest& request);
  // It does not fit the checkpoint, and others may. When no worker does, the run has failed.
  absl::Status RefuseWorker(uint32_t index, const absl::Status& why);
  void AdmitPs(absl::Time now, uint32_t index, uint64_t incarnation);
  // To a task that registers then.
  absl::Status AnswerOfAFailedRun() const;
  void OnLoadFailed(absl::Time now, const PsCommand& command, const absl::Status& why);
  void Changed() { state_.set_number(state_.number() + 1); }
  void SetPhase(v1::RunState::Phase phase);
  void UpdateView();
  void UpdatePsAddresses();
  void UpdateDecisions();
  void UpdateWaitingFor();
  // Says so once for each life of a task.
  void WarnOfAnotherDirectory(TaskId task, const std::string& directory);
  void StartIfComplete();
  void StartTrainingIfLoaded();
  void Rollback(absl::Time now, const std::string& reason);
  void Decide(absl::Time now);
  // A run that skips so many batches next to each other will not recover.
  bool FailIfDiverging(const std::map<BatchKey, std::string>& skipped);
  absl::Status ReportPoisoned(const v1::PoisonedSlice& poisoned);
  // Else version 0 stands, which every start makes from the specs.
  bool has_checkpoint() const { return !cuts_.durable_directory().empty(); }
  // What can be gone on from, for the end of an error's message.
  std::string StandingCheckpoint() const;
  void Progress(absl::Time now);
  void FlushLines();
  void WriteManifestIfComplete(uint64_t lines_end);
  // SYNC: one manifest is being written, and one waits.
  void GiveUpSupersededCuts(uint64_t lines_end);
  void GiveUpCut(uint64_t version, const std::string& directory, absl::string_view why);
  void SaveIfDue(absl::Time now);
  // Counts and names a checkpoint that is overdue, whatever the reason, as one that has failed.
  void WatchCheckpoints(absl::Time now);
  bool CanCut() const;  // On request, or one is on its way.
  bool IsFinalCut(uint64_t version) const;

  // training_session_exports.cc
  absl::Status ReportExport(absl::Time now, const v1::ReportShardRequest& request);
  void ExportIfComplete(absl::Time now);
  bool MayBecomeComplete(absl::Time now, const std::vector<uint32_t>& missing) const;

  // training_session_waits.cc
  // Something went forward: what `peer_wait` waits for.
  void WentOn(absl::Time now);
  // A worker begins the batch. To compute others than before is to go on, to compute one again is
  // not.
  void NoteInHand(absl::Time now, const BatchKey& batch);
  void CheckWaits(absl::Time now);
  // Takes the leases of workers that compute one batch without end.
  void ExpireStalled(absl::Time now);
  // Takes the leases of those between whom there is no way.
  void ExpireUnreached(absl::Time now);
  void TakePlace(TaskId task, const std::string& why);
  // "ps/0 at ADDRESS"; for the log and the status.
  std::string PsAndAddress(uint32_t ps) const;
  // "worker/1 cannot reach ps/0 at ADDRESS"; empty: all reach all, as far as is known.
  std::string BrokenLinks() const;
  void CheckPeers(absl::Time now);
  // Those that hold a place, were there and are not.
  std::vector<std::string> LostPs() const;
  WaitKind CurrentWait() const;
  WaitText Describe(WaitKind kind) const;
  uint32_t num_replicas() const;  // As the run file has it; 1 if it does not say.
  std::string AnyWorker() const;
  std::string PsWithoutVariables() const;
  std::string LoadTroubles() const;  // Of those; begins with a space if there are any.
  bool Serves(uint32_t ps) const;
  std::vector<uint32_t> PsWithoutLastShard() const;

  // training_session_status.cc
  void DescribeLost(v1::GetRunStatusResponse* response) const;
  void DescribeTasks(absl::Time now, v1::GetRunStatusResponse* response) const;
  // After DescribeTasks.
  void DescribeWait(absl::Time now, v1::GetRunStatusResponse* response) const;

  void FinishIfDurable();
  // Workers may be beyond the last checkpoint of a stop; a resume does those steps again.
  void ForgetLinesAbove(uint64_t version);
  void Fail(const std::string& message,
            absl::StatusCode code = absl::StatusCode::kFailedPrecondition);
  void Note(std::string text);
  void Warn(std::string text);
  // Whoever asked by a signal reads the refusal in the log; nobody fills it by asking.
  void NoteRefusal(absl::Time now, const std::string& why);
  class CommandIssue;
  PsCommand CommandFor(uint32_t ps) const;
  // If it is still wanted then.
  void Reissue(const PsCommand& command, absl::Time due);
  void WantLoads(CommandIssue* issue);
  void WantDecisions(CommandIssue* issue) const;
  void WantCuts(CommandIssue* issue) const;
  void WantFinishes(CommandIssue* issue) const;
  void FillIdentity(v1::Identity* identity) const;
  v1::LoadSlicesRequest LoadRequest() const;

  // training_session_async.cc
  absl::Status StartAsync();
  void OnAsyncTaskLost(TaskId task, uint64_t incarnation);
  absl::Status ReportAsyncSteps(absl::Time now, const v1::ReportStepsRequest& request);
  void AddAsyncEvaluation(absl::Time now, const v1::ReportEvaluationRequest& request,
                          const EvaluationSums& sums);
  void ReportAsyncBadBatch(const BatchKey& batch, TaskId task, uint64_t incarnation, bool certain,
                           const std::string& detail);
  void ProgressAsync(absl::Time now);
  bool LinesOfCutAreOut(absl::Time now);
  void TakeAsyncLines();
  void NoteSlowWorker(absl::Time now);
  void FinishAsync();

  const Options options_;
  Membership membership_;
  Reachability reachability_;
  IssuedIncarnations issued_;
  std::optional<v1::ModelDeclaration> model_;
  std::unique_ptr<RunPlan> plan_;
  BadBatchDecisions decisions_;
  uint64_t decisions_seen_ = 0;
  CutLedger cuts_;
  uint32_t manifests_under_way_ = 0;
  ExportLedger exports_;
  std::string exported_;  // The directory of the export that was made last, or is being made.
  absl::Time done_since_ = absl::InfiniteFuture();
  std::optional<EvaluationLedger> evaluations_;  // from the plan on
  std::optional<GradientNorms> norms_;           // with clipping by global norm
  std::unique_ptr<AsyncSession> async_;          // ASYNC, from the plan on
  std::set<uint32_t> refused_workers_;           // before one was taken
  std::string last_refusal_;
  std::vector<PsState> ps_;
  v1::RunState state_;
  uint64_t newest_step_ = 0;
  std::deque<v1::StepReport> held_lines_;         // applied, but their evaluation is not complete
  absl::Time save_due_ = absl::InfiniteFuture();  // when save_period is over
  uint64_t saved_step_ = 0;                       // of the last cut that was asked for or durable
  bool stopping_ = false;
  bool is_fenced_ = false;
  absl::Time stop_deadline_ = absl::InfiniteFuture();
  uint64_t failed_cuts_ = 0;
  std::string last_failure_;                              // of a cut; empty: none failed
  bool newest_cut_failed_ = false;                        // since one became durable
  std::optional<CheckpointWatch> watch_;                  // From the first step of training on.
  absl::Time checkpoint_since_ = absl::InfiniteFuture();  // The newest one, or training, stands.
  absl::Time lines_deadline_ = absl::InfiniteFuture();    // ASYNC, of a cut whose shards are there
  absl::Time started_ = absl::InfiniteFuture();
  std::optional<uint32_t> slowest_;                // ASYNC with a clock bound: it holds others up
  absl::Time slow_note_ = absl::InfiniteFuture();  // when the next note of it is due
  WaitKind wait_kind_ = WaitKind::kNone;
  absl::Time wait_since_ = absl::InfinitePast();
  absl::Time wait_note_ = absl::InfiniteFuture();  // when the next note of it is due
  absl::Time progress_ = absl::InfinitePast();     // when something last went forward
  std::set<BatchKey> in_hand_;                     // that workers had since then
  std::map<std::string, absl::Time> next_due_;
  std::vector<SessionRecord> records_;
  std::string noted_refusal_;
  absl::Time refusal_noted_ = absl::InfinitePast();
  absl::Time term_doubted_ = absl::InfinitePast();
};

}  // namespace shoal

#endif  // SHOAL_CHIEF_TRAINING_SESSION_H_

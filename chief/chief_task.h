#ifndef SHOAL_CHIEF_CHIEF_TASK_H_
#define SHOAL_CHIEF_CHIEF_TASK_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "chief/chief.h"
#include "chief/run_recorder.h"
#include "runtime/checkpoint/checkpoint_directory.h"
#include "runtime/observability/task_monitor.h"
#include "runtime/process/run_lock.h"
#include "runtime/task/task_options.h"

namespace shoal {

class ShutdownNotification;

// The chief of a run with everything it leaves in the run's directory: finds the checkpoint to
// resume from, counts terms, keeps metrics, writes manifests and at the end summary.json. It writes
// nothing more once the directory has a higher term. It does not serve: callers use chief()
// directly or put a server in front of it.
class ChiefTask : public TaskSource {
 public:
  using Connect =
      std::function<std::unique_ptr<ParameterClient>(uint32_t ps, const std::string& address)>;

  // The reaction if another chief holds the run's directory. kRefuse: Create fails with
  // ALREADY_EXISTS after a moment, because a user is waiting. kWait: Create waits as AwaitDirectory
  // describes. kNotAsked: Create does not check, because the caller has made sure that no other
  // chief holds it, for example in a simulation without real files.
  enum class IfHeld { kRefuse, kWait, kNotAsked };

  // Reads and prepares the run's directory, which is held against other chiefs as long as the task
  // lives. Errors name the field: --out in use, --resume=never with a checkpoint there,
  // --resume=must without one, a directory that cannot be written, a damaged run. UNAVAILABLE: the
  // disk of a run that has begun is full or fails, so that a later start may succeed.
  static absl::StatusOr<std::unique_ptr<ChiefTask>> Create(const TaskOptions& options,
                                                           uint32_t num_ps_tasks, Connect connect,
                                                           IfHeld if_held = IfHeld::kRefuse);
  ~ChiefTask() override;

  // Returns true if the run had finished before this start. Then there is nothing to do, and
  // chief() is null.
  bool is_finished() const { return finished_; }
  Chief* chief() { return chief_.get(); }

  // Writes run.textproto and, if it names any task, cluster.textproto of a run that starts here. A
  // resumed run keeps its own until its first new checkpoint shows that it fits.
  absl::Status RecordStart(const ClusterSpec& cluster);

  // Waits for the end of the run and writes summary.json. See Chief::Wait; if `why_stopped` is an
  // error, it takes the place of CANCELLED in the result and in the summary.
  absl::Status WaitAndConclude(const absl::Status& why_stopped = absl::OkStatus());

  // TaskSource. Call these only if is_finished() is false.
  TaskStatus Status() const override;
  void Collect(MetricPage* page) const override;
  std::optional<RunPage> DescribeRun() const override;

 private:
  explicit ChiefTask(const TaskOptions& options) : options_(options) {}
  static absl::StatusOr<std::unique_ptr<ChiefTask>> Prepare(const TaskOptions& options,
                                                            uint32_t num_ps_tasks, Connect connect,
                                                            IfHeld if_held);
  absl::Status FindCheckpoint(TrainingSession::Options* session);
  // Begins a new term: sets and writes the term, the run's identity and the token, and sets all
  // times.
  absl::Status BeginTerm(TrainingSession::Options* session);
  RunRecorder::Options RecorderOptions(uint64_t first_step);
  absl::Status WriteStart(const ClusterSpec& cluster);
  absl::Status WriteRunFile(uint32_t replicas_to_aggregate, uint64_t slice_bytes);
  // Returns the run's identity. It is in the file RUN_ID from the first start on, so that tasks of
  // an older chief belong to the same run. If the run resumes from a checkpoint, its identity is
  // that of the checkpoint, whose directory may have been moved here. A run without either gets a
  // random one.
  absl::StatusOr<std::string> RunId(const std::string& of_checkpoint) const;
  absl::StatusOr<uint64_t> ReadTerm() const;  // 0 if the run had no chief before
  absl::Status NextTerm();
  // Returns ABORTED if a chief of a higher term has the directory.
  absl::Status CheckTerm() const;
  absl::Status Publish(const ManifestToWrite& write);
  absl::Status Export(const ModelExport& wanted);
  absl::Status FinishWrittenExport(const std::string& path);
  absl::Status MakeExport(const std::string& path, absl::Time deadline);
  void Prune();
  // Removes the initial values that compute programs gave, once the run has a checkpoint.
  void RemoveProgramValues();
  absl::Status DiscardAbove(uint64_t step);
  absl::Status DiscardFailed(const std::string& directory);
  absl::Status WriteOwnSummary(const absl::Status& status);
  // Adds the last evaluation, if there was one.
  void AddEvaluation(const Chief::Outcome& outcome, Summary* summary) const;
  // Writes report.html: the page of the run as it ended.
  void WriteReport() const;

  const TaskOptions options_;
  std::optional<RunLock> lock_;
  uint64_t term_ = 0;
  std::unique_ptr<CheckpointDirectory> checkpoints_;
  std::unique_ptr<RunRecorder> recorder_;
  std::unique_ptr<Chief> chief_;
  bool finished_ = false;
  bool resumes_ = false;
  bool has_checkpoint_ = false;  // This chief has made a checkpoint; for Prune.
};

// Lets the notification, which may outlive the task, stop the task's run after a checkpoint.
void StopOnRequest(ShutdownNotification* shutdown, const std::shared_ptr<ChiefTask>& task);

// Runs a chief that serves gRPC at options.listen_address until the run is over.
absl::Status RunChief(const TaskOptions& options);

}  // namespace shoal

#endif  // SHOAL_CHIEF_CHIEF_TASK_H_

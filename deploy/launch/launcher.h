// Runs a whole cluster as processes of this program: 1 chief, P ps and N workers, at ports that
// they choose and report back. They run on this machine, on its loopback interface, or on the hosts
// of `places`, where its children start the tasks. Shows progress, restarts tasks that die, stops
// cleanly, and leaves no process running.
#ifndef SHOAL_DEPLOY_LAUNCH_LAUNCHER_H_
#define SHOAL_DEPLOY_LAUNCH_LAUNCHER_H_

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

#include "base/clock.h"
#include "deploy/launch/chief_link.h"
#include "deploy/launch/restart_pauses.h"
#include "deploy/launch/run_display.h"
#include "deploy/launch/task_deaths.h"
#include "deploy/launch/task_logs.h"
#include "proto/v1/chief_service.pb.h"
#include "proto/v1/run_config.pb.h"
#include "runtime/cluster/task.h"
#include "runtime/plan/batch_key.h"
#include "runtime/process/child.h"
#include "runtime/rpc/chief_client.h"

namespace shoal {

class FileSystem;
class ProgressReporter;
class ShutdownNotification;
class TaskPlaces;

// Single-threaded: one thread constructs and uses it, and must live as long as the children should,
// because they die with it. The launcher reacts as follows:
//   chief ends             all are ended; its exit decides the run's
//   worker dies            restarted, max_worker_restarts times each, while the others continue; a
//                          task that has lived for `restarts_forgotten` counts from 0 again
//   a task dies again soon after its restart
//                          restarted after a pause (restart_pauses.h)
//   a task cannot be started again
//                          as if it had died again
//   worker dies of SIGSEGV, SIGBUS, SIGFPE, SIGILL or SIGABRT
//                          also reported: its batch is suspect
//   ps dies                restarted, kMaxPsRestarts times each; the chief rolls the run back
//   ps loses its lease     killed, then as if it had died
//   any ends with a permanent exit code (2, 64, 65, 78)
//                          no restart: the run ends with it, after a checkpoint if it is a worker
//   shutdown is requested  the chief is asked for a checkpoint and the end
class Launcher {
 public:
  static constexpr uint32_t kMaxPsRestarts = 10;

  struct Options {
    std::string program;  // Path of this program.
    v1::RunConfig run;    // Resolved, NumPsProcesses > 0; `out` is absolute and holds
                          // run.textproto and logs/. Workers run its worker_binary, if it has one.
    const TaskPlaces* places = nullptr;  // Borrowed. Null: this machine, loopback addresses.
    // Flags for every task, in addition to those that it always gets.
    std::vector<std::string> task_flags;
    std::function<std::unique_ptr<ChiefClient>(const std::string& address)> connect;
    // The address at which the chief serves /metrics; empty: no task serves it. The other tasks
    // take free ports, on the same host or, with `places`, on the host where they listen. They
    // serve at all addresses of the host if the chief does.
    std::string metrics_address;
    // The longest time for a task to report its address, and for a worker to log its GPUs.
    absl::Duration start_timeout = absl::Seconds(60);
    // A task that has lived so long before it died has made progress, so its earlier restarts do
    // not count: a run of weeks may lose each task many times.
    absl::Duration restarts_forgotten = absl::Hours(1);
    // The longest time for the checkpoint after a stop request.
    absl::Duration stop_timeout = absl::Seconds(60);
    // The longest time for the chief to end once others have ended because it failed the run.
    absl::Duration chief_exit_wait = absl::Seconds(1);
    // The longest time for the tasks to end after the chief.
    absl::Duration end_timeout = absl::Seconds(20);
    // The same for a worker that waits for its compute program after a run that is over.
    absl::Duration program_timeout = absl::Hours(1);
    // Borrowed.
    FileSystem* file_system = nullptr;
    ShutdownNotification* shutdown = nullptr;
    ProgressReporter* progress = nullptr;
    // The newest checkpoint in the run's directory, as far as a first look can tell; the chief
    // reads all of it, and resumes from an older one if it is damaged. Empty: there is none.
    std::string newest_checkpoint;
    // Increased for every request of a checkpoint (SIGUSR1); may be null.
    const std::atomic<int>* checkpoints_wanted = nullptr;
  };

  explicit Launcher(Options options);
  // Kills the tasks that still run.
  ~Launcher();

  // Blocks until the run is over and all children have ended. OK: trained to its end. Cancelled:
  // stopped on request. Otherwise names the task that made it fail; the code maps to its exit code.
  absl::Status Run();
  // Returns why no checkpoint could be made after the newest one; empty if none failed. Valid
  // after Run.
  const std::string& checkpoint_failure() const { return display_->checkpoint_failure(); }

 private:
  struct Task {
    TaskId id;
    std::unique_ptr<Child> child;  // Null: given up, or not started.
    uint32_t restarts = 0;         // Restarts that count against the limit.
    RestartPauses pauses;
    // When its child is killed, if it has not ended by then.
    absl::Time kill_at = absl::InfiniteFuture();
    // When the exit of its child is judged, if the chief has not ended by then.
    std::optional<absl::Time> judge_at;
    // When it is started again; its child has ended.
    std::optional<absl::Time> start_at;
    bool was_restarted = false;
    absl::Time started;  // When its child was started.
    bool ended = false;
    bool shows_gpus = false;  // True if its line about the GPUs of its host was not shown yet.
    std::string address;
    // The bytes of its log that earlier children, or earlier starts, have written.
    uint64_t log_begin = 0;
    // The incarnation that the chief last listed for this child of a ps; 0 if it listed none.
    uint64_t incarnation = 0;
    // The incarnation that the chief listed when this child was started. It belongs to an earlier
    // child, and may be listed for a while after that one's end.
    uint64_t gone = 0;
    // A worker with a compute program: the chief has listed its current child.
    bool took_part = false;
  };

  // Starts nothing more once a shutdown is requested; Watch then asks the chief for the end.
  absl::Status StartAll();
  absl::Status StartTask(Task* task);
  absl::Status AwaitAddress(Task* task);
  absl::Status WriteClusterFile() const;
  // Watches the tasks until the chief has ended, and returns its result.
  absl::Status Watch();
  absl::Status CheckTask(Task* task);
  // Returns whether the run was asked to stop or has stopped, so that tasks end with 143.
  bool IsStopping() const;
  // Forgets the restarts of a task that has lived for long.
  void ForgetRestarts(Task* task) const;
  // Reports the crash of a worker to the chief. Returns whether another process had crashed on the
  // same batch before, so that the chief can skip it.
  bool ReportCrash(TaskId worker, const ChildExit& exit);
  // Forgets the restarts after crashes on batches that the chief has skipped: they do not happen
  // again.
  void ForgetCrashesOn(const v1::RunState& state);
  // A worker has ended with an error that a restart does not mend.
  void OnWorkerFailed(Task* task, const ChildExit& exit);
  void OnWorkerDied(Task* task, const ChildExit& exit);
  absl::Status OnPsDied(Task* task, const ChildExit& exit);
  uint32_t RestartLimit(const Task& task) const;
  // Counts a restart after a process that lived for `life`, and decides when it happens. Returns
  // "" for at once, else " in 5s".
  std::string PlanRestart(Task* task, absl::Duration life);
  // Starts a task again. A start that fails counts like another death.
  absl::Status Restart(Task* task);
  // Does without a worker that was restarted too often; `what` says what happened to it. Without
  // any worker the run ends with `why`.
  void GiveUp(Task* worker, const std::string& what, const std::string& log,
              const absl::Status& why);
  // Returns the incarnation that the chief lists for the current child of this task; 0 if it lists
  // none.
  uint64_t ListedIncarnation(const Task& task, const v1::GetRunStatusResponse& status) const;
  bool HasProgram() const { return !options_.run.program().file().empty(); }
  // Notes which workers take part in a run with compute programs.
  void NoteParticipants();
  // Ends a ps that has lost its place although it lives: one that is stopped (SIGSTOP, a debugger)
  // would never come back, and the run waits for it.
  void EndPsWithoutPlace();
  // Ends the run with the error `why`, after a last checkpoint. `end` says whether the other
  // workers may still complete steps. Does nothing in a run that ends with an error already.
  void EndAfterCheckpoint(const absl::Status& why, ChiefLink::End end, const std::string& reason);
  // Returns that error with the checkpoint to resume from, and writes it to summary.json.
  absl::Status EndedAfterCheckpoint() const;
  absl::Status ChiefResult(const ChildExit& exit) const;
  // Shows what the first worker of each host says about the host's GPUs, where this process cannot
  // know it: they run on other hosts, or in a program of their own.
  void ShowGpus();
  void ShowProgress();
  void PassOnRequests();
  // Waits for the other tasks after the chief has ended and kills those that do not end in time.
  // Internal names the killed tasks; killed workers that had no part in the run's end are only
  // logged. If the run has finished, a worker whose compute program is still starting has the time
  // of any start, since the code behind the program's loop follows.
  absl::Status EndAll(absl::Duration patience, bool has_finished);
  // Returns when the compute program of this worker is ready at the latest; else the worker ends.
  absl::Time StartDeadline(const Task& worker) const;
  // Prints that the code behind the loop of a worker's compute program has not run, if the task is
  // a worker with a program.
  void WarnOfMissedEnd(const Task& task) const;
  // Waits for the end of a task until `end`; for that of a worker longer while it waits for its
  // compute program, which is then shown. `may_start`: the program may still start, and is named if
  // it takes long. A stop request ends all tasks.
  std::optional<ChildExit> AwaitEnd(const Task& task, absl::Time end, absl::Time began,
                                    bool may_start);
  size_t WorkersLeft() const;
  // Kills the task; one on another host is asked to end first, and killed a while later.
  void BeginEnd(Task* task) const;
  void End(Task* task) const;
  // Returns how the task ended; nothing while it runs. Kills it when its time is over, and does not
  // wait for ever for the end of what it has killed.
  std::optional<ChildExit> EndOf(Task* task) const;
  void PrintThatItDoesNotEnd(const Task& task) const;

  const Options options_;
  const TaskLogs logs_;
  const RealClock clock_;
  TaskDeaths deaths_;
  Task chief_;
  std::vector<Task> tasks_;  // ps, then workers.
  std::unique_ptr<ChiefLink> link_;
  std::unique_ptr<RunDisplay> display_;  // Set by Run.
  // The chief exited with 0 before it served, because nothing was left to train.
  bool nothing_to_do_ = false;
  std::string summary_before_;  // summary.json of an earlier start; "" if none.
  int checkpoints_asked_ = 0;
  // Crashes whose restart counts, or did not have to count, on batches that may be skipped.
  struct Crash {
    BatchKey batch;
    TaskId worker;
    bool counts = true;
  };
  std::vector<Crash> crashes_;
  // If not OK, the error with which the run ends once the chief has made its last checkpoint.
  absl::Status ends_with_;
  absl::Time stop_deadline_ = absl::InfiniteFuture();
};

}  // namespace shoal

#endif  // SHOAL_DEPLOY_LAUNCH_LAUNCHER_H_

// Runs a whole cluster as processes: 1 chief, P ps, N workers, all of this program, at ports that
// they choose and report back; on this machine's loopback interface, or on the hosts that
// `places` says: its children then are those that carry the tasks there. Shows progress, restarts
// what dies, stops cleanly, leaves nothing running.
#ifndef SHOAL_DEPLOY_LAUNCH_LAUNCHER_H_
#define SHOAL_DEPLOY_LAUNCH_LAUNCHER_H_

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "base/clock.h"
#include "proto/v1/run_config.pb.h"
#include "runtime/cluster/task.h"
#include "runtime/observability/metrics_tail.h"
#include "runtime/process/child.h"
#include "runtime/rpc/chief_client.h"

namespace shoal {

class ChiefLink;
class FileSystem;
class ProgressReporter;
class ShutdownNotification;
class TaskPlaces;

// Constructed and used on one thread, which must live as long as the children should: they die with
// it. What happens to whom:
//   chief ends             all are ended; its exit decides the run's
//   worker dies            restarted, max_worker_restarts times each; the others go on meanwhile
//   worker dies of SIGSEGV, SIGBUS, SIGFPE, SIGILL or SIGABRT
//                          also reported: its batch is suspect
//   ps dies                restarted, kMaxPsRestarts times each; the chief rolls the run back
//   ps loses its lease     killed, then as if it had died
//   any ends with a permanent exit code (2, 64, 65, 78)
//                          no restart: the run ends with it
//   shutdown is requested  the chief is asked for a checkpoint and the end
class Launcher {
 public:
  static constexpr uint32_t kMaxPsRestarts = 10;

  struct Options {
    std::string program;  // Path of this program.
    v1::RunConfig run;    // Resolved, NumPsProcesses > 0; `out` is absolute and holds
                          // run.textproto and logs/. Workers run its worker_binary, if it has one.
    const TaskPlaces* places = nullptr;   // Borrowed. Null: this machine, loopback addresses.
    std::vector<std::string> task_flags;  // For every task besides those it needs anyway.
    std::function<std::unique_ptr<ChiefClient>(const std::string& address)> connect;
    // The address at which the chief serves /metrics; empty: no task serves it. The other tasks
    // take free ports, on the same host or, with `places`, on the host where they listen. They
    // serve at all addresses of the host if the chief does.
    std::string metrics_address;
    absl::Duration start_timeout = absl::Seconds(60);  // For a task to say where it serves.
    absl::Duration stop_timeout = absl::Seconds(60);   // For the checkpoint after a stop request.
    absl::Duration end_timeout = absl::Seconds(20);    // For all to end after the chief has.
    // Borrowed.
    FileSystem* file_system = nullptr;
    ShutdownNotification* shutdown = nullptr;
    ProgressReporter* progress = nullptr;
    // Counted up by whoever wants a checkpoint now (SIGUSR1); may be null.
    const std::atomic<int>* checkpoints_wanted = nullptr;
  };

  explicit Launcher(Options options);
  // Kills what still runs.
  ~Launcher();

  // Blocks until the run is over and all children have ended. OK: trained to its end. Cancelled:
  // stopped on request. Otherwise names the task that made it fail; the code maps to its exit code.
  absl::Status Run();
  // Why no checkpoint could be made after the newest one; empty: none failed since. After Run.
  const std::string& checkpoint_failure() const { return checkpoint_failure_; }

 private:
  struct Task {
    TaskId id;
    std::unique_ptr<Child> child;  // Null: given up.
    uint32_t restarts = 0;
    bool ended = false;
    std::string address;
    uint64_t log_begin = 0;  // Bytes of its log that are of earlier children, or of earlier starts.
    // The incarnation that the chief last listed for this child of a ps; 0 if it listed none.
    uint64_t incarnation = 0;
    // The newest that the chief had listed when this child was started: it is of an earlier one,
    // and may be listed for a while after that one's end.
    uint64_t gone = 0;
  };

  absl::Status StartAll();
  absl::Status StartTask(Task* task);
  std::string MetricsAddress(TaskId task) const;
  absl::Status AwaitAddress(Task* task);
  absl::Status WriteClusterFile() const;
  // Watches until the chief has ended; its result.
  absl::Status Watch();
  absl::Status CheckTask(Task* task);
  // The run was asked to stop, or has: tasks end with 143 then.
  bool IsStopping() const;
  absl::Status OnWorkerDied(Task* task, const ChildExit& exit);
  absl::Status OnPsDied(Task* task, const ChildExit& exit);
  // Returns the incarnation that the chief lists for the current child of this ps; 0 if it lists
  // none.
  uint64_t ListedIncarnation(const Task& ps, const v1::GetRunStatusResponse& status) const;
  // Ends a ps that has lost its place although it lives: one that is stopped (SIGSTOP, a debugger)
  // would never come back, and the run waits for it.
  void EndPsWithoutPlace();
  // Asks the chief to keep what is there: ASYNC a checkpoint, SYNC one that is on its way.
  void OnLastWorkerLost(const Task& task, const ChildExit& exit);
  // Names the worker and the checkpoint to go on from; summary.json says so too.
  absl::Status EndedWithoutWorkers() const;
  absl::Status ChiefResult(const ChildExit& exit) const;
  // An error that quotes the last words in the task's log.
  absl::Status Failure(const Task& task, const ChildExit& exit) const;
  absl::Status Death(const Task& task, const ChildExit& exit, absl::StatusCode code) const;
  void ShowProgress();
  void PassOnRequests();
  // While lines of metrics.jsonl cannot be written: what the chief says.
  void ShowWithoutLines(const v1::GetRunStatusResponse& status);
  // Warns when checkpoints begin to fail.
  void ShowFailure(const v1::GetRunStatusResponse& status);
  // Waits for the other tasks after the chief has ended and kills those that do not end in time.
  // INTERNAL names the killed tasks; killed workers that had no part in the run's end are only
  // logged.
  absl::Status EndAll(absl::Duration patience);
  // The others finished the run without this worker: it had not registered yet, or lost its place.
  bool IsOutOfRun(TaskId worker) const;
  bool AnyWorkerLeft() const;
  std::string LogPath(TaskId task) const;
  // Prints the last lines of the log of a task that ran on another host and failed.
  void SayLog(TaskId task) const;
  void End(Child* child) const;

  const Options options_;
  const RealClock clock_;
  Task chief_;
  std::vector<Task> tasks_;  // ps, then workers.
  std::unique_ptr<ChiefLink> link_;
  std::unique_ptr<MetricsTail> metrics_;
  bool nothing_to_do_ =
      false;  // The chief exited with 0 before it served: nothing was left to train.
  std::string summary_before_;       // summary.json of an earlier start; "" if none.
  uint64_t failed_checkpoints_ = 0;  // the count that the chief last reported,
  std::string last_checkpoint_;      // and the newest that could be made.
  std::string checkpoint_failure_;
  bool metrics_fail_ =
      false;  // Lines of metrics.jsonl could not be written, as the chief last said.
  int checkpoints_asked_ = 0;
  absl::Status no_workers_;  // Not OK: none is left, and why; the chief ends the run.
  absl::Time stop_deadline_ = absl::InfiniteFuture();
};

}  // namespace shoal

#endif  // SHOAL_DEPLOY_LAUNCH_LAUNCHER_H_

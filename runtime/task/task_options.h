// The arguments of every role's entry point. The binary fills it in; the roles only read it.
//
//   absl::Status RunChief(const TaskOptions&);   chief/
//   absl::Status RunPs(const TaskOptions&);      ps/
//   absl::Status RunWorker(const TaskOptions&);  worker/ (with its model)
//   absl::Status RunLocal(const TaskOptions&);   deploy/: all in this process
//
// An entry point returns when the run is over (OK), when `shutdown` was requested and the task has
// drained (Cancelled), or with the error that ends the process; exit_code.h maps it to the exit
// code.
#ifndef SHOAL_RUNTIME_TASK_TASK_OPTIONS_H_
#define SHOAL_RUNTIME_TASK_TASK_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "proto/v1/run_config.pb.h"
#include "runtime/cluster/cluster_spec.h"
#include "runtime/cluster/local_worker.h"
#include "runtime/cluster/task.h"

namespace shoal {

class Clock;
class Credentials;
class FileSystem;
class ProgressReporter;
class ShutdownNotification;
class TaskMonitor;

struct TaskOptions {
  v1::RunConfig run;  // Resolved and validated. `run.out()` is absolute.
  // The run without defaults, if it leaves settings to its compute program: `run` has defaults in
  // their place, and may have no length, until CompleteRun.
  std::optional<v1::RunConfig> given;
  // ps, worker: the numbers of tasks in the task's flags; 0 leaves them to the chief.
  uint32_t given_num_ps_tasks = 0;
  uint32_t given_num_replicas = 0;
  TaskId task;
  std::optional<LocalWorker> local_worker;  // Absent: not a worker, or its launcher does not say.
  ClusterSpec cluster;                      // Empty if only the chief's address is known.
  // The address to serve at; port 0 means a free port. A worker serves only its health, and nothing
  // if this is empty.
  std::string listen_address;
  // The task's identity and address and their source, as JSON for the log.
  std::string place;
  // The address at which others dial a ps or chief. Port 0 stands for the port that it listens at;
  // empty means the listen address.
  std::string advertised_address;
  bool insecure = false;      // Allows addresses that other machines can reach.
  std::string chief_address;  // Empty for the chief itself and for RunLocal.
  // True for worker 0 of a cluster without a chief, which also serves the chief, at
  // `listen_address`.
  bool hosts_chief = false;
  bool was_checked = false;  // A launcher has checked the run before it started this task.
  // If >= 0, the task calls ReportAddress(report_fd, bound address) once it is serving.
  int report_fd = -1;

  // Borrowed; must outlive the call. Mutual TLS for every connection; null: plaintext.
  const Credentials* credentials = nullptr;

  // Borrowed; must outlive the call. Not null, unless said otherwise.
  const Clock* clock = nullptr;
  FileSystem* file_system = nullptr;
  ShutdownNotification* shutdown = nullptr;
  bool use_averages = false;  // Evaluator: evaluates the moving averages of the variables.
  // RunLocal and RunChief: receives every applied step; may be null.
  ProgressReporter* progress = nullptr;
  TaskMonitor* monitor = nullptr;  // Serves the role's status and metrics; may be null.
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_TASK_TASK_OPTIONS_H_

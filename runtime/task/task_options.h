// The arguments of every role's entry point. The binary fills it in; the roles only read it.
//
//   absl::Status RunChief(const TaskOptions&);   chief/
//   absl::Status RunPs(const TaskOptions&);      ps/
//   absl::Status RunWorker(const TaskOptions&);  worker/ (with its model)
//   absl::Status RunLocal(const TaskOptions&);   deploy/: all in this process
//
// An entry point returns when the run is over (OK), when `shutdown` was notified and it has drained
// (Cancelled), or with the error that ends the process; exit_code.h says which code follows.
#ifndef SHOAL_RUNTIME_TASK_TASK_OPTIONS_H_
#define SHOAL_RUNTIME_TASK_TASK_OPTIONS_H_

#include <cstdint>
#include <string>

#include "proto/v1/run_config.pb.h"
#include "runtime/cluster/cluster_spec.h"
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
  // ps, worker: how many tasks of each job the task was told of; 0: that is left to the chief.
  uint32_t told_num_ps_tasks = 0;
  uint32_t told_num_replicas = 0;
  TaskId task;
  ClusterSpec cluster;         // Empty where only the chief's address is known.
  std::string listen_address;  // Where to serve; port 0: any free one. A worker serves only its
                               // health, and nothing where this is empty.
  std::string place;           // Who and where the task is, and who says so: JSON, for the log.
  // What others dial, of a ps or chief; port 0: the one it listens at; empty: where it listens.
  std::string advertised_address;
  bool insecure = false;      // May serve where other machines can connect.
  std::string chief_address;  // Empty for the chief itself and for RunLocal.
  bool hosts_chief = false;   // Worker 0 of a cluster without a chief: serve the chief as well, at
                              // `listen_address`.
  int report_fd = -1;  // When >= 0: call ReportAddress(report_fd, bound address) once serving.

  // Borrowed, outlives the call: mutual TLS on every connection. Null: plaintext.
  const Credentials* credentials = nullptr;

  // Borrowed, outlive the call, never null (except `progress`).
  const Clock* clock = nullptr;
  FileSystem* file_system = nullptr;
  ShutdownNotification* shutdown = nullptr;
  ProgressReporter* progress =
      nullptr;                     // RunLocal and RunChief: gets every applied step; may be null.
  TaskMonitor* monitor = nullptr;  // Shows what the role shows of itself; may be null.
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_TASK_TASK_OPTIONS_H_

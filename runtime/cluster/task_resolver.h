// Determines which task this is and the addresses of the others, from flags or from a launcher's
// environment variables. The functions are pure, so that every launcher is tested without one.
//
// The first source that matches wins, from the most explicit to the outermost launcher:
//   flags       host lists, or --task_index with --chief_host=HOST:PORT
//   file        --cluster=FILE
//   tf_config   TF_CONFIG (TFJob, Volcano, Vertex)
//   jobset      JOBSET_NAME, REPLICATED_JOB_NAME, JOB_COMPLETION_INDEX
//   kubernetes  JOB_COMPLETION_INDEX of an Indexed Job
//   mpi         OMPI_COMM_WORLD_RANK (Open MPI)
//   torchrun    RANK, WORLD_SIZE, MASTER_ADDR (also PyTorchJob)
//   slurm       SLURM_PROCID inside a step
//   kubernetes  the ordinal at the end of a StatefulSet pod's host name
#ifndef SHOAL_RUNTIME_CLUSTER_TASK_RESOLVER_H_
#define SHOAL_RUNTIME_CLUSTER_TASK_RESOLVER_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "runtime/cluster/cluster_spec.h"
#include "runtime/cluster/environment.h"
#include "runtime/cluster/task.h"

namespace shoal {

enum class ClusterSource : uint8_t {
  kAuto,  // The first one that matches.
  kFlags,
  kFile,
  kTfConfig,
  kJobSet,
  kKubernetes,
  kMpi,
  kTorchrun,
  kSlurm,
};

absl::string_view ClusterSourceName(ClusterSource source);  // "tf_config"
// InvalidArgument lists the names.
absl::StatusOr<ClusterSource> ParseClusterSource(absl::string_view name);

// The input of the resolver. Empty, 0 or absent: not given.
struct ResolverInput {
  ClusterSource from = ClusterSource::kAuto;
  std::optional<Job> job;  // The command's job or --job_name.
  std::optional<uint32_t> task_index;
  std::string cluster_file;
  std::string ps_hosts;
  std::string worker_hosts;
  std::string chief_host;      // host:port; under a launcher also a host alone.
  std::string listen_address;  // Used only to see whether it is given, for a chief started by hand.
  uint32_t chief_port = 0;
  std::optional<uint32_t> num_ps_tasks;  // Numbers in flags and run file.
  std::optional<uint32_t> num_replicas;
  std::string hostname;  // Name of this machine or pod.
  Environment environment;
};

struct ResolvedTask {
  ClusterSource source = ClusterSource::kFlags;
  TaskId task;
  ClusterSpec cluster;      // Empty where tasks find each other through the chief.
  std::string own_address;  // Address at which others find this task; empty: unknown.
  // Address to serve at if no flag says it; empty: unknown, or a worker without an address.
  std::string listen_address;
  std::string chief_address;  // The chief's address for this task; empty for the chief.
  bool hosts_chief = false;   // A worker that serves the chief as well, at `listen_address`.
  uint32_t num_ps_tasks = 0;  // Derived from the launcher's numbers; 0: unknown.
  uint32_t num_replicas = 0;
};

// InvalidArgument names the flag or variable and the remedy; NotFound: --cluster cannot be read.
absl::StatusOr<ResolvedTask> ResolveTaskPlace(const ResolverInput& input);

// Returns whether the process that started this one is a launcher that leaves its tasks running
// when it is killed: Open MPI's or torchrun's. Slurm and Kubernetes end theirs. Variables that were
// set by hand do not count.
bool LauncherIsParent(const Environment& environment);

// Returns the result of ResolveTaskPlace as one line of JSON, for the log.
std::string ToJson(const ResolvedTask& resolved);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_CLUSTER_TASK_RESOLVER_H_

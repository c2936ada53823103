// Derives from a task's identity which address it dials, where it serves and whether it hosts the
// chief. Used only by the sources of task_resolver.h.
#ifndef SHOAL_RUNTIME_CLUSTER_TASK_PLACE_H_
#define SHOAL_RUNTIME_CLUSTER_TASK_PLACE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "runtime/cluster/task_resolver.h"

namespace shoal {

// Returns the chief's address. Its host is --chief_host or, if that is not given, `launcher_host`,
// which is empty if unknown; if the host has no port, it gets --chief_port or else `port`. Returns
// InvalidArgument if a port is given twice, or, with `remedy`, if no host is known.
absl::StatusOr<std::string> ChiefAddress(const ResolverInput& input,
                                         absl::string_view launcher_host, uint32_t port,
                                         absl::string_view remedy);

// Resolves a task of a cluster with host lists. If `anywhere`, the task serves at its port on all
// local addresses; a pod needs this while its name cannot be resolved yet.
absl::StatusOr<ResolvedTask> PlaceInCluster(ClusterSource source, TaskId task, ClusterSpec cluster,
                                            bool anywhere);

// Resolves a task that knows only the chief's address. The chief, or the worker that hosts it,
// serves at that address.
ResolvedTask PlaceByChief(ClusterSource source, TaskId task, const std::string& chief_address,
                          bool hosts_chief);

// The number that a launcher gave this process among the processes of all jobs.
struct Rank {
  ClusterSource source = ClusterSource::kSlurm;
  const char* name = "";  // name of the environment variable
  // The rank, from 0; the other processes look for the chief at rank 0.
  uint32_t rank = 0;
  uint32_t size = 0;                   // the number of processes of all jobs together
  const char* remedy = "";             // Remedy for a missing --task_index.
  std::optional<uint32_t> part_index;  // Index within its part of the command line.
  // True if all processes have the same command line. Then the index of a task in a job whose chief
  // is elsewhere is its rank.
  bool of_one_program = false;
  std::string chief_address;
};

// The rank rule. Without a job: ranks 0..W-1 are workers, the last num_ps_tasks ranks are ps, and
// rank 0, worker 0, hosts the chief. With one: rank 0 is the chief, or worker 0, which hosts it
// unless --chief_host names another host.
absl::StatusOr<ResolvedTask> PlaceByRank(const ResolverInput& input, const Rank& rank);

// The sources; each is called only for input that it matches.
absl::StatusOr<ResolvedTask> ResolveFromLists(const ResolverInput& input);
absl::StatusOr<ResolvedTask> ResolveFromTfConfig(const ResolverInput& input);
absl::StatusOr<ResolvedTask> ResolveFromJobSet(const ResolverInput& input);
absl::StatusOr<ResolvedTask> ResolveFromKubernetes(const ResolverInput& input);
absl::StatusOr<ResolvedTask> ResolveFromMpi(const ResolverInput& input);
absl::StatusOr<ResolvedTask> ResolveFromTorchrun(const ResolverInput& input);
absl::StatusOr<ResolvedTask> ResolveFromSlurm(const ResolverInput& input);

// Returns whether the text is a host without a port: it has no colon, or it is an IPv6 address
// without brackets.
bool IsHostAlone(absl::string_view text);

// Returns whether the host of `address`, "host:port", is this one, ignoring domains. False for an
// IP address.
bool IsOwnHost(absl::string_view address, absl::string_view hostname);

// Returns the number after the last '-' of a host name without its domain, such as 3 for
// "train-ps-3.train".
std::optional<uint32_t> HostOrdinal(absl::string_view hostname);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_CLUSTER_TASK_PLACE_H_

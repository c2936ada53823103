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

// --chief_host if it is given, else `launcher_host` (may be empty: unknown); --chief_port, if one
// is needed, else `port`. InvalidArgument: a port that is given twice, or no address at all, with
// `remedy`.
absl::StatusOr<std::string> ChiefAddress(const ResolverInput& input,
                                         absl::string_view launcher_host, uint32_t port,
                                         absl::string_view remedy);

// A task of a cluster with host lists. `anywhere`: serve at the own port of every local address, as
// a pod whose name is not known yet has to.
absl::StatusOr<ResolvedTask> PlaceInCluster(ClusterSource source, TaskId task, ClusterSpec cluster,
                                            bool anywhere);

// A task that knows only the chief's address; the chief, or the worker that hosts it, serves there.
ResolvedTask PlaceByChief(ClusterSource source, TaskId task, const std::string& chief_address,
                          bool hosts_chief);

// A process that a launcher has numbered through all jobs.
struct Rank {
  ClusterSource source = ClusterSource::kSlurm;
  const char* name = "";               // of the variable
  uint32_t rank = 0;                   // 0 is where the others look for the chief
  uint32_t size = 0;                   // of all jobs together
  const char* remedy = "";             // Remedy for a missing --task_index.
  std::optional<uint32_t> part_index;  // Index within its part of the command line.
  // All processes have one command line: the index in a job whose chief is elsewhere is the rank.
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

// A host without a port: no colon, or those of an IPv6 address without brackets.
bool IsHostAlone(absl::string_view text);

// Returns whether the host of `address`, "host:port", is this one, ignoring domains. False for an
// IP address.
bool IsOwnHost(absl::string_view address, absl::string_view hostname);

// The number after the last '-' of a host name, without its domain: 3 of "train-ps-3.train".
std::optional<uint32_t> HostOrdinal(absl::string_view hostname);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_CLUSTER_TASK_PLACE_H_

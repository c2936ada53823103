// Resolves tasks of launchers that number processes: Open MPI, torchrun, Slurm.
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "base/hash.h"
#include "base/status_macros.h"
#include "runtime/cluster/slurm_lists.h"
#include "runtime/cluster/task_place.h"
#include "runtime/config/rule.h"

namespace shoal {
namespace {

// The ports are below those that Linux gives to clients. Two jobs on one node seldom differ by
// 10000.
uint32_t PortOfJob(uint64_t job) { return 15000 + static_cast<uint32_t>(job % 10000); }

// Returns the port for a job's name. Numbers keep their order, so that consecutive jobs do not
// collide. In Open MPI's names the upper half identifies the mpirun, the lower half its jobs.
uint32_t PortOfName(absl::string_view job) {
  uint64_t number = 0;
  if (!absl::SimpleAtoi(job, &number)) return PortOfJob(Fingerprint64(job));
  return PortOfJob((number >> 16) + (number & 0xffff));
}

// torchrun itself listens at MASTER_PORT. The next port is free for the chief, unless torchrun
// chose a free port itself; then the next one goes to the next client.
uint32_t PortBeside(uint32_t master_port) {
  constexpr uint32_t kFirstOfClients = 32768;
  return master_port < kFirstOfClients ? master_port + 1 : PortOfJob(master_port);
}

constexpr absl::string_view kThisHost = "127.0.0.1";

// Returns whether `variable`, the number of processes on this host, is the number of all processes.
bool AllAreHere(const Environment& environment, absl::string_view variable, uint32_t size) {
  uint32_t here = 0;
  return absl::SimpleAtoi(GetValue(environment, variable), &here) && here == size;
}

// `mpirun -n 1 shoal chief : -n 2 shoal ps : -n 4 shoal worker`: the number within its part.
absl::StatusOr<std::optional<uint32_t>> IndexInPart(const Environment& environment, uint32_t rank) {
  constexpr char kSizes[] = "OMPI_APP_CTX_NUM_PROCS";
  constexpr char kPart[] = "OMPI_MCA_orte_app_num";
  if (!IsSet(environment, kSizes) || !IsSet(environment, kPart)) {
    return std::optional<uint32_t>();
  }
  ASSIGN_OR_RETURN(const uint32_t part, NumberVariable(environment, kPart));
  std::vector<std::string> sizes =
      absl::StrSplit(GetValue(environment, kSizes), ' ', absl::SkipEmpty());
  uint32_t before = 0;
  for (uint32_t i = 0; i < part; ++i) {
    uint32_t size = 0;
    if (i >= sizes.size() || !absl::SimpleAtoi(sizes[i], &size)) {
      return InvalidField(kSizes,
                          absl::StrCat("\"", GetValue(environment, kSizes), "\" has no number ", i,
                                       ", but this is part ", part));
    }
    before += size;
  }
  if (rank < before) {
    return InvalidField(kSizes, absl::StrCat("\"", GetValue(environment, kSizes), "\" puts part ",
                                             part, " behind rank ", rank));
  }
  return std::optional<uint32_t>(rank - before);
}

// Slurm decides where each task runs; this only checks that its numbers agree.
absl::StatusOr<uint32_t> SlurmTasks(const Environment& environment, size_t nodes) {
  constexpr char kPerNode[] = "SLURM_STEP_TASKS_PER_NODE";
  const bool listed = IsSet(environment, kPerNode);
  uint32_t tasks = 0;
  if (listed) {
    ASSIGN_OR_RETURN(const std::vector<uint32_t> counts,
                     ParseTasksPerNode(kPerNode, GetValue(environment, kPerNode)));
    if (counts.size() != nodes) {
      return InvalidField(
          kPerNode, absl::StrCat("\"", GetValue(environment, kPerNode), "\" is for ", counts.size(),
                                 " nodes, but SLURM_STEP_NODELIST has ", nodes));
    }
    tasks = std::accumulate(counts.begin(), counts.end(), uint32_t{0});
  }
  const char* const total =
      IsSet(environment, "SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
  if (listed && !IsSet(environment, total)) return tasks;
  ASSIGN_OR_RETURN(const uint32_t listed_tasks, NumberVariable(environment, total));
  if (listed && listed_tasks != tasks) {
    return InvalidField(
        total, absl::StrCat("is ", listed_tasks, ", but ", kPerNode, " adds up to ", tasks));
  }
  return listed_tasks;
}

}  // namespace

absl::StatusOr<ResolvedTask> ResolveFromMpi(const ResolverInput& input) {
  const Environment& environment = input.environment;
  Rank rank;
  rank.source = ClusterSource::kMpi;
  rank.name = "OMPI_COMM_WORLD_RANK";
  ASSIGN_OR_RETURN(rank.rank, NumberVariable(environment, rank.name));
  ASSIGN_OR_RETURN(rank.size, NumberVariable(environment, "OMPI_COMM_WORLD_SIZE"));
  if (input.job.has_value()) {
    ASSIGN_OR_RETURN(rank.part_index, IndexInPart(environment, rank.rank));
  }
  rank.of_one_program = GetValue(environment, "OMPI_NUM_APP_CTX").empty() ||
                        GetValue(environment, "OMPI_NUM_APP_CTX") == "1";
  rank.remedy = "give it, or start all tasks with one mpirun";
  // Open MPI tells nobody the hosts.
  const bool one_host = AllAreHere(environment, "OMPI_COMM_WORLD_LOCAL_SIZE", rank.size);
  ASSIGN_OR_RETURN(rank.chief_address,
                   ChiefAddress(input, one_host ? kThisHost : "",
                                PortOfName(GetValue(environment, "PMIX_NAMESPACE")),
                                "mpirun does not provide it and the tasks are on several hosts; "
                                "name the host of rank 0"));
  return PlaceByRank(input, rank);
}

absl::StatusOr<ResolvedTask> ResolveFromTorchrun(const ResolverInput& input) {
  const Environment& environment = input.environment;
  Rank rank;
  rank.source = ClusterSource::kTorchrun;
  rank.name = "RANK";
  ASSIGN_OR_RETURN(rank.rank, NumberVariable(environment, rank.name));
  ASSIGN_OR_RETURN(rank.size, NumberVariable(environment, "WORLD_SIZE"));
  rank.of_one_program = true;
  rank.remedy = "give it, or let RANK decide by `shoal task`";
  uint32_t port = PortOfName(GetValue(environment, "TORCHELASTIC_RUN_ID"));
  if (IsSet(environment, "MASTER_PORT")) {
    ASSIGN_OR_RETURN(port, NumberVariable(environment, "MASTER_PORT"));
    if (IsSet(environment, "TORCHELASTIC_RUN_ID")) port = PortBeside(port);
  }
  // A host whose own name would make the tasks serve the whole network.
  const bool one_host = AllAreHere(environment, "LOCAL_WORLD_SIZE", rank.size);
  ASSIGN_OR_RETURN(
      rank.chief_address,
      ChiefAddress(input, one_host ? kThisHost : GetValue(environment, "MASTER_ADDR"), port, ""));
  return PlaceByRank(input, rank);
}

absl::StatusOr<ResolvedTask> ResolveFromSlurm(const ResolverInput& input) {
  const Environment& environment = input.environment;
  Rank rank;
  rank.source = ClusterSource::kSlurm;
  rank.name = "SLURM_PROCID";
  ASSIGN_OR_RETURN(rank.rank, NumberVariable(environment, rank.name));
  constexpr char kNodes[] = "SLURM_STEP_NODELIST";
  ASSIGN_OR_RETURN(const std::vector<std::string> nodes,
                   ParseNodeList(kNodes, GetValue(environment, kNodes)));
  ASSIGN_OR_RETURN(rank.size, SlurmTasks(environment, nodes.size()));
  ASSIGN_OR_RETURN(const uint32_t job, NumberVariable(environment, "SLURM_JOB_ID"));
  // srun --multi-prog is not visible in the environment: neither that it was used nor the number
  // within a program.
  rank.remedy = "with srun --multi-prog write --task_index=%o, else --task_index=$SLURM_PROCID";
  const bool arbitrary = GetValue(environment, "SLURM_DISTRIBUTION") == "arbitrary";
  ASSIGN_OR_RETURN(rank.chief_address,
                   ChiefAddress(input, arbitrary ? "" : nodes[0], PortOfJob(job),
                                "with --distribution=arbitrary the host of task 0 is unknown"));
  return PlaceByRank(input, rank);
}

}  // namespace shoal

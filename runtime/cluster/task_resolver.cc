#include "runtime/cluster/task_resolver.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "base/json.h"
#include "base/status_macros.h"
#include "runtime/cluster/task_place.h"
#include "runtime/config/rule.h"

namespace shoal {
namespace {

bool Has(const ResolverInput& input, absl::string_view variable) {
  return IsSet(input.environment, variable);
}

bool HasLists(const ResolverInput& input) {
  return !input.ps_hosts.empty() || !input.worker_hosts.empty();
}

// --chief_host alone is completed by a launcher's numbers, and so is one without a port.
bool MatchesFlags(const ResolverInput& input) {
  if (!input.cluster_file.empty()) return false;
  const bool has_chief =
      !input.chief_host.empty() && (!IsHostAlone(input.chief_host) || input.chief_port != 0);
  const bool by_hand = input.job == Job::kChief ? !input.listen_address.empty() || has_chief
                                                : input.task_index.has_value() && has_chief;
  return HasLists(input) || by_hand || input.job == Job::kEvaluator;
}

bool IsIndexedJob(const ResolverInput& input) { return Has(input, "JOB_COMPLETION_INDEX"); }

bool IsTaskOfStatefulSet(const ResolverInput& input) {
  return Has(input, "KUBERNETES_SERVICE_HOST") && input.job.has_value() &&
         HostOrdinal(input.hostname).has_value();
}

// For --cluster_from=kubernetes, which means that this is a pod.
bool IsPod(const ResolverInput& input) {
  return IsIndexedJob(input) || input.task_index.has_value() || input.job == Job::kChief ||
         input.job == Job::kEvaluator || HostOrdinal(input.hostname).has_value();
}

struct Source {
  ClusterSource source;
  const char* name;
  bool (*matches)(const ResolverInput&);         // among the others
  bool (*matches_forced)(const ResolverInput&);  // when --cluster_from names it
  const char* wants;                             // The condition that must hold for a match.
  absl::StatusOr<ResolvedTask> (*resolve)(const ResolverInput&);
};

// The variables that a launcher always sets together.
struct LauncherVariables {
  const char* names[3];
  const char* remedy;
};

constexpr LauncherVariables kJobSetVariables = {
    {"JOBSET_NAME", "REPLICATED_JOB_NAME", "JOB_COMPLETION_INDEX"},
    "take them from the pod's labels and annotations"};
constexpr LauncherVariables kTorchrunVariables = {{"RANK", "WORLD_SIZE", "MASTER_ADDR"},
                                                  "start the task with torchrun --no-python"};
// A batch script has SLURM_PROCID too, but is not a step.
constexpr LauncherVariables kSlurmVariables = {
    {"SLURM_PROCID", "SLURM_JOB_ID", "SLURM_STEP_NODELIST"}, "start the task with srun"};

bool HasAll(const ResolverInput& input, const LauncherVariables& variables) {
  return std::all_of(std::begin(variables.names), std::end(variables.names),
                     [&input](const char* name) { return Has(input, name); });
}

// "SLURM_PROCID is set, but SLURM_JOB_ID and SLURM_STEP_NODELIST are not; start ..." for each
// launcher that set only some; "" without such.
std::string HalfSet(const ResolverInput& input) {
  std::string text;
  for (const LauncherVariables& launcher :
       {kJobSetVariables, kTorchrunVariables, kSlurmVariables}) {
    std::vector<absl::string_view> set, missing;
    for (const char* name : launcher.names) (Has(input, name) ? set : missing).push_back(name);
    if (set.empty() || missing.empty()) continue;
    absl::StrAppend(&text, text.empty() ? "" : "; ", absl::StrJoin(set, " and "),
                    set.size() == 1 ? " is" : " are", " set, but ", absl::StrJoin(missing, " and "),
                    missing.size() == 1 ? " is" : " are", " not: ", launcher.remedy);
  }
  return text;
}

absl::Status NothingToGoBy(const ResolverInput& input) {
  const std::string half_set = HalfSet(input);
  if (!half_set.empty())
    return InvalidField("--job_name", absl::StrCat("is missing, and ", half_set));
  return InvalidField(
      "--job_name",
      "is missing, and no launcher's variables say which task this is: TF_CONFIG, "
      "JOB_COMPLETION_INDEX, OMPI_COMM_WORLD_RANK, RANK or SLURM_PROCID; give --job_name and "
      "--task_index");
}

bool HasFile(const ResolverInput& input) { return !input.cluster_file.empty(); }
bool Always(const ResolverInput& /*input*/) { return true; }
bool HasTfConfig(const ResolverInput& input) {
  const absl::string_view text = GetValue(input.environment, "TF_CONFIG");
  return !text.empty() && text != "{}";
}
bool IsJobSet(const ResolverInput& input) { return HasAll(input, kJobSetVariables); }
bool IsMpi(const ResolverInput& input) { return Has(input, "OMPI_COMM_WORLD_RANK"); }
bool IsTorchrun(const ResolverInput& input) { return HasAll(input, kTorchrunVariables); }
bool IsSlurmStep(const ResolverInput& input) { return HasAll(input, kSlurmVariables); }

constexpr Source kSources[] = {
    {ClusterSource::kFlags, "flags", &MatchesFlags, &Always, "", &ResolveFromLists},
    {ClusterSource::kFile, "file", &HasFile, &HasFile, "--cluster is not given; name the file",
     &ResolveFromLists},
    {ClusterSource::kTfConfig, "tf_config", &HasTfConfig, &HasTfConfig,
     "TF_CONFIG is not set; let the operator set it, or drop the flag", &ResolveFromTfConfig},
    {ClusterSource::kJobSet, "jobset", &IsJobSet, &IsJobSet,
     "JOBSET_NAME, REPLICATED_JOB_NAME or JOB_COMPLETION_INDEX is not set; take them from the "
     "pod's labels and annotations",
     &ResolveFromJobSet},
    {ClusterSource::kKubernetes, "kubernetes", &IsIndexedJob, &IsPod,
     "JOB_COMPLETION_INDEX is not set and the host name ends with no -N; give --task_index",
     &ResolveFromKubernetes},
    {ClusterSource::kMpi, "mpi", &IsMpi, &IsMpi,
     "OMPI_COMM_WORLD_RANK is not set; start the task with Open MPI's mpirun", &ResolveFromMpi},
    {ClusterSource::kTorchrun, "torchrun", &IsTorchrun, &IsTorchrun,
     "RANK, WORLD_SIZE or MASTER_ADDR is not set; start the task with torchrun --no-python",
     &ResolveFromTorchrun},
    {ClusterSource::kSlurm, "slurm", &IsSlurmStep, &IsSlurmStep,
     "SLURM_PROCID, SLURM_JOB_ID or SLURM_STEP_NODELIST is not set; start the task with srun",
     &ResolveFromSlurm},
    // The least certain sign, so the last.
    {ClusterSource::kKubernetes, "kubernetes", &IsTaskOfStatefulSet, &IsPod, "",
     &ResolveFromKubernetes},
};

}  // namespace

absl::string_view ClusterSourceName(ClusterSource source) {
  for (const Source& known : kSources) {
    if (known.source == source) return known.name;
  }
  return "auto";
}

absl::StatusOr<ClusterSource> ParseClusterSource(absl::string_view name) {
  if (name.empty() || name == "auto") return ClusterSource::kAuto;
  for (const Source& known : kSources) {
    if (name == known.name) return known.source;
  }
  return InvalidField(
      "--cluster_from",
      absl::StrCat("\"", name,
                   "\" is unknown; it is one of auto, flags, file, tf_config, jobset, "
                   "kubernetes, mpi, torchrun, slurm"));
}

absl::StatusOr<ResolvedTask> ResolveTaskPlace(const ResolverInput& input) {
  if (HasFile(input) && (HasLists(input) || !input.chief_host.empty())) {
    return InvalidField(
        "--cluster",
        "is given together with --ps_hosts, --worker_hosts or --chief_host; use one form");
  }
  for (const Source& known : kSources) {
    if (input.from == ClusterSource::kAuto) {
      if (known.matches(input)) return known.resolve(input);
    } else if (input.from == known.source) {
      if (known.matches_forced(input)) return known.resolve(input);
      return InvalidField("--cluster_from", absl::StrCat("is ", known.name, ", but ", known.wants));
    }
  }
  if (!input.job.has_value()) return NothingToGoBy(input);
  return ResolveFromLists(input);
}

bool LauncherIsParent(const Environment& environment) {
  return IsSet(environment, "OMPI_COMM_WORLD_RANK") || IsSet(environment, "TORCHELASTIC_RUN_ID");
}

std::string ToJson(const ResolvedTask& resolved) {
  JsonObject json;
  json.Add("source", ClusterSourceName(resolved.source))
      .Add("job", JobName(resolved.task.job))
      .Add("index", uint64_t{resolved.task.index});
  const auto add = [&json](absl::string_view name, absl::string_view value) {
    if (!value.empty()) json.Add(name, value);
  };
  add("chief", resolved.chief_address);
  if (resolved.hosts_chief) json.Add("hosts_chief", uint64_t{1});
  add("own", resolved.own_address);
  add("listen", resolved.listen_address);
  if (resolved.num_ps_tasks > 0) json.Add("num_ps_tasks", uint64_t{resolved.num_ps_tasks});
  if (resolved.num_replicas > 0) json.Add("num_replicas", uint64_t{resolved.num_replicas});
  add("ps", absl::StrJoin(resolved.cluster.ps(), ","));
  add("workers", absl::StrJoin(resolved.cluster.workers(), ","));
  return json.ToString();
}

}  // namespace shoal

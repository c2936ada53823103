// Resolves tasks in pods of Indexed Jobs, StatefulSets and JobSets.
#include <string>

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "runtime/cluster/task_place.h"
#include "runtime/config/rule.h"

namespace shoal {
namespace {

// The port in the manifests, also those of TFJob.
constexpr uint32_t kPort = 2222;

absl::StatusOr<ResolvedTask> PlacePod(const ResolverInput& input, ClusterSource source, TaskId task,
                                      absl::string_view chief_host) {
  if (task.job == Job::kEvaluator) return PlaceByChief(source, task, "", false);
  const bool is_chief = task.job == Job::kChief;
  ASSIGN_OR_RETURN(
      const std::string chief,
      ChiefAddress(input, is_chief && chief_host.empty() ? input.hostname : chief_host, kPort,
                   "name the pod that is the chief, such as train-chief-0.train"));
  const bool hosts_chief = task == TaskId{Job::kWorker, 0} && IsOwnHost(chief, input.hostname);
  return PlaceByChief(source, task, chief, hosts_chief);
}

}  // namespace

absl::StatusOr<ResolvedTask> ResolveFromKubernetes(const ResolverInput& input) {
  if (!input.job.has_value()) {
    return InvalidField("--job_name", "is missing; a pod's index does not say which job it is of");
  }
  TaskId task{*input.job, input.task_index.value_or(0)};
  const bool has_index = input.job == Job::kPs || input.job == Job::kWorker;
  if (has_index && !input.task_index.has_value()) {
    if (IsSet(input.environment, "JOB_COMPLETION_INDEX")) {
      ASSIGN_OR_RETURN(task.index, NumberVariable(input.environment, "JOB_COMPLETION_INDEX"));
    } else {
      const std::optional<uint32_t> ordinal = HostOrdinal(input.hostname);
      if (!ordinal.has_value()) {
        return InvalidField("--task_index",
                            absl::StrCat("is missing, and the host name ", input.hostname,
                                         " does not end in -N; give it"));
      }
      task.index = *ordinal;
    }
  }
  return PlacePod(input, ClusterSource::kKubernetes, task, "");
}

absl::StatusOr<ResolvedTask> ResolveFromJobSet(const ResolverInput& input) {
  const Environment& environment = input.environment;
  const absl::string_view name = GetValue(environment, "REPLICATED_JOB_NAME");
  absl::StatusOr<Job> job = ParseJob(name);
  if (!job.ok() && !input.job.has_value()) {
    return InvalidField("REPLICATED_JOB_NAME", job.status().message());
  }
  if (job.ok() && input.job.has_value() && *job != *input.job) {
    return InvalidField("--job_name", absl::StrCat("is ", JobName(*input.job),
                                                   ", but REPLICATED_JOB_NAME is ", name));
  }
  TaskId task{input.job.has_value() ? *input.job : *job, 0};
  ASSIGN_OR_RETURN(task.index, NumberVariable(environment, "JOB_COMPLETION_INDEX"));
  uint32_t replica = 0;
  if (IsSet(environment, "JOB_INDEX")) {
    ASSIGN_OR_RETURN(replica, NumberVariable(environment, "JOB_INDEX"));
  }
  if (replica > 0) {
    if (!IsSet(environment, "PODS_PER_JOB")) {
      return InvalidField(
          "PODS_PER_JOB",
          absl::StrCat("is not set, but JOB_INDEX is ", replica,
                       "; set it to the job's completions, or use one job of many pods"));
    }
    ASSIGN_OR_RETURN(const uint32_t pods, NumberVariable(environment, "PODS_PER_JOB"));
    task.index += replica * pods;
  }
  const absl::string_view jobset = GetValue(environment, "JOBSET_NAME");
  std::string chief(GetValue(environment, "JOBSET_COORDINATOR"));
  if (chief.empty()) chief = absl::StrCat(jobset, "-chief-0-0.", jobset);
  return PlacePod(input, ClusterSource::kJobSet, task, chief);
}

}  // namespace shoal

// Resolves tasks from flags with host lists and from cluster files.
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "runtime/cluster/task_place.h"
#include "runtime/config/rule.h"

namespace shoal {
namespace {

// Returns --task_index, or 0 if no other index is possible.
absl::StatusOr<TaskId> ListedTask(const ResolverInput& input, const ClusterSpec& cluster) {
  if (!input.job.has_value()) {
    return InvalidField("--job_name", "is missing; say which job this task is of");
  }
  const Job job = *input.job;
  const TaskId task{job, input.task_index.value_or(0)};
  if (job == Job::kEvaluator) return task;
  if (job == Job::kChief) {
    if (task.index == 0) return task;
    return InvalidField("--task_index",
                        absl::StrCat("is ", task.index, "; the only chief is task 0"));
  }
  const size_t tasks = job == Job::kPs ? cluster.ps().size() : cluster.workers().size();
  if (!input.task_index.has_value() && tasks != 1) {
    return InvalidField("--task_index", absl::StrCat("is missing; say which task of job ",
                                                     JobName(job), " this is, from 0"));
  }
  return task;
}

}  // namespace

absl::StatusOr<ResolvedTask> ResolveFromLists(const ResolverInput& input) {
  const bool file = !input.cluster_file.empty();
  ClusterSpec cluster;
  if (file) {
    ASSIGN_OR_RETURN(cluster, ClusterSpec::FromFile(input.cluster_file));
  } else {
    std::string chief_host = input.chief_host;
    if (input.chief_port != 0 && !chief_host.empty()) {
      ASSIGN_OR_RETURN(chief_host, ChiefAddress(input, "", input.chief_port, ""));
    }
    ASSIGN_OR_RETURN(cluster,
                     ClusterSpec::FromHostLists(input.ps_hosts, input.worker_hosts, chief_host));
  }
  ASSIGN_OR_RETURN(const TaskId task, ListedTask(input, cluster));
  ASSIGN_OR_RETURN(ResolvedTask resolved,
                   PlaceInCluster(file ? ClusterSource::kFile : ClusterSource::kFlags, task,
                                  std::move(cluster), /*anywhere=*/false));
  // A chief that only knows its port.
  if (task.job == Job::kChief && resolved.listen_address.empty() && input.chief_port != 0) {
    resolved.listen_address = absl::StrCat("0.0.0.0:", input.chief_port);
  }
  return resolved;
}

}  // namespace shoal

#include "runtime/cluster/task_place.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "runtime/cluster/address.h"
#include "runtime/config/rule.h"

namespace shoal {
namespace {

// Returns the default listen address of a ps: any free port, for others on this host or for all.
std::string AnyPortToward(const std::string& chief_address) {
  return IsLoopbackAddress(chief_address) ? "127.0.0.1:0" : "0.0.0.0:0";
}

absl::StatusOr<TaskId> FlatTask(const ResolverInput& input, const Rank& rank) {
  const std::string world = absl::StrCat(rank.size, " processes");
  if (!input.num_ps_tasks.has_value()) {
    return InvalidField("--num_ps_tasks", absl::StrCat("is missing; say how many of the ", world,
                                                       " are parameter servers, the last ones"));
  }
  const uint32_t ps = *input.num_ps_tasks;
  if (ps == 0 || ps >= rank.size) {
    return InvalidField(
        "--num_ps_tasks",
        absl::StrCat("is ", ps, ", but ", world,
                     " were started; at least one must be a parameter server and one a "
                     "worker"));
  }
  const uint32_t workers = rank.size - ps;
  if (input.num_replicas.has_value() && *input.num_replicas != workers) {
    return InvalidField("--num_replicas", absl::StrCat("is ", *input.num_replicas, ", but ", world,
                                                       " and num_ps_tasks=", ps, " leave ", workers,
                                                       "; start as many processes or drop it"));
  }
  if (rank.rank < workers) return TaskId{Job::kWorker, rank.rank};
  return TaskId{Job::kPs, rank.rank - workers};
}

absl::StatusOr<TaskId> PartTask(const ResolverInput& input, const Rank& rank) {
  const Job job = *input.job;
  if (job == Job::kChief || job == Job::kEvaluator) return TaskId{job, 0};
  if (input.task_index.has_value()) return TaskId{job, *input.task_index};
  if (rank.part_index.has_value()) return TaskId{job, *rank.part_index};
  if (rank.of_one_program && !input.chief_host.empty()) return TaskId{job, rank.rank};
  return InvalidField("--task_index", absl::StrCat("is missing; ", rank.remedy));
}

}  // namespace

absl::StatusOr<std::string> ChiefAddress(const ResolverInput& input,
                                         absl::string_view launcher_host, uint32_t port,
                                         absl::string_view remedy) {
  const bool given = !input.chief_host.empty();
  if (!given && launcher_host.empty()) {
    return InvalidField("--chief_host", absl::StrCat("is missing; ", remedy));
  }
  if (given && !IsHostAlone(input.chief_host)) {
    if (input.chief_port != 0) {
      return InvalidField("--chief_port",
                          absl::StrCat("is given, but --chief_host=", input.chief_host,
                                       " has a port already; drop one of them"));
    }
    RETURN_IF_ERROR(CheckAddress("--chief_host", input.chief_host));
    return input.chief_host;
  }
  const std::string address =
      JoinHostPort(given ? absl::string_view(input.chief_host) : launcher_host,
                   input.chief_port != 0 ? input.chief_port : port);
  RETURN_IF_ERROR(CheckAddress(given ? "--chief_host" : "the launcher's chief", address));
  return address;
}

absl::StatusOr<ResolvedTask> PlaceInCluster(ClusterSource source, TaskId task, ClusterSpec cluster,
                                            bool anywhere) {
  ResolvedTask resolved;
  resolved.source = source;
  resolved.task = task;
  const bool listed = task.job == Job::kPs ? !cluster.ps().empty() : !cluster.workers().empty();
  if (task.job == Job::kChief) {
    resolved.own_address = cluster.chief();
  } else if (task.job != Job::kEvaluator && listed) {
    ASSIGN_OR_RETURN(resolved.own_address, cluster.Address(task));
  }
  resolved.hosts_chief = task == TaskId{Job::kWorker, 0} && cluster.chief().empty() && listed;
  if (task.job != Job::kChief) {
    resolved.chief_address = cluster.chief();
    if (cluster.chief().empty() && !cluster.workers().empty()) {
      resolved.chief_address = cluster.workers()[0];
    }
    if (resolved.chief_address.empty() && task.job != Job::kEvaluator) {
      return InvalidField(
          "--chief_host",
          source == ClusterSource::kFlags
              ? "is missing, and --worker_hosts too; give the chief's address host:port, "
                "or the workers', the first of which hosts the chief then"
              : "is missing; a task needs the chief's address, host:port");
    }
  }
  if (!resolved.own_address.empty()) {
    resolved.listen_address =
        anywhere ? OnAllInterfaces(resolved.own_address) : resolved.own_address;
  } else if (task.job == Job::kPs) {
    resolved.listen_address = AnyPortToward(resolved.chief_address);
  }
  resolved.cluster = std::move(cluster);
  return resolved;
}

ResolvedTask PlaceByChief(ClusterSource source, TaskId task, const std::string& chief_address,
                          bool hosts_chief) {
  ResolvedTask resolved;
  resolved.source = source;
  resolved.task = task;
  resolved.hosts_chief = hosts_chief;
  if (task.job != Job::kChief) resolved.chief_address = chief_address;
  if (task.job == Job::kChief || hosts_chief) {
    resolved.own_address = chief_address;
    resolved.listen_address = OnAllInterfaces(chief_address);
  } else if (task.job == Job::kPs) {
    resolved.listen_address = AnyPortToward(chief_address);
  }
  return resolved;
}

absl::StatusOr<ResolvedTask> PlaceByRank(const ResolverInput& input, const Rank& rank) {
  if (rank.rank >= rank.size) {
    return InvalidField(
        rank.name, absl::StrCat("is ", rank.rank, ", but there are ", rank.size, " processes"));
  }
  const bool flat = !input.job.has_value();
  absl::StatusOr<TaskId> task = flat ? FlatTask(input, rank) : PartTask(input, rank);
  if (!task.ok()) return task.status();
  const bool first = rank.rank == 0;
  if (input.chief_host.empty() && first && *task != TaskId{Job::kWorker, 0} &&
      task->job != Job::kChief) {
    return InvalidField(
        "--chief_host",
        absl::StrCat("is missing, and the first process, where the others look for the "
                     "chief, is ",
                     task->ToString(), "; start the chief or worker 0 first"));
  }
  if (input.chief_host.empty() && !first && task->job == Job::kChief) {
    return InvalidField("--chief_host",
                        absl::StrCat("is missing, and the chief is process ", rank.rank,
                                     "; start it first, where the others look for it"));
  }
  // If no job is given, the launch has all tasks of the run, and --chief_host is only another name
  // of the first one's host. Otherwise it may have only workers, whose chief is elsewhere.
  const bool chief_is_here =
      flat || input.chief_host.empty() || IsOwnHost(rank.chief_address, input.hostname);
  const bool hosts_chief = first && chief_is_here && *task == TaskId{Job::kWorker, 0};
  ResolvedTask resolved = PlaceByChief(rank.source, *task, rank.chief_address, hosts_chief);
  if (flat) {
    resolved.num_ps_tasks = *input.num_ps_tasks;
    resolved.num_replicas = rank.size - *input.num_ps_tasks;
  }
  return resolved;
}

bool IsHostAlone(absl::string_view text) {
  const size_t colon = text.find(':');
  if (colon == absl::string_view::npos) return true;
  return text.front() != '[' && text.find(':', colon + 1) != absl::string_view::npos;
}

bool IsOwnHost(absl::string_view address, absl::string_view hostname) {
  const std::string host = GetHost(address);
  return host.substr(0, host.find('.')) == hostname.substr(0, hostname.find('.'));
}

std::optional<uint32_t> HostOrdinal(absl::string_view hostname) {
  const absl::string_view name = hostname.substr(0, hostname.find('.'));
  const size_t dash = name.rfind('-');
  uint32_t ordinal = 0;
  if (dash == absl::string_view::npos || !absl::SimpleAtoi(name.substr(dash + 1), &ordinal)) {
    return std::nullopt;
  }
  return ordinal;
}

}  // namespace shoal

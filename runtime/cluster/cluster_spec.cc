#include "runtime/cluster/cluster_spec.h"

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "proto/v1/cluster.pb.h"
#include "runtime/cluster/address.h"
#include "runtime/config/text_proto.h"

namespace shoal {
namespace {

// The addresses of one job in order of index.
absl::StatusOr<std::vector<std::string>> JobAddresses(const v1::JobSpec& job,
                                                      absl::string_view file_name) {
  const std::string field = absl::StrCat(file_name, ": job ", job.name());
  std::vector<std::string> addresses(job.tasks_size());
  std::vector<bool> seen(job.tasks_size());
  for (const v1::TaskAddress& task : job.tasks()) {
    if (task.index() >= addresses.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat(field, ": index ", task.index(), " with ", addresses.size(),
                       " tasks; number the tasks from 0 without gaps"));
    }
    const bool is_dialed = job.name() != "worker" && job.name() != "evaluator";
    if (!task.address().empty() || is_dialed) {
      RETURN_IF_ERROR(CheckAddress(absl::StrCat(field, " index ", task.index()), task.address()));
    }
    if (seen[task.index()]) {
      return absl::InvalidArgumentError(absl::StrCat(field, ": index ", task.index(),
                                                     " is given twice; number the tasks from 0"));
    }
    seen[task.index()] = true;
    addresses[task.index()] = task.address();
  }
  return addresses;
}

void AddJob(Job job, const std::vector<std::string>& addresses, v1::ClusterSpec* spec) {
  if (addresses.empty()) return;
  v1::JobSpec* out = spec->add_job();
  out->set_name(std::string(JobName(job)));
  for (size_t i = 0; i < addresses.size(); ++i) {
    v1::TaskAddress* task = out->add_tasks();
    task->set_index(i);
    if (!addresses[i].empty()) task->set_address(addresses[i]);
  }
}

}  // namespace

absl::StatusOr<ClusterSpec> ClusterSpec::FromHostLists(absl::string_view ps_hosts,
                                                       absl::string_view worker_hosts,
                                                       absl::string_view chief_host) {
  ClusterSpec spec;
  ASSIGN_OR_RETURN(spec.ps_, ParseHostList("ps_hosts", ps_hosts));
  ASSIGN_OR_RETURN(spec.workers_, ParseHostList("worker_hosts", worker_hosts));
  ASSIGN_OR_RETURN(std::vector<std::string> chief, ParseHostList("chief_host", chief_host));
  if (chief.size() > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("chief_host: ", chief.size(), " addresses; a run has one chief"));
  }
  if (!chief.empty()) spec.chief_ = chief[0];
  RETURN_IF_ERROR(spec.CheckUnique());
  return spec;
}

absl::StatusOr<ClusterSpec> ClusterSpec::FromText(absl::string_view text,
                                                  absl::string_view file_name) {
  v1::ClusterSpec proto;
  RETURN_IF_ERROR(ParseTextProto(text, file_name, &proto));
  ClusterSpec spec;
  std::map<Job, std::vector<std::string>> jobs;
  for (const v1::JobSpec& job : proto.job()) {
    absl::StatusOr<Job> name = ParseJob(job.name());
    if (!name.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(file_name, ": ", name.status().message()));
    }
    if (jobs.count(*name) > 0) {
      return absl::InvalidArgumentError(absl::StrCat(file_name, ": job ", job.name(),
                                                     " is given twice; list all its tasks in one"));
    }
    ASSIGN_OR_RETURN(jobs[*name], JobAddresses(job, file_name));
  }
  if (jobs[Job::kChief].size() > 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        file_name, ": job chief: ", jobs[Job::kChief].size(), " tasks; a run has one chief"));
  }
  if (!jobs[Job::kChief].empty()) spec.chief_ = jobs[Job::kChief][0];
  spec.ps_ = std::move(jobs[Job::kPs]);
  spec.workers_ = std::move(jobs[Job::kWorker]);
  RETURN_IF_ERROR(spec.CheckUnique());
  return spec;
}

absl::StatusOr<ClusterSpec> ClusterSpec::FromFile(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadTextFile("cluster", path));
  return FromText(text, path);
}

v1::ClusterSpec ClusterSpec::ToProto() const {
  v1::ClusterSpec spec;
  if (!chief_.empty()) AddJob(Job::kChief, {chief_}, &spec);
  AddJob(Job::kPs, ps_, &spec);
  AddJob(Job::kWorker, workers_, &spec);
  return spec;
}

std::string ClusterSpec::ToText() const { return PrintTextProto(ToProto()); }

absl::StatusOr<std::string> ClusterSpec::Address(TaskId task) const {
  if (task.job == Job::kChief && task.index == 0 && !chief_.empty()) return chief_;
  if (task.job == Job::kEvaluator) {
    return absl::NotFoundError("job_name: an evaluator is not part of the cluster; drop its index");
  }
  if (task.job != Job::kChief) {
    const std::vector<std::string>& list = task.job == Job::kPs ? ps_ : workers_;
    if (task.index < list.size()) return list[task.index];
    return absl::NotFoundError(absl::StrCat("task_index: the cluster has no ", task.ToString(),
                                            "; job ", JobName(task.job), " has ", list.size(),
                                            " tasks, numbered from 0"));
  }
  return absl::NotFoundError("chief_host: the cluster names no chief; add its address");
}

absl::Status ClusterSpec::CheckUnique() const {
  std::map<std::string, TaskId> seen;
  const auto add = [&seen](const std::string& address, TaskId task) {
    if (address.empty()) return absl::OkStatus();
    const auto [it, inserted] = seen.emplace(address, task);
    if (inserted) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("address ", address, " is given to ",
                                                   it->second.ToString(), " and to ",
                                                   task.ToString(), "; give each its own port"));
  };
  RETURN_IF_ERROR(add(chief_, TaskId{Job::kChief, 0}));
  for (uint32_t i = 0; i < ps_.size(); ++i) RETURN_IF_ERROR(add(ps_[i], TaskId{Job::kPs, i}));
  for (uint32_t i = 0; i < workers_.size(); ++i) {
    RETURN_IF_ERROR(add(workers_[i], TaskId{Job::kWorker, i}));
  }
  return absl::OkStatus();
}

}  // namespace shoal

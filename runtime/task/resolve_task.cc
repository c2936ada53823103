#include "runtime/task/resolve_task.h"

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "runtime/cluster/address.h"
#include "runtime/cluster/local_worker.h"
#include "runtime/cluster/reconcile_cluster.h"
#include "runtime/cluster/task_resolver.h"
#include "runtime/config/flags.h"
#include "runtime/config/program_settings.h"
#include "runtime/config/rule.h"
#include "runtime/config/run_config.h"
#include "runtime/task/monitoring_port.h"
#include "runtime/task/task_credentials.h"
#include "runtime/task/task_help.h"

namespace shoal {
namespace {

// Reads --task_index, for workers also --replica_id.
absl::StatusOr<std::optional<uint32_t>> GivenIndex(const std::optional<Job>& job,
                                                   const CommandLine& line) {
  const std::optional<uint32_t> index = line.task.task_index;
  if (job != Job::kWorker || !line.run.deployment().has_replica_id()) return index;
  const uint32_t replica_id = line.run.deployment().replica_id();
  if (index.has_value() && *index != replica_id) {
    return InvalidField("--replica_id", absl::StrCat("is ", replica_id, ", but --task_index is ",
                                                     *index, "; they are the same number"));
  }
  return std::optional<uint32_t>(replica_id);
}

absl::StatusOr<std::optional<Job>> GivenJob(const std::optional<Job>& command,
                                            const std::string& job_name) {
  if (job_name.empty()) return command;
  ASSIGN_OR_RETURN(const Job named, ParseJob(job_name));
  if (command.has_value() && named != *command) {
    return InvalidField("--job_name", absl::StrCat("is ", job_name, ", but the command is `shoal ",
                                                   JobName(*command), "`; drop the flag"));
  }
  return std::optional<Job>(named);
}

absl::StatusOr<ResolvedTask> ResolvePlace(const std::optional<Job>& command,
                                          const CommandLine& line,
                                          const Surroundings& surroundings) {
  const TaskFlags& flags = line.task;
  const v1::DeploymentOptions& deployment = line.run.deployment();
  ResolverInput input;
  ASSIGN_OR_RETURN(input.from, ParseClusterSource(flags.cluster_from));
  ASSIGN_OR_RETURN(input.job, GivenJob(command, flags.job_name));
  ASSIGN_OR_RETURN(input.task_index, GivenIndex(input.job, line));
  input.cluster_file = flags.cluster_file;
  input.ps_hosts = flags.ps_hosts;
  input.worker_hosts = flags.worker_hosts;
  input.chief_host = flags.chief_host;
  input.listen_address = flags.listen_address;
  input.chief_port = flags.chief_port;
  if (deployment.has_num_ps_tasks()) input.num_ps_tasks = deployment.num_ps_tasks();
  if (deployment.has_num_replicas()) input.num_replicas = deployment.num_replicas();
  input.hostname = surroundings.hostname;
  input.environment = surroundings.environment;
  return ResolveTaskPlace(input);
}

// Returns which of the workers of its host a worker is: as its own launcher says by a flag, or
// another one by the environment.
absl::StatusOr<std::optional<LocalWorker>> PlaceAmongWorkers(const std::optional<Job>& command,
                                                             const TaskFlags& flags,
                                                             const Environment& environment) {
  if (!flags.local_worker.has_value()) {
    return FindLocalWorker(environment,
                           /*is_numbered_by_rank=*/!command.has_value() && flags.job_name.empty());
  }
  LocalWorker worker;
  worker.index = *flags.local_worker;
  return std::make_optional(worker);
}

// Returns the address that others dial: --advertise, or the address in host lists, or POD_IP for a
// ps that serves at every address. Otherwise it is empty and taken from a route (see
// RunWithSurroundings).
absl::StatusOr<std::string> AdvertisedAddress(const TaskFlags& flags, const ResolvedTask& resolved,
                                              const std::string& listen_address,
                                              const Environment& environment) {
  const absl::string_view port = GetPort(listen_address);
  if (!flags.advertise.empty()) {
    const bool has_port = CheckAddress("--advertise", flags.advertise, AddressUse::kListen).ok();
    const std::string address =
        has_port ? flags.advertise : absl::StrCat(flags.advertise, ":", port);
    RETURN_IF_ERROR(CheckAddress("--advertise", address, AddressUse::kListen));
    return address;
  }
  if (!resolved.own_address.empty()) return resolved.own_address;
  if (!IsWildcardAddress(listen_address) || !IsSet(environment, "POD_IP")) return std::string();
  const std::string address = JoinHostPort(GetValue(environment, "POD_IP"), port);
  RETURN_IF_ERROR(CheckAddress("POD_IP", address, AddressUse::kListen));
  return address;
}

// Determines the task's identity, its listen address and its chief's address.
absl::Status TakePlace(const ResolvedTask& resolved, const TaskFlags& flags,
                       const Environment& environment, TaskOptions* options) {
  options->task = resolved.task;
  options->cluster = resolved.cluster;
  options->chief_address = resolved.chief_address;
  options->hosts_chief = resolved.hosts_chief;
  v1::DeploymentOptions* deployment = options->run.mutable_deployment();
  if (resolved.num_ps_tasks > 0) deployment->set_num_ps_tasks(resolved.num_ps_tasks);
  if (resolved.num_replicas > 0) deployment->set_num_replicas(resolved.num_replicas);
  const Job job = resolved.task.job;
  options->listen_address =
      flags.listen_address.empty() ? resolved.listen_address : flags.listen_address;
  const bool must_serve = job == Job::kChief || job == Job::kPs || resolved.hosts_chief;
  if (options->listen_address.empty()) {
    if (!must_serve) return absl::OkStatus();
    return InvalidField(
        "--listen_address",
        "is missing, and neither a host list nor --chief_port has this task's address; give "
        "--listen_address=HOST:PORT");
  }
  RETURN_IF_ERROR(CheckAddress("--listen_address", options->listen_address, AddressUse::kListen));
  ASSIGN_OR_RETURN(options->advertised_address,
                   AdvertisedAddress(flags, resolved, options->listen_address, environment));
  return absl::OkStatus();
}

// A ps or worker need not know the numbers of tasks. It passes on the numbers in its flags, so that
// the chief can refuse different ones; for the others it assumes the least possible number.
void LeaveCountsToChief(TaskOptions* options) {
  v1::DeploymentOptions* deployment = options->run.mutable_deployment();
  const bool is_ps = options->task.job == Job::kPs;
  const uint32_t at_least = options->task.index + 1;
  options->given_num_ps_tasks = deployment->num_ps_tasks();
  options->given_num_replicas = deployment->num_replicas();
  if (!deployment->has_num_ps_tasks()) deployment->set_num_ps_tasks(is_ps ? at_least : 1);
  if (!deployment->has_num_replicas()) deployment->set_num_replicas(is_ps ? 1 : at_least);
}

}  // namespace

absl::StatusOr<TaskOptions> ResolveTask(const std::optional<Job>& command, const CommandLine& line,
                                        const Surroundings& surroundings, ModelFrom model) {
  if (!line.arguments.empty()) {
    return InvalidField(line.arguments[0],
                        absl::StrCat("is not a flag; `shoal ", CommandName(command),
                                     "` takes only flags, see --help"));
  }
  RETURN_IF_ERROR(CheckRunGiven(line));
  TaskOptions options;
  options.run = line.run;
  ASSIGN_OR_RETURN(ResolvedTask resolved, ResolvePlace(command, line, surroundings));
  RETURN_IF_ERROR(TakePlace(resolved, line.task, surroundings.environment, &options));
  resolved.listen_address = options.listen_address;
  options.place = ToJson(resolved);
  const Job job = options.task.job;
  if (job == Job::kWorker) {
    ASSIGN_OR_RETURN(options.local_worker,
                     PlaceAmongWorkers(command, line.task, surroundings.environment));
  }
  RETURN_IF_ERROR(ReconcileCluster(options.cluster, &options.run));
  if (job != Job::kChief) LeaveCountsToChief(&options);
  ResolveDefaults(TaskCounts(), &options.run);
  if (job == Job::kWorker) options.run.mutable_deployment()->set_replica_id(options.task.index);
  v1::RunConfig checked = options.run;
  if (LeavesSettingsToProgram(line.run)) {
    options.given = line.run;
    if (checked.max_steps() == 0 && checked.num_epochs() == 0) checked.set_num_epochs(1);
  }
  RETURN_IF_ERROR(ValidateRunConfig(checked, job == Job::kWorker ? model : ModelFrom::kElsewhere));
  if (job == Job::kPs && options.task.index >= NumPsProcesses(options.run)) {
    return InvalidField("--task_index",
                        absl::StrCat("is ", options.task.index, ", but num_ps_tasks is ",
                                     NumPsProcesses(options.run), "; tasks are numbered from 0"));
  }
  if (options.run.out().empty()) {
    return InvalidField("--out", "is missing; name the run's directory, the same for all tasks");
  }
  RETURN_IF_ERROR(CheckMetricsAddress(line.task.metrics_address, MayShowPages(line.task)));
  RETURN_IF_ERROR(CheckTlsFlags(line.task));
  MakePathsAbsolute(surroundings.working_directory, &options.run);
  options.insecure = line.task.insecure;
  options.use_averages = line.task.use_averages;
  if (options.use_averages && job != Job::kEvaluator) {
    return InvalidField("--use_averages", "is for the evaluator; leave it out");
  }
  if (options.use_averages && options.run.optimizer().moving_average_decay() == 0) {
    return InvalidField("--use_averages",
                        "the run keeps no averages; train with --set "
                        "optimizer.moving_average_decay=0.999, or leave the flag out");
  }
  options.report_fd = line.task.report_fd;
  options.was_checked = line.task.parent_pid != 0;
  return options;
}

}  // namespace shoal

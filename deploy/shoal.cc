// The only binary, and the only target that links all roles: shoal train, eval, predict, inspect,
// task, chief, ps, worker.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "base/status_macros.h"
#include "chief/chief_task.h"
#include "deploy/build_info.h"
#include "deploy/command.h"
#include "deploy/control_command.h"
#include "deploy/export_command.h"
#include "deploy/hosts/attend_command.h"
#include "deploy/hosts/check_program_command.h"
#include "deploy/hosts/reach_command.h"
#include "deploy/hosts/ssh_places.h"
#include "deploy/in_process_cluster.h"
#include "deploy/inspect_command.h"
#include "deploy/launch/result_printer.h"
#include "deploy/lookup_command.h"
#include "deploy/model_command.h"
#include "deploy/preflight_check.h"
#include "deploy/train_command.h"
#include "deploy/worker_command.h"
#include "deploy/worker_program.h"
#include "ps/ps_task.h"
#include "runtime/cluster/environment.h"
#include "runtime/config/flags.h"
#include "runtime/process/child.h"
#include "runtime/process/exit_code.h"
#include "runtime/process/version.h"
#include "runtime/rpc/channel.h"
#include "runtime/rpc/grpc_control_channel.h"
#include "runtime/rpc/health_client.h"
#include "runtime/task/task_main.h"
#include "runtime/tls/credentials.h"
#include "worker/eval_command.h"
#include "worker/evaluator/evaluator_task.h"
#include "worker/prediction/predict_command.h"
#include "worker/program/program_inputs.h"
#include "worker/replica/compute_backends.h"
#include "worker/replica/replica_inputs.h"
#include "worker/replica/trained_variables.h"

namespace shoal {
namespace {

std::unique_ptr<ChiefClient> ConnectChief(const std::string& address,
                                          const Credentials* credentials) {
  return std::make_unique<ChiefClient>(
      NewGrpcControlChannel(NewGrpcChannel(address, ChannelUse::kControl, kMaxControlMessageBytes,
                                           ChannelCredentialsFor(credentials, kRoleChief))));
}

// Returns the program that has the model of the run in these arguments; "" if it is this program,
// or if the arguments name no run.
std::string ProgramWithModel(FlagScope scope, absl::Span<const std::string> args) {
  const absl::StatusOr<CommandLine> line = ParseCommandLine(scope, args);
  if (!line.ok()) return "";
  const absl::StatusOr<v1::RunConfig> run = FindFinishedRun(*line);
  return run.ok() ? run->deployment().worker_binary() : "";
}

// Replaces this process by that program with the same command.
int RunInProgram(const std::string& program, const std::string& command,
                 absl::Span<const std::string> args) {
  std::vector<std::string> all = {command};
  all.insert(all.end(), args.begin(), args.end());
  const absl::Status status = BecomeProgram(program, all);
  std::fprintf(stderr, "shoal %s: %s\n", command.c_str(), std::string(status.message()).c_str());
  return ToExitCode(status);
}

int Evaluate(absl::Span<const std::string> args) {
  const std::string program = ProgramWithModel(kScopeUse, args);
  return program.empty() ? EvalMain(args, ModelFromRunFile()) : RunInProgram(program, "eval", args);
}

int Predict(absl::Span<const std::string> args) {
  const std::string program = ProgramWithModel(kScopePredict, args);
  return program.empty() ? PredictMain(args, nullptr) : RunInProgram(program, "predict", args);
}

Command ControlCommand(const std::string& program, std::string name, std::string summary,
                       int (*run)(const ControlLinks&, absl::Span<const std::string>)) {
  ControlLinks links;
  links.program = program;
  links.connect_chief = &ConnectChief;
  links.check_health = [](const std::string& address, const std::string& service,
                          absl::Duration timeout, const Credentials* credentials) {
    return CheckHealth(NewGrpcChannel(address, ChannelUse::kControl, kMaxControlMessageBytes,
                                      ChannelCredentialsFor(credentials, kAnyRole))
                           ->channel(),
                       service, timeout);
  };
  return {std::move(name), std::move(summary),
          [links, run](absl::Span<const std::string> args) { return run(links, args); }};
}

absl::Status RunTaskOfAnyJob(const TaskOptions& given) {
  TaskOptions options = given;
  RETURN_IF_ERROR(CompleteByProgram(&options));
  switch (options.task.job) {
    case Job::kChief:
      return RunChief(options);
    case Job::kPs:
      return RunPs(options);
    case Job::kWorker:
      return RunWorkerAndHostedChief(options);
    case Job::kEvaluator:
      return RunEvaluator(options);
  }
  return absl::InternalError("a task without a job");
}

// Makes the command of a job. Without a job it makes `shoal task`, which gets its job from the
// launcher's variables.
Command TaskCommand(std::optional<Job> job, std::string summary, const Environment& environment) {
  const std::string name(job.has_value() ? JobName(*job) : "task");
  return {name, std::move(summary), [job, environment](absl::Span<const std::string> args) {
            return TaskMain(job, args, &RunTaskOfAnyJob, ModelFrom::kRunFile, environment);
          }};
}

absl::Span<const std::string> Rest(const std::vector<std::string>& args) {
  return absl::MakeConstSpan(args).subspan(1);
}

std::vector<Command> Commands(const TrainRoles& roles, const Environment& environment) {
  return {
      {"train", "train what a run file describes: all tasks on this machine",
       [roles](absl::Span<const std::string> args) { return TrainMain(roles, args); }},
      {"launch", "the same on the hosts of a file, over ssh",
       [roles](absl::Span<const std::string> args) {
         TrainRoles launch = roles;
         launch.place = &SshPlaces::Create;
         return TrainMain(launch, args);
       }},
      {"eval", "loss and accuracy of a checkpoint on the test split", &Evaluate},
      {"predict", "the predictions of a checkpoint for examples, split over devices", &Predict},
      {"export", "the variables of a checkpoint as one file for other programs, or its tables",
       &ExportMain},
      {"lookup", "rows of a table of a run, by key", &LookupMain},
      {"inspect", "the content of a run's directory, verified", &InspectMain},
      {"model", "the layers of a model by name, for a run file", &ModelMain},
      ControlCommand(roles.command, "status",
                     "the tasks of a run, its progress, and the tasks that it waits for",
                     &StatusMain),
      ControlCommand(roles.command, "checkpoint", "have a run make a checkpoint now",
                     &CheckpointMain),
      ControlCommand(roles.command, "stop", "have a run make a checkpoint and end", &StopMain),
      ControlCommand(roles.command, "health", "whether a task lives, for probes", &HealthMain),
      TaskCommand(std::nullopt,
                  "one task, whose role the cluster's launcher has put into the environment",
                  environment),
      TaskCommand(Job::kChief, "one chief, started by hand", environment),
      TaskCommand(Job::kPs, "one parameter server, started by hand", environment),
      TaskCommand(Job::kWorker, "one worker, started by hand", environment),
      TaskCommand(Job::kEvaluator, "evaluates a run's checkpoints as they appear", environment)};
}

}  // namespace
}  // namespace shoal

int main(int argc, char** argv) {
  shoal::KeepEndsOfChildren();
  // Names are looked up as every other program here does it: /etc/hosts first, then what nsswitch
  // has. gRPC's own resolver asks name servers for IPv6 too, and waits a minute for a silent one.
  setenv("GRPC_DNS_RESOLVER", "native", /*overwrite=*/0);
  const std::vector<std::string> args(argv + 1, argv + argc);
  shoal::TrainRoles roles;
  roles.check_run = &shoal::CheckBeforeStart;
  roles.ask_program = [](const shoal::v1::RunConfig& run) {
    return shoal::AskProgram(run, /*has_started_before=*/false);
  };
  roles.describe_gpus = &shoal::DescribeGpusFor;
  roles.count_gpus = &shoal::CountGpus;
  roles.run_local = &shoal::RunLocal;
  roles.connect_chief = &shoal::ConnectChief;
  if (argc > 0) roles.command = shoal::AsShellWord(argv[0]);
  roles.no_color = std::getenv("NO_COLOR") != nullptr;
  // The two ends of a task that `launch` starts, and its check of a host; not for people.
  if (!args.empty() && args[0] == "attend") return shoal::AttendMain(shoal::Rest(args));
  if (!args.empty() && args[0] == "--version") {
    std::printf("shoal %s\n%s\n%s\n", shoal::kVersion, shoal::DescribeGpus().c_str(),
                shoal::DescribeBuild().c_str());
    return shoal::kExitDone;
  }
  if (!args.empty() && args[0] == "check_program") {
    return shoal::CheckProgramMain(shoal::Rest(args));
  }
  if (!args.empty() && args[0] == "reach") return shoal::ReachMain(shoal::Rest(args));
  return shoal::RunCommand(shoal::Commands(roles, shoal::ReadEnvironment(environ)), args);
}

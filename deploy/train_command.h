// `shoal train` trains the model of a run file with one command on this machine; `shoal launch`
// does it on other machines.
#ifndef SHOAL_DEPLOY_TRAIN_COMMAND_H_
#define SHOAL_DEPLOY_TRAIN_COMMAND_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

#include "deploy/preflight_check.h"
#include "proto/v1/chief_service.pb.h"
#include "proto/v1/run_config.pb.h"
#include "runtime/rpc/chief_client.h"
#include "runtime/task/task_options.h"

namespace shoal {

class Credentials;
class FileSystem;
class ShutdownNotification;
class TaskPlaces;
struct CommandLine;
struct TaskFlags;

// Functions of the roles that the command needs.
struct TrainRoles {
  // Called before anything is written or started; see CheckBeforeStart.
  std::function<absl::StatusOr<PreflightCheck>(const v1::RunConfig& run, FileSystem* file_system,
                                               const ShutdownNotification& shutdown,
                                               const v1::WorkerProgram* asked)>
      check_run;
  // Asks the compute program of a resolved run what it declares; see AskProgram.
  std::function<absl::StatusOr<v1::WorkerProgram>(const v1::RunConfig& run)> ask_program;
  // A compute program that needs longer for that is named as what is waited for.
  absl::Duration usual_program_start = absl::Seconds(5);
  // Describes the GPUs that a run with this deployment can use here, in one line. Null: nothing is
  // printed about them.
  std::function<std::string(const v1::DeploymentOptions& deployment)> describe_gpus;
  // Counts the GPUs that this program can use here. Null: there are none.
  std::function<uint32_t()> count_gpus;
  // Runs a run with num_ps_tasks == 0: chief, variables and worker in this process.
  std::function<absl::Status(const TaskOptions&)> run_local;
  // Makes the launcher's connection to the chief.
  std::function<std::unique_ptr<ChiefClient>(const std::string& address,
                                             const Credentials* credentials)>
      connect_chief;
  // `shoal launch`: chooses where the run's tasks run; null: `shoal train`, this machine.
  std::function<absl::StatusOr<std::unique_ptr<TaskPlaces>>(
      const TaskFlags& flags, const v1::RunConfig& run, const std::string& working_directory)>
      place;
  std::string command = "shoal";  // The command as the user typed it, one word of a shell.
  bool no_color = false;          // The environment has NO_COLOR.
};

// Blocks until the run is over and returns the exit code. The bar and messages go to standard
// error, the result of the run to standard output.
int TrainMain(const TrainRoles& roles, absl::Span<const std::string> args);

// The pure part of TrainMain: returns the resolved and validated run with an absolute `out`, by
// default runs/NAME-TIME-PROCESS below `working_directory`.
absl::StatusOr<v1::RunConfig> ResolveTrainRun(const CommandLine& line,
                                              const std::string& working_directory, absl::Time now,
                                              int process_id);

std::string TrainHelp();
std::string LaunchHelp();

}  // namespace shoal

#endif  // SHOAL_DEPLOY_TRAIN_COMMAND_H_

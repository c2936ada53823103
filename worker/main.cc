#include "worker/main.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

#include "base/file_system.h"
#include "base/status_macros.h"
#include "runtime/cluster/environment.h"
#include "runtime/config/flags.h"
#include "runtime/config/run_config.h"
#include "runtime/config/text_proto.h"
#include "runtime/config/validate.h"
#include "runtime/process/child.h"
#include "runtime/process/exit_code.h"
#include "runtime/process/protocol_version.h"
#include "runtime/task/task_main.h"
#include "worker/eval_command.h"
#include "worker/evaluator/evaluator_task.h"
#include "worker/prediction/predict_command.h"
#include "worker/worker_task.h"

namespace shoal::worker {
namespace {

constexpr char kHelp[] =
    "A worker of Shoal with a model of its own. Train it with\n\n"
    "  shoal train --worker_binary=PROGRAM [--run=FILE] [flags]\n\n"
    "which starts this program as its workers. Its commands, see PROGRAM COMMAND --help:\n\n"
    "  worker    one worker, started by hand\n"
    "  evaluator evaluates the checkpoints of a run as they appear\n"
    "  eval      loss and accuracy of a checkpoint on the test split\n"
    "  predict   the predictions of a checkpoint for examples\n"
    "  declare   what the model is, for shoal\n";

constexpr char kDeclareHelp[] =
    "usage: PROGRAM declare --run=FILE [flags]\n\n"
    "Says what the run's model is, as text: its variables, the devices that are missing, what is\n"
    "placed where. `shoal train` asks this before it starts anything; no worker is started.\n\n";

// Builds the model for training and for evaluation, so that errors name the model as the cause.
// GraphProgram::Create checks that the two fit together.
absl::Status CheckBuilds(const ModelFunction& model, const std::vector<FieldSpec>& fields) {
  for (const bool is_training : {true, false}) {
    Graph graph;
    GraphBuilder builder(&graph);
    model(builder, InputQueue(fields).Dequeue(builder), is_training);
    if (builder.status().ok()) continue;
    return absl::InvalidArgumentError(absl::StrCat("model: ", builder.status().message()));
  }
  return absl::OkStatus();
}

ModelFactory Checked(ModelFactory make) {
  const DatasetFactory dataset = make.dataset();
  const auto checked = [make = std::move(make)](const v1::RunConfig& run,
                                                const std::vector<FieldSpec>& fields,
                                                int64_t classes) -> absl::StatusOr<ModelFunction> {
    ASSIGN_OR_RETURN(ModelFunction model, make(run, fields, classes));
    RETURN_IF_ERROR(CheckBuilds(model, fields));
    return model;
  };
  return ModelFactory(checked, dataset);
}

absl::StatusOr<v1::WorkerProgram> Describe(v1::RunConfig run, const ModelFactory& model) {
  ResolveDefaults(TaskCounts(), &run);
  RETURN_IF_ERROR(ValidateRunConfig(run, ModelFrom::kElsewhere));
  ASSIGN_OR_RETURN(const ReplicaInputs inputs, LoadReplicaInputs(run, 0, model));
  v1::WorkerProgram program;
  program.set_protocol(kProtocolVersion);
  *program.mutable_model() = inputs.declaration;
  for (const std::string& device : inputs.missing_devices) program.add_missing_devices(device);
  for (const std::string& line : inputs.placement) program.add_placement(line);
  return program;
}

// Answers in a file, since a model may print.
absl::Status Declare(absl::Span<const std::string> args, const ModelFactory& model) {
  ASSIGN_OR_RETURN(const CommandLine line, ParseCommandLine(kScopeTask, args));
  if (line.help) {
    std::printf("%s%s", kDeclareHelp, FlagHelp(kScopeTask).c_str());
    return absl::OkStatus();
  }
  if (line.task.parent_pid != 0) DieWithParent(line.task.parent_pid);
  ASSIGN_OR_RETURN(const v1::WorkerProgram program, Describe(line.run, model));
  const std::string text = PrintTextProto(program);
  if (line.task.answer_file.empty()) {
    std::fputs(text.c_str(), stdout);
    return absl::OkStatus();
  }
  return WriteAtomically(*NewPosixFileSystem(), line.task.answer_file, text);
}

int DeclareMain(absl::Span<const std::string> args, const ModelFactory& model) {
  const absl::Status status = Declare(args, model);
  if (!status.ok()) {
    std::fprintf(stderr, "shoal declare: %s\n", std::string(status.message()).c_str());
  }
  return ToExitCode(status);
}

int WorkerMain(absl::Span<const std::string> args, const ModelFactory& model) {
  const auto run = [&model](const TaskOptions& options) {
    if (!options.hosts_chief) return RunWorker(options, model);
    return absl::InvalidArgumentError(
        "--chief_host: is missing; this program has no chief in it, start one with `shoal chief`");
  };
  return TaskMain(Job::kWorker, args, run, ModelFrom::kElsewhere, ReadEnvironment(environ));
}

int EvaluatorMain(absl::Span<const std::string> args, const ModelFactory& model) {
  const auto run = [&model](const TaskOptions& options) { return RunEvaluator(options, model); };
  return TaskMain(Job::kEvaluator, args, run, ModelFrom::kElsewhere, ReadEnvironment(environ));
}

}  // namespace

int Main(int argc, char** argv, ModelFunction model) {
  return Main(argc, argv, std::move(model), DatasetFactory());
}

int Main(int argc, char** argv, ModelFunction model, DatasetFactory dataset) {
  const auto make = [model = std::move(model)](const v1::RunConfig& /*run*/,
                                               const std::vector<FieldSpec>& /*fields*/,
                                               int64_t /*classes*/) { return model; };
  return Main(argc, argv, ModelFactory(make, std::move(dataset)));
}

int Main(int argc, char** argv, ModelFactory model) {
  KeepEndsOfChildren();
  setenv("GRPC_DNS_RESOLVER", "native", /*overwrite=*/0);  // deploy/shoal.cc does so too.
  const ModelFactory checked = Checked(std::move(model));
  const std::vector<std::string> args(argv + 1, argv + argc);
  const std::string command = args.empty() ? "" : args[0];
  const absl::Span<const std::string> rest =
      absl::MakeConstSpan(args).subspan(args.empty() ? 0 : 1);
  if (command == "worker") return WorkerMain(rest, checked);
  if (command == "evaluator") return EvaluatorMain(rest, checked);
  if (command == "eval") return EvalMain(rest, checked);
  if (command == "predict") return PredictMain(rest, &checked);
  if (command == "declare") return DeclareMain(rest, checked);
  if (command == "--help" || command == "-h" || command == "help") {
    std::fputs(kHelp, stdout);
    return kExitDone;
  }
  if (command.empty()) {
    std::fputs(kHelp, stderr);
  } else {
    std::fprintf(stderr,
                 "shoal: \"%s\" is not a command of this program; it has worker, evaluator, eval, "
                 "predict, declare\n",
                 command.c_str());
  }
  return kExitUsage;
}

}  // namespace shoal::worker

#include "worker/eval_command.h"

#include <cstdio>
#include <memory>
#include <optional>

#include "absl/strings/str_cat.h"

#include "base/file_system.h"
#include "base/json.h"
#include "base/status_macros.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/config/flags.h"
#include "runtime/process/exit_code.h"
#include "worker/evaluator/checkpoint_evaluator.h"
#include "worker/replica/compute_backends.h"
#include "worker/replica/trained_variables.h"

namespace shoal {
namespace {

absl::StatusOr<Evaluation> Evaluate(absl::Span<const std::string> args, const ModelFactory& model) {
  ASSIGN_OR_RETURN(const CommandLine line, ParseCommandLine(kScopeUse, args));
  ASSIGN_OR_RETURN(const v1::RunConfig run, FindFinishedRun(line));
  const std::unique_ptr<FileSystem> file_system = NewPosixFileSystem();
  RETURN_IF_ERROR(CheckNotInComputeProgram(run));
  ASSIGN_OR_RETURN(const std::unique_ptr<Checkpoint> checkpoint,
                   OpenCheckpoint(file_system.get(), run.out(), line.task.checkpoint_step));
  ASSIGN_OR_RETURN(const VariableValues values, ValuesToUse(line.task.use_averages, *checkpoint));
  ASSIGN_OR_RETURN(const std::unique_ptr<CheckpointEvaluator> evaluator,
                   CheckpointEvaluator::Create(run, model));
  absl::StatusOr<Evaluation> evaluation = evaluator->Evaluate(
      checkpoint.get(), [] { return false; }, values);
  // An error is one line.
  if (evaluation.ok()) std::fprintf(stderr, "%s\n", DescribeGpusFor(run.deployment()).c_str());
  return evaluation;
}

}  // namespace

int EvalMain(absl::Span<const std::string> args, const ModelFactory& model) {
  for (const std::string& arg : args) {
    if (arg != "--help" && arg != "-h") continue;
    std::printf(
        "usage: shoal eval DIR [--step=N] [--use_averages]\n\n"
        "The loss and accuracy of a checkpoint on the test split, as one line of JSON.\n\n%s",
        FlagHelp(kScopeUse).c_str());
    return kExitDone;
  }
  const absl::StatusOr<Evaluation> evaluation = Evaluate(args, model);
  if (!evaluation.ok()) {
    std::fprintf(stderr, "shoal eval: %s\n", std::string(evaluation.status().message()).c_str());
    return ToExitCode(evaluation.status());
  }
  JsonObject json;
  json.Add("step", evaluation->step)
      .Add("examples", evaluation->examples)
      .Add("test_loss", evaluation->loss)
      .Add("test_accuracy",
           evaluation->classifies ? std::make_optional(evaluation->accuracy) : std::nullopt);
  for (const auto& [name, value] : evaluation->named) {
    json.Add(absl::StrCat("test_", name), value);
  }
  std::printf("%s\n", json.ToString().c_str());
  return kExitDone;
}

}  // namespace shoal

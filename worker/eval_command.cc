#include "worker/eval_command.h"

#include <cstdio>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"

#include "base/file_system.h"
#include "base/status_macros.h"
#include "ml/data/batch_plan.h"
#include "ml/data/dataset_factory.h"
#include "ml/data/prefetcher.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/config/flags.h"
#include "runtime/observability/json.h"
#include "runtime/process/exit_code.h"
#include "worker/compute_backends.h"
#include "worker/finished_run.h"
#include "worker/graph_program.h"

namespace shoal {
namespace {

absl::StatusOr<std::unique_ptr<GraphProgram>> MakeProgram(const v1::RunConfig& run,
                                                          const ModelFactory& model,
                                                          const Dataset& data) {
  GraphProgram::Options options;
  options.run = run;
  options.run.mutable_deployment()->set_replica_id(0);
  options.run.clear_summary();
  options.fields = data.fields();
  ASSIGN_OR_RETURN(options.model, model(run, options.fields, NumClasses(run.data(), data)));
  SetBackends(&options);
  return GraphProgram::Create(std::move(options));
}

absl::StatusOr<Evaluation> Evaluate(absl::Span<const std::string> args, const ModelFactory& model) {
  ASSIGN_OR_RETURN(const CommandLine line, ParseCommandLine(kScopeUse, args));
  ASSIGN_OR_RETURN(const v1::RunConfig run, FindFinishedRun(line));
  const std::unique_ptr<FileSystem> file_system = NewPosixFileSystem();
  ASSIGN_OR_RETURN(const std::unique_ptr<Checkpoint> checkpoint,
                   OpenCheckpoint(file_system.get(), run.out(), line.task.checkpoint_step));
  return EvaluateCheckpoint(run, model, checkpoint.get());
}

}  // namespace

absl::StatusOr<v1::RunConfig> FindRunToEvaluate(absl::Span<const std::string> args) {
  ASSIGN_OR_RETURN(const CommandLine line, ParseCommandLine(kScopeUse, args));
  return FindFinishedRun(line);
}

absl::StatusOr<Evaluation> EvaluateCheckpoint(const v1::RunConfig& run, const ModelFactory& model,
                                              Checkpoint* checkpoint) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Dataset> data,
                   MakeDataset(run.data(), DataSplit::kTest, run.seed()));
  ASSIGN_OR_RETURN(const std::unique_ptr<GraphProgram> program, MakeProgram(run, model, *data));
  RETURN_IF_ERROR(CheckSameVariables(program->variables(), checkpoint->manifest()));
  ASSIGN_OR_RETURN(const std::vector<std::vector<float>> values, ReadVariables(checkpoint));
  std::vector<const float*> parameters;
  for (const std::vector<float>& value : values) parameters.push_back(value.data());
  const std::vector<uint64_t> versions(parameters.size(), 1);  // they stay
  BatchPlanOptions plan_options;
  plan_options.num_examples = data->size();
  plan_options.batch_size = run.data().evaluation_block();
  plan_options.shuffle = false;
  ASSIGN_OR_RETURN(const BatchPlan plan, BatchPlan::Create(plan_options));
  PrefetcherOptions read_ahead;
  read_ahead.threads = DecodeThreads(run.data(), *data);
  Prefetcher batches(*data, plan, read_ahead);
  Evaluation evaluation;
  evaluation.step = checkpoint->manifest().step();
  evaluation.classifies = program->classifies();
  double loss_sum = 0, regularization = 0, correct = 0;
  for (int64_t block = 0; block < plan.batches_per_epoch(); ++block) {
    ASSIGN_OR_RETURN(const LoadedBatch* batch, batches.Take(0, block));
    if (block + 1 < plan.batches_per_epoch()) batches.Schedule(0, block + 1);
    BatchResult result;
    RETURN_IF_ERROR(program->Evaluate(*batch, parameters, versions, &result));
    batches.Release(batch);
    loss_sum += result.loss_sum;
    regularization = result.regularization;
    correct += static_cast<double>(result.correct);
    evaluation.examples += result.examples;
  }
  evaluation.loss = loss_sum / static_cast<double>(evaluation.examples) + regularization;
  evaluation.accuracy = correct / static_cast<double>(evaluation.examples);
  return evaluation;
}

int EvalMain(absl::Span<const std::string> args, const ModelFactory& model) {
  for (const std::string& arg : args) {
    if (arg != "--help" && arg != "-h") continue;
    std::printf(
        "usage: shoal eval --out=DIR [--step=N]\n\n"
        "The loss and accuracy of a checkpoint on the test split, as one line of JSON.\n\n%s",
        FlagHelp(kScopeUse).c_str());
    return kExitDone;
  }
  const absl::StatusOr<Evaluation> evaluation = Evaluate(args, model);
  if (!evaluation.ok()) {
    std::fprintf(stderr, "shoal eval: %s\n", std::string(evaluation.status().message()).c_str());
    return ExitCodeOf(evaluation.status());
  }
  JsonObject json;
  json.Add("step", evaluation->step)
      .Add("examples", evaluation->examples)
      .Add("test_loss", evaluation->loss)
      .Add("test_accuracy",
           evaluation->classifies ? absl::make_optional(evaluation->accuracy) : absl::nullopt);
  std::printf("%s\n", json.ToString().c_str());
  return kExitDone;
}

}  // namespace shoal

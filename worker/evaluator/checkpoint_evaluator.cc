#include "worker/evaluator/checkpoint_evaluator.h"

#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "ml/data/dataset_factory.h"
#include "ml/data/prefetcher.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/variables/metric_sums.h"
#include "worker/replica/batch_keys.h"
#include "worker/replica/checkpoint_rows.h"
#include "worker/replica/compute_backends.h"
#include "worker/replica/replica_inputs.h"
#include "worker/replica/trained_variables.h"

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

}  // namespace

absl::StatusOr<std::unique_ptr<CheckpointEvaluator>> CheckpointEvaluator::Create(
    const v1::RunConfig& run, const ModelFactory& model) {
  RETURN_IF_ERROR(CheckNotInComputeProgram(run));
  ASSIGN_OR_RETURN(std::unique_ptr<Dataset> data, OpenRunData(run, DataSplit::kTest, model));
  ASSIGN_OR_RETURN(std::unique_ptr<GraphProgram> program, MakeProgram(run, model, *data));
  BatchPlanOptions blocks;
  blocks.num_examples = data->size();
  blocks.batch_size = run.data().evaluation_block();
  blocks.shuffle = false;
  ASSIGN_OR_RETURN(BatchPlan plan, BatchPlan::Create(blocks));
  return std::unique_ptr<CheckpointEvaluator>(
      new CheckpointEvaluator(run, std::move(data), std::move(program), plan));
}

CheckpointEvaluator::CheckpointEvaluator(const v1::RunConfig& run, std::unique_ptr<Dataset> data,
                                         std::unique_ptr<GraphProgram> program, BatchPlan plan)
    : run_(run), data_(std::move(data)), program_(std::move(program)), plan_(plan) {}

absl::StatusOr<Evaluation> CheckpointEvaluator::Evaluate(Checkpoint* checkpoint,
                                                         const std::function<bool()>& is_stopped,
                                                         VariableValues which) {
  RETURN_IF_ERROR(CheckSameVariables(program_->variables(), checkpoint->manifest()));
  ASSIGN_OR_RETURN(const std::vector<std::vector<float>> values, ReadVariables(checkpoint, which));
  std::vector<const float*> parameters;
  for (const std::vector<float>& value : values) parameters.push_back(value.data());
  // The values stay within a checkpoint.
  const std::vector<uint64_t> versions(parameters.size(), ++num_evaluations_);
  PrefetcherOptions read_ahead;
  read_ahead.threads = DecodeThreads(run_.data(), *data_);
  std::unique_ptr<CheckpointRows> rows;  // null: the model has no tables
  if (!program_->lookups().empty()) {
    ASSIGN_OR_RETURN(rows, CheckpointRows::Create(checkpoint, program_->lookups()));
    RETURN_IF_ERROR(rows->ReadFor(*data_, plan_, read_ahead.threads, is_stopped));
    read_ahead.make_digest = [&rows] { return rows->MakeDigest(); };
  }
  Prefetcher batches(*data_, plan_, read_ahead);
  Evaluation evaluation;
  evaluation.step = checkpoint->manifest().step();
  evaluation.classifies = program_->classifies();
  MetricSums metrics;
  double loss_sum = 0, regularization = 0, correct = 0;
  for (int64_t block = 0; block < plan_.batches_per_epoch(); ++block) {
    if (is_stopped()) return absl::CancelledError("asked to stop");
    ASSIGN_OR_RETURN(const LoadedBatch* batch, batches.Take(0, block));
    if (block + 1 < plan_.batches_per_epoch()) batches.Schedule(0, block + 1);
    if (rows != nullptr) program_->UseRows(rows->GetRows(GetKeys(*batch)));
    BatchResult result;
    RETURN_IF_ERROR(program_->Evaluate(*batch, parameters, versions, &result));
    batches.Release(batch);
    loss_sum += result.loss_sum;
    regularization = result.regularization;
    correct += static_cast<double>(result.correct);
    evaluation.examples += result.examples;
    AddMetrics(result.metrics, &metrics);
  }
  evaluation.loss = loss_sum / static_cast<double>(evaluation.examples) + regularization;
  evaluation.accuracy = correct / static_cast<double>(evaluation.examples);
  FinishHistograms(&metrics);
  std::vector<std::string> names;
  for (const v1::MetricSpec& metric : program_->metrics()) names.push_back(metric.name());
  evaluation.named = NameMetrics(names, metrics);
  return evaluation;
}

}  // namespace shoal

#include "worker/replica/replica_inputs.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "base/hash.h"
#include "base/status_macros.h"
#include "ml/data/dataset_factory.h"
#include "ml/nn/model_builder.h"
#include "runtime/config/run_config.h"
#include "worker/replica/compute_backends.h"
#include "worker/replica/graph_program.h"

namespace shoal {
namespace {

// A warning begins at so many bytes of one embedding for each worker and step.
constexpr int64_t kMostMovedBytes = 64000000;

// The model is built for the training data and evaluates the test data.
absl::Status CheckSameFields(const Dataset& train, const Dataset& test) {
  const auto describe = [](const Dataset& data) {
    std::string text;
    for (const FieldSpec& field : data.fields()) {
      absl::StrAppend(&text, text.empty() ? "" : ", ", field.name, " ",
                      field.is_ragged() ? "ragged" : field.example.shape.ToString());
    }
    return text;
  };
  const std::string of_train = describe(train);
  const std::string of_test = describe(test);
  if (of_train == of_test) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("data.directory: test examples are ", of_test,
                                          ", but training examples are ", of_train,
                                          "; use two splits of one data set"));
}

// Refuses a batch size above the number of examples, because no batch would ever be complete.
absl::Status CheckBatchSize(const v1::RunConfig& run, int64_t examples) {
  if (ReplicaBatchExamples(run) <= static_cast<uint64_t>(examples)) return absl::OkStatus();
  if (run.replica_batch_size() > 0) {
    return absl::InvalidArgumentError(absl::StrCat("replica_batch_size: ", run.replica_batch_size(),
                                                   " is more than the ", examples,
                                                   " training examples; give that many or less"));
  }
  const uint32_t clones = run.deployment().num_clones();
  return absl::InvalidArgumentError(absl::StrCat(
      "batch_size: ", run.batch_size(), " x ", clones, clones == 1 ? " clone" : " clones",
      " is more than the ", examples, " training examples; give --batch_size=",
      std::max<int64_t>(1, examples / clones), " or less"));
}

// The same for data of the program itself.
absl::Status LoadOwnData(const v1::RunConfig& run, const ModelFactory& model,
                         ReplicaInputs* inputs) {
  ASSIGN_OR_RETURN(inputs->train, OpenRunData(run, DataSplit::kTrain, model));
  absl::StatusOr<std::unique_ptr<Dataset>> test = OpenRunData(run, DataSplit::kTest, model);
  if (absl::IsNotFound(test.status())) return absl::OkStatus();
  ASSIGN_OR_RETURN(inputs->test, std::move(test));
  return CheckSameFields(*inputs->train, *inputs->test);
}

absl::Status LoadData(const v1::RunConfig& run, const ModelFactory& model, ReplicaInputs* inputs) {
  ASSIGN_OR_RETURN(inputs->train, OpenRunData(run, DataSplit::kTrain, model));
  ASSIGN_OR_RETURN(const bool has_test, HasTestSplit(run.data()));
  if (has_test) {
    ASSIGN_OR_RETURN(inputs->test, OpenRunData(run, DataSplit::kTest, model));
    RETURN_IF_ERROR(CheckSameFields(*inputs->train, *inputs->test));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> OpenRunData(const v1::RunConfig& run, DataSplit split,
                                                     const ModelFactory& model) {
  if (model.dataset() == nullptr) {
    return MakeDataset(run.data(), split, run.seed(), model.RulesFor(run));
  }
  ASSIGN_OR_RETURN(std::unique_ptr<Dataset> data, model.dataset()(run, split));
  if (data != nullptr && data->size() > 0) return data;
  return absl::InvalidArgumentError(
      absl::StrCat("the program's data set has no examples in its ",
                   split == DataSplit::kTrain ? "training" : "test",
                   " split; return NotFound if it has no test split"));
}

absl::Status PlanBatches(const v1::RunConfig& run, ReplicaInputs* inputs) {
  RETURN_IF_ERROR(CheckBatchSize(run, inputs->train->size()));
  BatchPlanOptions train;
  train.num_examples = inputs->train->size();
  train.batch_size = static_cast<int64_t>(ReplicaBatchExamples(run));
  train.seed = run.seed();
  ASSIGN_OR_RETURN(inputs->train_plan, BatchPlan::Create(train));
  if (inputs->test == nullptr) return absl::OkStatus();
  BatchPlanOptions test;
  test.num_examples = inputs->test->size();
  test.batch_size = run.data().evaluation_block();
  test.shuffle = false;
  ASSIGN_OR_RETURN(inputs->test_plan, BatchPlan::Create(test));
  return absl::OkStatus();
}

v1::ModelDeclaration DeclareModel(const ReplicaInputs& inputs, bool classifies) {
  v1::ModelDeclaration model;
  const ReplicaProgram& program = *inputs.program;
  for (const v1::VariableSpec& variable : program.variables()) *model.add_variables() = variable;
  model.set_train_examples(static_cast<uint64_t>(inputs.train->size()));
  model.set_compute_fingerprint(program.compute_fingerprint());
  model.set_classifies(classifies);
  for (const v1::MetricSpec& metric : program.metrics()) *model.add_metrics() = metric;
  const uint64_t of_test = inputs.test == nullptr ? 0 : inputs.test->fingerprint();
  model.set_data_fingerprint(CombineFingerprints(inputs.train->fingerprint(), of_test));
  if (inputs.test == nullptr) return model;
  model.set_test_examples(static_cast<uint64_t>(inputs.test->size()));
  // An evaluation block is a batch of the test plan.
  model.set_evaluation_blocks(static_cast<uint64_t>(inputs.test_plan->batches_per_epoch()));
  return model;
}

namespace {

// Says of the model's error that nobody gave the number of classes that it is about.
absl::Status ExplainClasses(const v1::RunConfig& run, const Dataset& train, int64_t classes,
                            const absl::Status& status) {
  const bool is_assumed = run.data().classes() == 0 && train.class_names().empty();
  if (!is_assumed || !absl::StrContains(status.message(), "data.classes")) return status;
  return absl::Status(
      status.code(), absl::StrCat(status.message(), " (it is unset and the labels are numbers, so ",
                                  classes, " are assumed)"));
}

// Explains the error of a model whose loss wants classes while the labels are other numbers.
absl::Status ExplainLabels(const std::vector<FieldSpec>& fields, const absl::Status& status) {
  const size_t target = FirstTarget(fields);
  if (!absl::StrContains(status.message(), "SparseSoftmaxCrossEntropy") ||
      target == fields.size() || !IsFloating(fields[target].example.dtype)) {
    return status;
  }
  return absl::Status(
      status.code(),
      absl::StrCat("data: the labels are ", DataTypeName(fields[target].example.dtype),
                   " numbers, but the loss sparse_softmax_cross_entropy needs classes; save them ",
                   "as integers from 0, or set model.loss to a loss of numbers, such as ",
                   "mean_squared_error"));
}

// Notices that the outputs do not fit the classes, as far as the classes are known.
void AddNotices(const v1::RunConfig& run, int64_t classes, ReplicaInputs* inputs) {
  const Dataset& train = *inputs->train;
  if (run.data().classes() == 0 && train.num_classes() == 0) return;
  if (train.num_classes() == 1) {
    inputs->notices.push_back(
        absl::StrCat("data: all examples are of one class",
                     train.class_names().empty() ? "" : absl::StrCat(", ", train.class_names()[0]),
                     ", so there is nothing to tell apart; check --data_dir"));
  }
  std::string notice =
      NoticeOfExtraOutputs(run.model(), train.fields(), classes, !train.class_names().empty());
  if (!notice.empty()) inputs->notices.push_back(std::move(notice));
}

// Warns of embeddings that are moved as a whole although a batch reads few of their rows.
void AddEmbeddingNotices(const v1::RunConfig& run, const GraphProgram& program,
                         ReplicaInputs* inputs) {
  if (run.deployment().num_ps_tasks() == 0) return;
  for (const VariableSpec& embedding : program.DenseEmbeddings()) {
    const int64_t bytes = embedding.shape.num_elements() * static_cast<int64_t>(sizeof(float));
    if (2 * bytes <= kMostMovedBytes) continue;
    inputs->notices.push_back(absl::StrCat(
        "model: each worker pulls and pushes all rows of the embedding ", embedding.name, " ",
        embedding.shape.ToString(), " in every step, ", 2 * bytes / 1000000,
        " MB; make it a table, of which only the rows of a batch are moved (docs/tables.md)"));
  }
}

}  // namespace

ModelFactory ModelFromRunFile() {
  const auto make = [](const v1::RunConfig& run, const std::vector<FieldSpec>& fields,
                       int64_t classes) -> absl::StatusOr<ModelFunction> {
    if (!run.deployment().worker_binary().empty()) {
      return absl::FailedPreconditionError(absl::StrCat("worker_binary: the run's model is in ",
                                                        run.deployment().worker_binary(),
                                                        "; start that program instead of shoal"));
    }
    return MakeModel(run.model(), fields, classes, {run.metrics().begin(), run.metrics().end()},
                     &run.table());
  };
  const auto rules = [](const v1::RunConfig& run) { return DataRulesOf(run.model()); };
  return ModelFactory(make, /*dataset=*/nullptr, rules);
}

absl::StatusOr<ReplicaInputs> LoadReplicaInputs(const v1::RunConfig& run, uint32_t replica_id,
                                                const ModelFactory& model) {
  ReplicaInputs inputs;
  RETURN_IF_ERROR(model.dataset() == nullptr ? LoadData(run, model, &inputs)
                                             : LoadOwnData(run, model, &inputs));
  RETURN_IF_ERROR(PlanBatches(run, &inputs));
  GraphProgram::Options program;
  program.run = run;
  program.run.mutable_deployment()->set_replica_id(replica_id);
  program.fields = inputs.train->fields();
  const int64_t classes = NumClasses(run.data(), *inputs.train);
  absl::StatusOr<ModelFunction> made = model(run, program.fields, classes);
  if (!made.ok()) {
    return ExplainLabels(inputs.train->fields(),
                         ExplainClasses(run, *inputs.train, classes, made.status()));
  }
  program.model = *std::move(made);
  SetBackends(&program);
  ASSIGN_OR_RETURN(std::unique_ptr<GraphProgram> graph, GraphProgram::Create(std::move(program)));
  const bool classifies = graph->classifies();
  inputs.missing_devices = graph->missing_devices();
  inputs.placement = graph->PlacementLines();
  AddEmbeddingNotices(run, *graph, &inputs);
  inputs.program = std::move(graph);
  inputs.declaration = DeclareModel(inputs, classifies);
  AddNotices(run, classes, &inputs);
  const Dataset& judged = inputs.test != nullptr ? *inputs.test : *inputs.train;
  if (std::string notice = judged.notice(); !notice.empty()) inputs.notices.push_back(notice);
  return inputs;
}

}  // namespace shoal

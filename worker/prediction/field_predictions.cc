#include "worker/prediction/field_predictions.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "ml/data/batch_plan.h"
#include "ml/data/dataset_factory.h"
#include "ml/data/prefetcher.h"
#include "ml/graph/compiler.h"
#include "ml/graph/executable.h"
#include "ml/graph/graph.h"
#include "ml/graph/graph_builder.h"
#include "ml/nn/model.h"
#include "worker/replica/batch_feeds.h"
#include "worker/replica/batch_keys.h"
#include "worker/replica/checkpoint_rows.h"
#include "worker/replica/declared_variable.h"
#include "worker/replica/device_selection.h"
#include "worker/replica/model_tables.h"
#include "worker/replica/trained_variables.h"

namespace shoal {
namespace {

// The graph of the predictions, compiled once for each number of examples and for as many keys as a
// batch has had.
class FieldModel {
 public:
  FieldModel(const FieldPredictionOptions& options, const std::vector<FieldSpec>& fields)
      : options_(options), fields_(fields), queue_(fields) {}

  // Errors name the layer, the table or the column that does not fit.
  absl::Status Build() {
    GraphBuilder builder(&graph_);
    const auto device = builder.WithDevice(options_.parallel.devices[0]);
    const std::vector<Output> batch = queue_.Dequeue(builder);
    const std::vector<BatchInput> parts = BatchInputs(fields_);
    std::vector<Output> inputs;
    for (size_t i = 0; i < batch.size(); ++i) {
      if (!IsTarget(fields_[parts[i].field])) inputs.push_back(batch[i]);
    }
    const std::vector<Output> outputs = options_.model(builder, inputs, /*is_training=*/false);
    RETURN_IF_ERROR(builder.status());
    predictions_ = outputs[0];
    if (predictions_.dtype() != DataType::kFloat32) {
      return absl::InvalidArgumentError("model: its predictions are not float32; cast them");
    }
    for (const Variable& variable : graph_.variables()) {
      variables_.push_back(DeclaredVariable(variable.spec));
    }
    RETURN_IF_ERROR(
        tables_.Declare(graph_, fields_, options_.run, static_cast<uint32_t>(variables_.size())));
    variables_.insert(variables_.end(), tables_.specs().begin(), tables_.specs().end());
    return absl::OkStatus();
  }

  // The dense variables, then the tables.
  const std::vector<v1::VariableSpec>& variables() const { return variables_; }
  const std::vector<TableLookups>& lookups() const { return tables_.lookups(); }

  // Returns the predictions of a batch. `values` are those of variables(), of which tables have
  // none, and `rows` those of the batch in the tables.
  absl::StatusOr<Tensor> Predict(const LoadedBatch& batch,
                                 const std::vector<std::vector<float>>& values,
                                 absl::Span<const TableRows> rows) {
    ASSIGN_OR_RETURN(Compiled* const compiled, CompiledFor(batch, rows));
    std::vector<const void*> inputs = compiled->feeds->Bind(batch);
    compiled->table_feeds->Bind(batch, rows, &inputs);
    std::vector<const void*> variables;
    for (size_t v = 0; v < graph_.variables().size(); ++v) variables.push_back(values[v].data());
    Tensor predictions(compiled->executable->output_specs()[0]);
    void* const output = predictions.mutable_data();
    RunBindings bindings;
    bindings.inputs = inputs;
    bindings.variables = variables;
    bindings.outputs = absl::MakeConstSpan(&output, 1);
    compiled->executable->Run(bindings);
    RETURN_IF_ERROR(compiled->executable->status());
    return predictions;
  }

 private:
  struct Compiled {
    std::unique_ptr<Executable> executable;
    std::unique_ptr<BatchFeeds> feeds;
    std::unique_ptr<TableFeeds> table_feeds;
  };

  absl::StatusOr<Compiled*> CompiledFor(const LoadedBatch& batch,
                                        absl::Span<const TableRows> rows) {
    Compiled& compiled = compiled_[batch.num_examples];
    if (compiled.executable == nullptr) {
      RETURN_IF_ERROR(
          Compile(FirstCapacities(fields_, {batch.num_examples}), batch, rows, &compiled));
    }
    if (!compiled.feeds->Fits(batch) || !compiled.table_feeds->Fits(rows)) {
      RETURN_IF_ERROR(Compile(compiled.feeds->CapacitiesFor(batch), batch, rows, &compiled));
    }
    return &compiled;
  }

  absl::Status Compile(std::vector<int64_t> capacities, const LoadedBatch& batch,
                       absl::Span<const TableRows> rows, Compiled* compiled) const {
    const std::vector<int64_t> examples = {batch.num_examples};
    std::vector<int64_t> row_capacities;
    for (const TableRows& table : rows) row_capacities.push_back(table.capacity);
    compiled->feeds = std::make_unique<BatchFeeds>(queue_, examples, std::move(capacities));
    compiled->table_feeds =
        std::make_unique<TableFeeds>(tables_, graph_, fields_, examples,
                                     compiled->feeds->capacities(), std::move(row_capacities));
    CompileRequest request;
    request.graph = &graph_;
    request.fetches = {predictions_};
    request.clone_examples = examples;
    request.feeds = compiled->feeds->feeds();
    const std::vector<CompileRequest::Feed>& of_tables = compiled->table_feeds->feeds();
    request.feeds.insert(request.feeds.end(), of_tables.begin(), of_tables.end());
    const ParallelModelOptions& parallel = options_.parallel;
    const std::vector<std::string> devices = {parallel.devices[0]};
    ASSIGN_OR_RETURN(request.placer.devices,
                     LocalDevices("worker", 0, PresentDevices(devices, parallel.accelerators)));
    request.placer.allow_soft_placement = parallel.allow_soft_placement;
    request.backend = &parallel.backend;
    std::vector<const KernelBackend*> backends = {&parallel.backend};
    for (const KernelBackend& accelerator : parallel.accelerators) {
      request.accelerators.push_back(&accelerator);
      backends.push_back(&accelerator);
    }
    request.placer.has_kernel = [backends](absl::string_view device_type, const Node& node) {
      return HasKernel(backends, device_type, node);
    };
    request.threads_per_device = parallel.threads_per_device;
    request.compute_dtype = parallel.compute_dtype;
    ASSIGN_OR_RETURN(compiled->executable, shoal::Compile(request));
    return absl::OkStatus();
  }

  const FieldPredictionOptions& options_;
  const std::vector<FieldSpec>& fields_;
  Graph graph_;
  InputQueue queue_;
  Output predictions_;
  ModelTables tables_;
  std::vector<v1::VariableSpec> variables_;
  std::map<int64_t, Compiled> compiled_;  // keyed by number of examples
};

}  // namespace

bool NeedsFieldPredictions(const Dataset& data, const Checkpoint& checkpoint) {
  const std::vector<FieldSpec> inputs = InputFields(data.fields());
  return checkpoint.slices().has_tables() ||
         std::any_of(inputs.begin(), inputs.end(),
                     [](const FieldSpec& field) { return field.is_ragged(); });
}

absl::StatusOr<Tensor> PredictFields(const FieldPredictionOptions& options, const Dataset& data,
                                     Checkpoint* checkpoint, VariableValues which) {
  FieldModel model(options, data.fields());
  RETURN_IF_ERROR(model.Build());
  RETURN_IF_ERROR(CheckSameVariables(model.variables(), checkpoint->manifest()));
  ASSIGN_OR_RETURN(const std::vector<std::vector<float>> values, ReadVariables(checkpoint, which));
  BatchPlanOptions batching;
  batching.num_examples = data.size();
  batching.batch_size = options.run.batch_size();
  batching.shuffle = false;
  ASSIGN_OR_RETURN(const BatchPlan plan, BatchPlan::Create(batching));
  PrefetcherOptions read_ahead;
  read_ahead.threads = DecodeThreads(options.run.data(), data);
  ASSIGN_OR_RETURN(const std::unique_ptr<CheckpointRows> rows,
                   CheckpointRows::Create(checkpoint, model.lookups()));
  RETURN_IF_ERROR(rows->ReadFor(data, plan, read_ahead.threads, [] { return false; }));
  read_ahead.make_digest = [&rows] { return rows->MakeDigest(); };
  Prefetcher batches(data, plan, read_ahead);
  Tensor predictions;
  for (int64_t index = 0; index < plan.batches_per_epoch(); ++index) {
    ASSIGN_OR_RETURN(const LoadedBatch* batch, batches.Take(0, index));
    if (index + 1 < plan.batches_per_epoch()) batches.Schedule(0, index + 1);
    ASSIGN_OR_RETURN(const Tensor part,
                     model.Predict(*batch, values, rows->GetRows(GetKeys(*batch))));
    if (index == 0) {
      Shape shape = part.shape();
      if (shape.rank() == 0 || shape.dim(0) != batch->num_examples) {
        return absl::InvalidArgumentError(
            absl::StrCat("model: its predictions are ", shape.ToString(), " for ",
                         batch->num_examples, " examples, not one row for each"));
      }
      shape.set_dim(0, data.size());
      predictions = Tensor(DataType::kFloat32, shape);
    }
    const int64_t row_size = part.shape().num_elements() / batch->num_examples;
    std::copy(part.span<float>().begin(), part.span<float>().end(),
              predictions.mutable_span<float>().begin() + plan.first_example(index) * row_size);
    batches.Release(batch);
  }
  return predictions;
}

}  // namespace shoal

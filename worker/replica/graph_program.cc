#include "worker/replica/graph_program.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "base/log.h"
#include "base/status_macros.h"
#include "ml/tensor/device_spec.h"
#include "runtime/config/name_patterns.h"
#include "runtime/config/optimizer_groups.h"
#include "runtime/config/run_config.h"
#include "worker/replica/declared_variable.h"
#include "worker/replica/device_selection.h"
#include "worker/replica/graph_metrics.h"

namespace shoal {
namespace {

// Adds lines with the devices of each variable's gradients: one for each term of the sum over the
// clones and one for the sum. With one clone there is only the gradient itself.
void AddGradientLines(const TrainOp& train_op,
                      const std::function<std::string(const Node& node)>& device_of,
                      std::vector<std::string>* lines) {
  for (const GradientAndVariable& pair : train_op.gradients) {
    const Node& sum = *pair.gradient.node;
    const bool is_sum = sum.clone_index < 0;
    for (const Output& part : is_sum ? sum.inputs : std::vector<Output>{pair.gradient}) {
      lines->push_back(absl::StrCat("gradient ", part.name(), " of ", pair.variable.name(), " on ",
                                    device_of(*part.node)));
    }
    if (!is_sum) continue;
    lines->push_back(
        absl::StrCat("gradients of ", pair.variable.name(), " summed on ", device_of(sum)));
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<GraphProgram>> GraphProgram::Create(Options options) {
  std::unique_ptr<GraphProgram> program(new GraphProgram(std::move(options)));
  program->optimizer_ = program->options_.run.optimizer();
  RETURN_IF_ERROR(program->Build(true, &program->train_));
  RETURN_IF_ERROR(program->Build(false, &program->evaluate_));
  RETURN_IF_ERROR(CheckSameMetrics(program->train_.metrics, program->evaluate_.metrics));
  RETURN_IF_ERROR(program->DeclareVariables());
  RETURN_IF_ERROR(program->CheckEvaluationVariables());
  RETURN_IF_ERROR(program->DeclareTables());
  RETURN_IF_ERROR(program->DeclareSummaries());
  RETURN_IF_ERROR(
      program->Prepare(static_cast<int64_t>(ReplicaBatchExamples(program->options_.run))));
  return program;
}

absl::Status GraphProgram::Build(bool is_training, Deployed* deployed) {
  deployed->graph = std::make_unique<Graph>();
  deployed->queue = std::make_unique<InputQueue>(options_.fields);
  ASSIGN_OR_RETURN(DeploymentConfig config, DeploymentOfRun(options_.run, options_.accelerators));
  GraphBuilder builder(deployed->graph.get());
  const auto& trainable = options_.run.trainable();
  ASSIGN_OR_RETURN(const NamePatterns trained,
                   NamePatterns::Create("trainable", {trainable.begin(), trainable.end()}));
  ASSIGN_OR_RETURN(const OptimizerGroups groups, OptimizerGroups::Create(optimizer_));
  std::vector<std::string> parameters;
  if (!trained.empty() || groups.size() > 0) {
    builder.TrainOnly([&](const std::string& name) {
      parameters.push_back(name);
      return (trained.empty() || trained.Matches(name)) && !groups.IsFrozen(name);
    });
  }
  std::vector<std::vector<ModelMetric>> metrics;  // indexed by clone
  const CloneFunction clone = [&](GraphBuilder& clone_builder) {
    ModelOutputs outputs =
        options_.model(clone_builder, deployed->queue->Dequeue(clone_builder), is_training);
    metrics.push_back(std::move(outputs.metrics));
    return std::vector<Output>{outputs.predictions, outputs.loss};
  };
  ASSIGN_OR_RETURN(deployed->model,
                   Deploy(config, builder, clone, is_training ? &optimizer_ : nullptr,
                          options_.run.summary().model_every() > 0));
  ASSIGN_OR_RETURN(deployed->metrics, SumMetrics(metrics, &builder));
  RETURN_IF_ERROR(builder.status());
  return trained.CheckAllAreUsed("trainable", parameters);
}

std::vector<v1::MetricSpec> GraphProgram::metrics() const {
  std::vector<v1::MetricSpec> specs;
  for (const ReplicaMetric& metric : train_.metrics) {
    v1::MetricSpec& spec = specs.emplace_back();
    spec.set_name(metric.name);
    spec.set_kind(metric.scored.empty() ? v1::METRIC_KIND_MEAN : v1::METRIC_KIND_AUC);
  }
  return specs;
}

absl::Status GraphProgram::DeclareVariables() {
  const Graph& graph = *train_.graph;
  if (!train_.model.train_op.has_value()) {
    return absl::InvalidArgumentError(
        "model: nothing to train; it needs a loss that depends on a trainable variable");
  }
  for (const Variable& variable : graph.variables())
    variables_.push_back(DeclaredVariable(variable.spec));
  contribution_of_.resize(variables_.size());
  for (const GradientAndVariable& pair : train_.model.train_op->gradients) {
    contribution_of_[static_cast<size_t>(pair.variable.node->variable_index)] = pair.gradient;
  }
  for (const Output& update : train_.model.train_op->update_ops) {
    const Variable* variable =
        graph.FindVariable(update.node->attributes.GetString("variable", ""));
    if (variable == nullptr)
      return absl::InternalError(absl::StrCat(update.name(), " updates no variable"));
    contribution_of_[static_cast<size_t>(variable->node->variable_index)] = update;
  }
  DeclareResults(&evaluate_, &evaluate_fetches_);
  DeclareResults(&train_, &train_fetches_);
  results_.resize(train_fetches_.size());
  for (uint32_t v = 0; v < contribution_of_.size(); ++v) {
    if (!contribution_of_[v].valid()) continue;
    contributing_.push_back(v);
    train_fetches_.push_back(contribution_of_[v]);
  }
  return absl::OkStatus();
}

absl::Status GraphProgram::DeclareTables() {
  RETURN_IF_ERROR(tables_.Declare(*train_.graph, options_.fields, options_.run,
                                  static_cast<uint32_t>(variables_.size())));
  RETURN_IF_ERROR(tables_.CheckReads(*evaluate_.graph, options_.fields));
  if (tables_.empty()) return absl::OkStatus();
  variables_.insert(variables_.end(), tables_.specs().begin(), tables_.specs().end());
  contribution_of_.resize(variables_.size());
  first_row_capacities_ =
      tables_.FirstCapacities(static_cast<int64_t>(ReplicaBatchExamples(options_.run)));
  row_fetches_.assign(tables_.lookups().size(), -1);
  for (size_t t = 0; t < row_fetches_.size(); ++t) {
    for (const GradientAndVariable& pair : train_.model.train_op->row_gradients) {
      if (!(pair.variable == train_.graph->table_inputs()[t].rows)) continue;
      row_fetches_[t] = static_cast<int>(train_fetches_.size());
      train_fetches_.push_back(pair.gradient);
    }
  }
  return absl::OkStatus();
}

const float* GraphProgram::RowGradients(size_t lookup) const {
  if (last_trained_ == nullptr || row_fetches_[lookup] < 0) return nullptr;
  return static_cast<const float*>(last_trained_->row_gradients[lookup].data());
}

absl::Status GraphProgram::CheckEvaluationVariables() const {
  for (const Variable& variable : evaluate_.graph->variables()) {
    const VariableSpec& spec = variable.spec;
    const Variable* trained = train_.graph->FindVariable(spec.name);
    if (trained == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(
          "model: variable ", spec.name, " is there only without is_training; make it always"));
    }
    const TensorSpec wanted{trained->spec.dtype, trained->spec.shape};
    const TensorSpec read{spec.dtype, spec.shape};
    if (wanted == read) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "model: variable ", spec.name, " is ", wanted.ToString(), " with is_training, ",
        read.ToString(), " only without is_training; make it the same"));
  }
  return absl::OkStatus();
}

void GraphProgram::DeclareResults(Deployed* deployed, std::vector<Output>* fetches) {
  const auto add = [fetches](const Output& output, int* index) {
    if (!output.valid()) return;
    *index = static_cast<int>(fetches->size());
    fetches->push_back(output);
  };
  add(deployed->model.data_loss, &deployed->results.data_loss);
  add(deployed->model.regularization_loss, &deployed->results.regularization);
  add(deployed->model.correct_count, &deployed->results.correct);
  for (const ReplicaMetric& metric : deployed->metrics) {
    ResultIndices::Metric& indices = deployed->results.metrics.emplace_back();
    for (size_t clone = 0; clone < metric.scored.size(); ++clone) {
      ScoredExamples& examples = indices.scored.emplace_back();
      examples.clone = clone;
      add(metric.scored[clone].scores, &examples.scores);
      add(metric.scored[clone].labels, &examples.labels);
    }
    add(metric.sum, &indices.sum);
    add(metric.weight, &indices.weight);
  }
  deployed->results.count = static_cast<int>(fetches->size());
}

void GraphProgram::BindResults(const ResultIndices& indices, std::vector<float>* scalars,
                               Compiled* compiled) {
  for (size_t i = 0; i < static_cast<size_t>(indices.count); ++i) {
    compiled->outputs[i] = &(*scalars)[i];
  }
  compiled->scores.resize(static_cast<size_t>(indices.count));
  for (const ResultIndices::Metric& metric : indices.metrics) {
    for (const ScoredExamples& examples : metric.scored) {
      const int64_t count = std::max<int64_t>(1, compiled->clone_examples[examples.clone]);
      for (const int output : {examples.scores, examples.labels}) {
        std::vector<float>& memory = compiled->scores[static_cast<size_t>(output)];
        memory.resize(static_cast<size_t>(count));
        compiled->outputs[static_cast<size_t>(output)] = memory.data();
      }
    }
  }
}

void GraphProgram::StoreResults(const ResultIndices& indices, const Compiled& compiled,
                                int64_t num_examples, BatchResult* result) {
  const auto value = [&](int output) {
    return *static_cast<const float*>(compiled.outputs[static_cast<size_t>(output)]);
  };
  if (indices.data_loss >= 0) {
    result->loss_sum =
        static_cast<double>(value(indices.data_loss)) * static_cast<double>(num_examples);
  }
  if (indices.regularization >= 0) result->regularization = value(indices.regularization);
  if (indices.correct >= 0) {
    result->correct = static_cast<uint64_t>(std::llround(value(indices.correct)));
  }
  result->examples = static_cast<uint64_t>(num_examples);
  result->metrics.assign(indices.metrics.size(), MetricSum());
  for (size_t m = 0; m < indices.metrics.size(); ++m) {
    const ResultIndices::Metric& metric = indices.metrics[m];
    if (!metric.scored.empty()) {
      result->metrics[m].histogram =
          HistogramOf(metric.scored, compiled.clone_examples, compiled.outputs);
      continue;
    }
    result->metrics[m].sum = value(metric.sum);
    result->metrics[m].weight =
        metric.weight >= 0 ? value(metric.weight) : static_cast<double>(num_examples);
  }
}

absl::Status GraphProgram::DeclareSummaries() {
  if (options_.run.summary().model_every() == 0) return absl::OkStatus();
  for (const ScalarSummary& scalar : train_.model.summaries) {
    Summary summary;
    summary.tags.scalar = scalar.name;
    summary.value = scalar.value;
    summaries_.push_back(std::move(summary));
  }
  for (const HistogramSummary& histogram : train_.model.histograms) {
    Summary summary;
    summary.tags.histogram = histogram.name;
    summary.tags.norm = histogram.norm_name;
    summary.value = histogram.value;
    summaries_.push_back(std::move(summary));
  }
  for (Summary& summary : summaries_) {
    if (summary.value.dtype() != DataType::kFloat32) {
      return absl::InvalidArgumentError(absl::StrCat(
          "model: ", summary.value.name(), " is summarised but not float32; cast it before"));
    }
    const auto same = std::find(train_fetches_.begin(), train_fetches_.end(), summary.value);
    const auto index = static_cast<int>(same - train_fetches_.begin());
    const int num_results = train_.results.count;
    const auto contributions_end = num_results + static_cast<int>(contributing_.size());
    if (index < num_results) {
      summary.result = index;
    } else if (index < contributions_end) {
      summary.variable = static_cast<int>(contributing_[static_cast<size_t>(index - num_results)]);
    } else {
      summary.fetch = index;
      if (same == train_fetches_.end()) train_fetches_.push_back(summary.value);
    }
  }
  return absl::OkStatus();
}

void GraphProgram::BindSummaries(Compiled* compiled) const {
  compiled->summaries.resize(summaries_.size());
  for (size_t i = 0; i < summaries_.size(); ++i) {
    if (summaries_[i].fetch < 0) continue;
    const auto fetch = static_cast<size_t>(summaries_[i].fetch);
    std::vector<float>& values = compiled->summaries[i];
    values.resize(
        static_cast<size_t>(compiled->executable->output_specs()[fetch].shape.num_elements()));
    compiled->outputs[fetch] = values.data();
  }
}

std::vector<BatchSummary> GraphProgram::Summaries(absl::Span<float* const> contributions) const {
  std::vector<BatchSummary> all;
  for (size_t i = 0; last_trained_ != nullptr && i < summaries_.size(); ++i) {
    const Summary& summary = summaries_[i];
    BatchSummary& batch = all.emplace_back(summary.tags);
    if (summary.result >= 0) {
      batch.values = absl::MakeConstSpan(&results_[summary.result], 1);
    } else if (summary.variable >= 0) {
      const Shape& shape =
          train_.graph->variables()[static_cast<size_t>(summary.variable)].spec.shape;
      batch.values = absl::MakeConstSpan(contributions[static_cast<size_t>(summary.variable)],
                                         static_cast<size_t>(shape.num_elements()));
    } else {
      batch.values = last_trained_->summaries[i];
    }
  }
  return all;
}

absl::StatusOr<PlacerOptions> GraphProgram::PlacerFor() const {
  const v1::DeploymentOptions& deployment = options_.run.deployment();
  PlacerOptions placer;
  ASSIGN_OR_RETURN(placer.devices, LocalDevices(deployment.worker_job_name(),
                                                static_cast<int>(deployment.replica_id()),
                                                DevicesOfRun(options_.run, options_.accelerators)));
  placer.allow_soft_placement = deployment.allow_soft_placement();
  placer.has_kernel = [this](absl::string_view device_type, const Node& node) {
    std::vector<const KernelBackend*> backends = {&options_.backend};
    for (const KernelBackend& backend : options_.accelerators) backends.push_back(&backend);
    return HasKernel(backends, device_type, node);
  };
  return placer;
}

std::vector<int64_t> GraphProgram::ExamplesPerClone(int64_t num_examples, size_t num_clones) const {
  std::vector<int64_t> examples;
  const auto clones = static_cast<int64_t>(num_clones);
  for (int64_t c = 0; c < clones; ++c)
    examples.push_back(num_examples / clones + (c < num_examples % clones ? 1 : 0));
  return examples;
}

absl::StatusOr<std::unique_ptr<GraphProgram::Compiled>> GraphProgram::CompileFor(
    const Deployed& deployed, const std::vector<Output>& fetches, int64_t num_examples,
    std::vector<int64_t> capacities) {
  auto compiled = std::make_unique<Compiled>();
  CompileRequest request;
  request.graph = deployed.graph.get();
  request.fetches = fetches;
  request.clone_examples = ExamplesPerClone(num_examples, deployed.queue->batches().size());
  compiled->clone_examples = request.clone_examples;
  // A clone without examples has no inputs, so another result takes the place of its scores.
  for (const ResultIndices::Metric& metric : deployed.results.metrics) {
    for (const ScoredExamples& examples : metric.scored) {
      if (request.clone_examples[examples.clone] > 0) continue;
      request.fetches[static_cast<size_t>(examples.scores)] = fetches[0];
      request.fetches[static_cast<size_t>(examples.labels)] = fetches[0];
    }
  }
  if (capacities.empty()) capacities = FirstCapacities(options_.fields, request.clone_examples);
  compiled->feeds =
      std::make_unique<BatchFeeds>(*deployed.queue, request.clone_examples, std::move(capacities));
  request.feeds = compiled->feeds->feeds();
  if (!tables_.empty()) {
    std::vector<int64_t> row_capacities = first_row_capacities_;
    for (size_t t = 0; t < rows_.size(); ++t) row_capacities[t] = rows_[t].capacity;
    compiled->table_feeds = std::make_unique<TableFeeds>(
        tables_, *deployed.graph, options_.fields, request.clone_examples,
        compiled->feeds->capacities(), std::move(row_capacities));
    const std::vector<CompileRequest::Feed>& feeds = compiled->table_feeds->feeds();
    request.feeds.insert(request.feeds.end(), feeds.begin(), feeds.end());
  }
  ASSIGN_OR_RETURN(request.placer, PlacerFor());
  if (options_.run.deployment().log_device_placement()) {
    request.placer.log = [](const std::string& line) { LOG(INFO) << line; };
  }
  request.backend = &options_.backend;
  for (const KernelBackend& accelerator : options_.accelerators) {
    request.accelerators.push_back(&accelerator);
  }
  const v1::DeploymentOptions& deployment = options_.run.deployment();
  request.group_devices = deployment.num_ps_tasks() == 0 && deployment.variables() == "mirrored";
  request.record_steps = deployment.cuda_graphs();
  if (ComputesInBfloat16(options_.run)) request.compute_dtype = DataType::kBfloat16;
  request.threads_per_device = static_cast<int>(options_.run.deployment().threads());
  ASSIGN_OR_RETURN(compiled->executable, Compile(request));
  compiled->variables.resize(deployed.graph->variables().size());
  compiled->versions.resize(deployed.graph->variables().size());
  compiled->outputs.resize(fetches.size());
  if (&deployed == &train_) {
    BindSummaries(compiled.get());
    BindRowGradients(compiled.get());
  }
  return compiled;
}

void GraphProgram::BindRowGradients(Compiled* compiled) const {
  for (size_t t = 0; t < row_fetches_.size(); ++t) {
    const int64_t floats = compiled->table_feeds->row_capacity(t) * tables_.dim(t);
    compiled->row_gradients.emplace_back(static_cast<uint64_t>(floats) * sizeof(float));
    if (row_fetches_[t] < 0) continue;
    compiled->outputs[static_cast<size_t>(row_fetches_[t])] = compiled->row_gradients[t].data();
  }
}

absl::Status GraphProgram::Prepare(int64_t num_examples) {
  std::unique_ptr<Compiled>& compiled = train_compiled_[num_examples];
  if (compiled != nullptr) return absl::OkStatus();
  ASSIGN_OR_RETURN(compiled, CompileFor(train_, train_fetches_, num_examples, {}));
  return absl::OkStatus();
}

absl::StatusOr<GraphProgram::Compiled*> GraphProgram::CompiledFor(
    const LoadedBatch& batch, const Deployed& deployed, const std::vector<Output>& fetches,
    CompiledBySize* all) {
  std::unique_ptr<Compiled>& compiled = (*all)[batch.num_examples];
  if (compiled == nullptr) {
    ASSIGN_OR_RETURN(compiled, CompileFor(deployed, fetches, batch.num_examples, {}));
  }
  const bool has_room = compiled->table_feeds == nullptr || compiled->table_feeds->Fits(rows_);
  if (!has_room || !compiled->feeds->Fits(batch)) {
    ASSIGN_OR_RETURN(compiled, CompileFor(deployed, fetches, batch.num_examples,
                                          compiled->feeds->CapacitiesFor(batch)));
  }
  return compiled.get();
}

RunBindings GraphProgram::Bind(const LoadedBatch& batch, absl::Span<const float* const> parameters,
                               absl::Span<const uint64_t> versions, const Deployed& deployed,
                               Compiled* compiled) const {
  for (size_t v = 0; v < compiled->variables.size(); ++v) {
    size_t trained = v;
    if (&deployed != &train_) {
      const std::string& name = deployed.graph->variables()[v].spec.name;
      trained = static_cast<size_t>(train_.graph->FindVariable(name)->node->variable_index);
    }
    compiled->variables[v] = parameters[trained];
    compiled->versions[v] = versions.empty() ? 0 : versions[trained];
  }
  RunBindings bindings;
  bindings.inputs = compiled->feeds->Bind(batch);
  if (compiled->table_feeds != nullptr) {
    compiled->inputs.assign(bindings.inputs.begin(), bindings.inputs.end());
    compiled->table_feeds->Bind(batch, rows_, &compiled->inputs);
    bindings.inputs = compiled->inputs;
  }
  bindings.variables = compiled->variables;
  bindings.variable_versions = compiled->versions;
  bindings.outputs = compiled->outputs;
  return bindings;
}

absl::Status GraphProgram::Train(const TrainArguments& arguments, BatchResult* result,
                                 OnFinal on_final, absl::FunctionRef<void()> on_result) {
  const LoadedBatch& batch = *arguments.batch;
  ASSIGN_OR_RETURN(Compiled* const compiled,
                   CompiledFor(batch, train_, train_fetches_, &train_compiled_));
  const int num_results = train_.results.count;
  BindResults(train_.results, &results_, compiled);
  for (size_t i = 0; i < contributing_.size(); ++i) {
    compiled->outputs[static_cast<size_t>(num_results) + i] =
        arguments.contributions[contributing_[i]];
  }
  RunBindings bindings = Bind(batch, arguments.parameters, arguments.versions, train_, compiled);
  bindings.key.seed = options_.run.seed();
  bindings.key.epoch = batch.epoch;
  bindings.key.first_example =
      static_cast<uint64_t>(batch.index) * ReplicaBatchExamples(options_.run);
  last_trained_ = compiled;
  std::atomic<int> results_left(num_results);
  compiled->executable->Run(bindings, [&](int output, int64_t num_elements) {
    if (output >= num_results) {
      const auto contribution = static_cast<size_t>(output - num_results);
      if (contribution < contributing_.size()) on_final(contributing_[contribution], num_elements);
      return;
    }
    if (results_left.fetch_sub(1) > 1) return;
    StoreResults(train_.results, *compiled, batch.num_examples, result);
    on_result();
  });
  return compiled->executable->status();
}

absl::Status GraphProgram::Evaluate(const LoadedBatch& batch,
                                    absl::Span<const float* const> parameters,
                                    absl::Span<const uint64_t> versions, BatchResult* result) {
  ASSIGN_OR_RETURN(Compiled* const compiled,
                   CompiledFor(batch, evaluate_, evaluate_fetches_, &evaluate_compiled_));
  std::vector<float> results(evaluate_fetches_.size());
  BindResults(evaluate_.results, &results, compiled);
  compiled->executable->Run(Bind(batch, parameters, versions, evaluate_, compiled));
  RETURN_IF_ERROR(compiled->executable->status());
  StoreResults(evaluate_.results, *compiled, batch.num_examples, result);
  for (const MetricSum& metric : result->metrics) {
    if (metric.histogram.size() <= kMostScoreCounts) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("data.evaluation_block: a block has ", metric.histogram.size(),
                     " different scores, but a histogram of at most ", kMostScoreCounts,
                     " fits into a message; make the block smaller"));
  }
  return absl::OkStatus();
}

std::vector<std::string> GraphProgram::missing_devices() const {
  return MissingDevices(ListedDevices(options_.run), options_.accelerators);
}

std::vector<VariableSpec> GraphProgram::DenseEmbeddings() const {
  std::vector<VariableSpec> embeddings;
  for (const auto& node : train_.graph->nodes()) {
    if (node->op != "Gather" || node->inputs[0].node->variable_index < 0) continue;
    const auto variable = static_cast<size_t>(node->inputs[0].node->variable_index);
    const VariableSpec& spec = train_.graph->variables()[variable].spec;
    const bool is_new =
        std::none_of(embeddings.begin(), embeddings.end(),
                     [&](const VariableSpec& one) { return one.name == spec.name; });
    if (is_new && contributes(static_cast<uint32_t>(variable))) embeddings.push_back(spec);
  }
  return embeddings;
}

std::vector<std::string> GraphProgram::PlacementLines() const {
  const v1::DeploymentOptions& deployment = options_.run.deployment();
  const absl::StatusOr<PlacerOptions> placer = PlacerFor();
  if (!placer.ok()) return {};
  const absl::StatusOr<std::vector<int>> placement = PlaceNodes(*train_.graph, *placer);
  if (!placement.ok()) return {};
  const auto device_of = [&](const Node& node) {
    const int device = (*placement)[static_cast<size_t>(node.id)];
    return device < 0 ? node.device.ToString() : placer->devices[device].ToString();
  };
  std::vector<std::string> clone_devices(train_.model.clones.size());
  for (const auto& node : train_.graph->nodes()) {
    if (node->clone_index >= 0) clone_devices[node->clone_index] = device_of(*node);
  }
  std::vector<std::string> lines;
  for (const Variable& variable : train_.graph->variables()) {
    const std::string where = deployment.num_ps_tasks() > 0 ? "the parameter servers"
                              : deployment.variables() == "mirrored"
                                  ? absl::StrJoin(clone_devices, ", ")
                                  : device_of(*variable.node);
    lines.push_back(absl::StrCat("variable ", variable.spec.name, " ",
                                 variable.spec.shape.ToString(), " on ", where));
  }
  for (const v1::VariableSpec& table : tables_.specs()) {
    lines.push_back(absl::StrCat(
        "table ", table.name(), " [", table.shape(0), "], ", table.table().buckets(),
        " buckets on ", deployment.num_ps_tasks() > 0 ? "the parameter servers" : "the host"));
  }
  for (size_t i = 0; i < clone_devices.size(); ++i) {
    lines.push_back(absl::StrCat("clone ", i, " on ", clone_devices[i]));
  }
  if (!deployment.log_device_placement()) return lines;
  AddGradientLines(*train_.model.train_op, device_of, &lines);
  return lines;
}

std::string GraphProgram::compute_fingerprint() const {
  std::string text = options_.compute_name;
  const std::vector<std::string> types = CloneDeviceTypes(options_.run, options_.accelerators);
  for (const KernelBackend& accelerator : options_.accelerators) {
    const bool is_used = std::count(types.begin(), types.end(), accelerator.device_type) > 0;
    if (is_used) absl::StrAppend(&text, ", ", accelerator.libraries);
  }
  if (ComputesInBfloat16(options_.run)) absl::StrAppend(&text, ", products of bfloat16");
  return absl::StrCat(text, ", devices ", absl::StrJoin(types, ","), ", threads ",
                      options_.run.deployment().threads());
}

}  // namespace shoal

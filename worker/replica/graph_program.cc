#include "worker/replica/graph_program.h"

#include <algorithm>
#include <atomic>
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
#include "worker/replica/placement_lines.h"

namespace shoal {

absl::StatusOr<std::unique_ptr<GraphProgram>> GraphProgram::Create(Options options) {
  std::unique_ptr<GraphProgram> program(new GraphProgram(std::move(options)));
  program->optimizer_ = program->options_.run.optimizer();
  RETURN_IF_ERROR(program->Build(true, &program->train_));
  RETURN_IF_ERROR(program->Build(false, &program->evaluate_));
  RETURN_IF_ERROR(CheckSameMetrics(program->train_.metrics, program->evaluate_.metrics));
  RETURN_IF_ERROR(program->DeclareVariables());
  RETURN_IF_ERROR(program->CheckEvaluationVariables());
  RETURN_IF_ERROR(program->DeclareTables());
  if (program->options_.run.summary().model_every() > 0) {
    RETURN_IF_ERROR(program->summaries_.Declare(program->train_.model,
                                                program->train_.results.count(),
                                                program->contributing_, &program->train_fetches_));
  }
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
  for (const TableInput& table : deployed->graph->table_inputs()) parameters.push_back(table.table);
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
  evaluate_.results.Declare(evaluate_.model, evaluate_.metrics, &evaluate_fetches_);
  train_.results.Declare(train_.model, train_.metrics, &train_fetches_);
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
  RETURN_IF_ERROR(tables_.CheckEntries(options_.run));
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

std::vector<BatchSummary> GraphProgram::Summaries(absl::Span<float* const> contributions) const {
  if (last_trained_ == nullptr) return {};
  return summaries_.Collect(*train_.graph, results_, contributions, last_trained_->summaries);
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
  deployed.results.ReplaceEmptyClones(request.clone_examples, &request.fetches);
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
    summaries_.Bind(*compiled->executable, &compiled->summaries, &compiled->outputs);
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
  const int num_results = train_.results.count();
  train_.results.Bind(compiled->clone_examples, &results_, &compiled->scores, &compiled->outputs);
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
    train_.results.Store(compiled->clone_examples, compiled->outputs, batch.num_examples, result);
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
  evaluate_.results.Bind(compiled->clone_examples, &results, &compiled->scores, &compiled->outputs);
  compiled->executable->Run(Bind(batch, parameters, versions, evaluate_, compiled));
  RETURN_IF_ERROR(compiled->executable->status());
  evaluate_.results.Store(compiled->clone_examples, compiled->outputs, batch.num_examples, result);
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
  return MissingDevicesOfClones(options_.run.deployment(), options_.accelerators);
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
  const absl::StatusOr<PlacerOptions> placer = PlacerFor();
  if (!placer.ok()) return {};
  return shoal::PlacementLines(options_.run.deployment(), *placer, *train_.graph, train_.model,
                               tables_.specs());
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

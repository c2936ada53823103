#include "worker/replica/parallel_model.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"

#include "base/status_macros.h"
#include "ml/kernels/cpu/cpu_kernels.h"
#include "worker/replica/compute_backends.h"
#include "worker/replica/declared_variable.h"
#include "worker/replica/device_selection.h"
#include "worker/replica/variable_file.h"

namespace shoal {
namespace {

// [rows, the example's dimensions]
Shape BatchShape(int64_t rows, const Shape& example) {
  Shape shape({rows});
  for (int64_t dim : example.dims()) shape.AddDim(dim);
  return shape;
}

size_t RowBytes(const FieldSpec& field) {
  return static_cast<size_t>(field.example.shape.num_elements()) * SizeOf(field.example.dtype);
}

// Checks that the tensors are examples of the fields, with the same number for each field, and sets
// *num_examples to it.
absl::Status CheckTensors(const char* what, const std::vector<FieldSpec>& fields,
                          absl::Span<const Tensor> tensors, int64_t* num_examples) {
  if (tensors.size() != fields.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        what, ": there are ", tensors.size(), " tensors, but the model takes ", fields.size()));
  }
  for (size_t f = 0; f < fields.size(); ++f) {
    const int64_t rows = tensors[f].shape().rank() == 0 ? 0 : tensors[f].shape().dim(0);
    if (*num_examples < 0) *num_examples = rows;
    const TensorSpec wanted{fields[f].example.dtype,
                            BatchShape(*num_examples, fields[f].example.shape)};
    if (*num_examples == 0 || tensors[f].spec() != wanted) {
      Shape any = wanted.shape;
      if (*num_examples == 0 || f == 0) any.set_dim(0, kUnknownDim);
      return absl::InvalidArgumentError(
          absl::StrCat(what, ": ", fields[f].name, " is ", tensors[f].spec().ToString(),
                       ", the model takes ", TensorSpec{wanted.dtype, any}.ToString()));
    }
  }
  return absl::OkStatus();
}

}  // namespace

ParallelModel::ParallelModel(ParallelModelSpec spec, ParallelModelOptions options)
    : spec_(std::move(spec)), options_(std::move(options)) {}

ParallelModel::~ParallelModel() = default;

absl::StatusOr<std::unique_ptr<ParallelModel>> ParallelModel::Create(
    ParallelModelSpec spec, ParallelModelOptions options, const v1::OptimizerConfig* optimizer) {
  for (size_t i = 0; i < options.devices.size(); ++i) {
    const auto end = options.devices.begin() + static_cast<std::ptrdiff_t>(i);
    if (std::find(options.devices.begin(), end, *end) != end) {
      return absl::InvalidArgumentError(absl::StrCat("devices: ", *end, " is named twice"));
    }
  }
  if (!options.backend.create_kernel) {
    options.backend = CpuKernelBackend();
    options.accelerators = AcceleratorsFor(options.devices);
    LogMissingDevices(options.devices, options.accelerators);
  }
  std::unique_ptr<ParallelModel> model(new ParallelModel(std::move(spec), std::move(options)));
  const bool trains = model->spec_.loss != nullptr;
  if (trains && optimizer == nullptr) {
    return absl::InvalidArgumentError("optimizer: a model with a loss needs one");
  }
  ASSIGN_OR_RETURN(const ParallelGraph* graph,
                   model->GraphFor(model->options_.devices.size(), trains));
  std::vector<v1::VariableSpec> specs;
  for (const Variable& variable : graph->graph->variables()) {
    specs.push_back(DeclaredVariable(variable.spec));
  }
  ASSIGN_OR_RETURN(
      model->variables_,
      OwnedVariables::Create(std::move(specs), trains ? optimizer : nullptr, model->options_.seed));
  // So that a device or shape that does not fit is found now.
  const auto num_clones = static_cast<int64_t>(model->options_.devices.size());
  RETURN_IF_ERROR(model->CompiledFor(num_clones, false).status());
  return model;
}

absl::StatusOr<const ParallelGraph*> ParallelModel::GraphFor(size_t num_clones, bool is_training) {
  const auto [at, is_new] = graphs_.try_emplace({is_training, num_clones});
  if (!is_new) return &at->second;
  const auto begin = options_.devices.begin();
  absl::StatusOr<ParallelGraph> graph = BuildParallelGraph(
      spec_, {begin, begin + static_cast<std::ptrdiff_t>(num_clones)}, is_training);
  if (!graph.ok()) {
    graphs_.erase(at);
    return graph.status();
  }
  at->second = *std::move(graph);
  return &at->second;
}

absl::StatusOr<ParallelModel::Compiled*> ParallelModel::CompiledFor(int64_t num_examples,
                                                                    bool is_training) {
  const auto [at, is_new] = compiled_.try_emplace({is_training, num_examples});
  if (!is_new) return &at->second;
  // If there are fewer examples than devices, the last devices have nothing to do.
  const auto num_clones =
      static_cast<size_t>(std::min(num_examples, static_cast<int64_t>(options_.devices.size())));
  absl::Status status = GraphFor(num_clones, is_training).status();
  if (status.ok()) {
    at->second.graph = &graphs_[{is_training, num_clones}];
    status = Compile(num_examples, is_training, &at->second);
  }
  if (status.ok()) return &at->second;
  compiled_.erase(at);
  return status;
}

absl::Status ParallelModel::MapVariables(Compiled* compiled) const {
  for (const Variable& variable : compiled->graph->graph->variables()) {
    size_t v = 0;
    while (v < variables_->size() && variables_->spec(v).name() != variable.spec.name) ++v;
    if (v == variables_->size()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "model: variable ", variable.spec.name,
          " does not exist for every number of devices, or not both in training and in "
          "prediction; make it always"));
    }
    const v1::VariableSpec spec = DeclaredVariable(variable.spec);
    const v1::VariableSpec& ours = variables_->spec(v);
    if (absl::MakeConstSpan(spec.shape()) != absl::MakeConstSpan(ours.shape())) {
      return absl::InvalidArgumentError(
          absl::StrCat("model: variable ", spec.name(), " is [", absl::StrJoin(ours.shape(), ","),
                       "] and [", absl::StrJoin(spec.shape(), ","),
                       "]; it must be the same in training and prediction, on all devices"));
    }
    compiled->variable_of_graph.push_back(v);
  }
  compiled->variables.resize(compiled->variable_of_graph.size());
  compiled->versions.resize(compiled->variable_of_graph.size());
  return absl::OkStatus();
}

// Feeds: the inputs of each clone, then the targets. Fetches: the outputs of each clone; in
// training the loss, then the contributions, whose variables are `contributes`.
CompileRequest ParallelModel::RequestFor(const Compiled& compiled, int64_t num_examples,
                                         bool is_training, std::vector<size_t>* contributes) const {
  const ParallelGraph& graph = *compiled.graph;
  CompileRequest request;
  request.graph = graph.graph.get();
  request.clone_examples = compiled.num_rows;
  for (size_t c = 0; c < graph.clones.size(); ++c) {
    for (size_t f = 0; f < spec_.inputs.size(); ++f) {
      request.feeds.push_back({graph.queue->batches()[c][f],
                               BatchShape(compiled.num_rows[c], spec_.inputs[f].example.shape)});
    }
    if (is_training) continue;
    for (const Output& output : graph.clones[c].outputs) request.fetches.push_back(output);
  }
  if (!is_training) return request;
  for (size_t t = 0; t < spec_.targets.size(); ++t) {
    request.feeds.push_back(
        {graph.targets[t], BatchShape(num_examples, spec_.targets[t].example.shape)});
  }
  request.fetches.push_back(graph.loss);
  for (size_t v = 0; v < graph.gradients.size(); ++v) {
    const Output contribution =
        graph.gradients[v].valid() ? graph.gradients[v] : graph.statistics[v];
    if (!contribution.valid()) continue;
    request.fetches.push_back(contribution);
    contributes->push_back(compiled.variable_of_graph[v]);
  }
  return request;
}

absl::Status ParallelModel::Compile(int64_t num_examples, bool is_training,
                                    Compiled* compiled) const {
  RETURN_IF_ERROR(MapVariables(compiled));
  compiled->num_rows =
      SplitExamples(num_examples, static_cast<int64_t>(compiled->graph->clones.size()));
  int64_t row = 0;
  for (const int64_t rows : compiled->num_rows) {
    compiled->first_rows.push_back(row);
    row += rows;
  }
  std::vector<size_t> contributes;
  CompileRequest request = RequestFor(*compiled, num_examples, is_training, &contributes);
  ASSIGN_OR_RETURN(
      request.placer.devices,
      LocalDevices("worker", 0, PresentDevices(options_.devices, options_.accelerators)));
  request.placer.allow_soft_placement = options_.allow_soft_placement;
  request.backend = &options_.backend;
  for (const KernelBackend& backend : options_.accelerators) {
    request.accelerators.push_back(&backend);
  }
  request.threads_per_device = options_.threads_per_device;
  request.compute_dtype = options_.compute_dtype;
  ASSIGN_OR_RETURN(compiled->executable, shoal::Compile(request));
  compiled->feeds.resize(request.feeds.size());
  compiled->outputs.resize(request.fetches.size());
  if (!is_training) return absl::OkStatus();
  for (size_t i = 0; i < request.fetches.size(); ++i) {
    compiled->results.emplace_back(compiled->executable->output_specs()[i]);
    compiled->outputs[i] = compiled->results.back().mutable_data();
  }
  compiled->contributions.resize(variables_->size());
  for (size_t i = 0; i < contributes.size(); ++i) {
    compiled->contributions[contributes[i]] = static_cast<const float*>(compiled->outputs[i + 1]);
  }
  return absl::OkStatus();
}

void ParallelModel::Bind(absl::Span<const Tensor> inputs, absl::Span<const Tensor> targets,
                         int64_t first, Compiled* compiled) const {
  const auto row_of = [&](const FieldSpec& field, const Tensor& tensor, int64_t row) {
    return static_cast<const char*>(tensor.data()) +
           static_cast<size_t>(first + row) * RowBytes(field);
  };
  size_t feed = 0;
  for (const int64_t row : compiled->first_rows) {
    for (size_t f = 0; f < inputs.size(); ++f) {
      compiled->feeds[feed++] = row_of(spec_.inputs[f], inputs[f], row);
    }
  }
  for (size_t t = 0; t < targets.size(); ++t) {
    compiled->feeds[feed++] = row_of(spec_.targets[t], targets[t], 0);
  }
  for (size_t v = 0; v < compiled->variables.size(); ++v) {
    compiled->variables[v] = variables_->value(compiled->variable_of_graph[v]).data();
    compiled->versions[v] = variables_->version(compiled->variable_of_graph[v]);
  }
}

// Lets each copy write its rows to their place in the complete outputs, which are allocated with
// the first part, when their shapes are known. Scalars go to `scalars`.
absl::Status ParallelModel::BindOutputs(int64_t first, int64_t total, Compiled* compiled,
                                        std::vector<Tensor>* outputs,
                                        std::vector<float>* scalars) const {
  const std::vector<TensorSpec>& specs = compiled->executable->output_specs();
  const size_t num_outputs = compiled->graph->clones[0].outputs.size();
  scalars->resize(specs.size());
  for (size_t i = 0; i < specs.size(); ++i) {
    const size_t output = i % num_outputs;
    const int64_t rows = compiled->num_rows[i / num_outputs];
    TensorSpec whole = specs[i];
    if (whole.shape.rank() == 0) {
      if (whole.dtype != DataType::kFloat32) {
        return absl::InvalidArgumentError(
            absl::StrCat("model: output ", output, " is a scalar that is not float32; cast it"));
      }
      if (output == outputs->size()) outputs->emplace_back(whole);
      compiled->outputs[i] = &(*scalars)[i];
      continue;
    }
    const bool divides = whole.shape.dim(0) % rows == 0;
    whole.shape.set_dim(0, whole.shape.dim(0) / rows * total);
    if (output == outputs->size()) outputs->emplace_back(whole);
    // Every copy and every part has its place in what the first one has made.
    if (!divides || (*outputs)[output].spec() != whole) {
      return absl::InvalidArgumentError(absl::StrCat(
          "model: output ", output, " does not have as many rows for each example: there are ",
          specs[i].shape.dim(0), " for ", rows, rows == 1 ? " example" : " examples",
          "; its first dimension must be the batch's"));
    }
    const size_t example_bytes = specs[i].bytes() / static_cast<size_t>(rows);
    const auto at = static_cast<size_t>(first + compiled->first_rows[i / num_outputs]);
    compiled->outputs[i] =
        static_cast<char*>((*outputs)[output].mutable_data()) + at * example_bytes;
  }
  return absl::OkStatus();
}

absl::Status ParallelModel::PredictPart(absl::Span<const Tensor> inputs, int64_t first,
                                        int64_t count, std::vector<Tensor>* outputs) {
  const int64_t total = inputs[0].shape().dim(0);
  ASSIGN_OR_RETURN(Compiled * compiled, CompiledFor(count, false));
  Bind(inputs, {}, first, compiled);
  std::vector<float> scalars;
  RETURN_IF_ERROR(BindOutputs(first, total, compiled, outputs, &scalars));
  RandomKey key;
  key.seed = options_.seed;
  compiled->executable->Run(
      {compiled->feeds, compiled->variables, compiled->outputs, key, compiled->versions});
  RETURN_IF_ERROR(compiled->executable->status());
  const size_t num_outputs = compiled->graph->clones[0].outputs.size();
  for (size_t i = 0; i < scalars.size(); ++i) {
    if (compiled->executable->output_specs()[i].shape.rank() > 0) continue;
    const auto weight =
        static_cast<float>(compiled->num_rows[i / num_outputs]) / static_cast<float>(total);
    (*outputs)[i % num_outputs].mutable_span<float>()[0] += weight * scalars[i];
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Tensor>> ParallelModel::Predict(absl::Span<const Tensor> inputs,
                                                           int64_t batch_size) {
  int64_t total = -1;
  RETURN_IF_ERROR(CheckTensors("inputs", spec_.inputs, inputs, &total));
  if (batch_size <= 0) batch_size = total;
  std::vector<Tensor> outputs;
  for (int64_t first = 0; first < total; first += batch_size) {
    RETURN_IF_ERROR(PredictPart(inputs, first, std::min(batch_size, total - first), &outputs));
  }
  return outputs;
}

absl::StatusOr<float> ParallelModel::TrainOnBatch(absl::Span<const Tensor> inputs,
                                                  absl::Span<const Tensor> targets) {
  if (spec_.loss == nullptr) {
    return absl::FailedPreconditionError(
        "the model was made without a loss, so it cannot be trained; set ParallelModelSpec::loss");
  }
  int64_t examples = -1;
  RETURN_IF_ERROR(CheckTensors("inputs", spec_.inputs, inputs, &examples));
  RETURN_IF_ERROR(CheckTensors("targets", spec_.targets, targets, &examples));
  ASSIGN_OR_RETURN(Compiled * compiled, CompiledFor(examples, true));
  Bind(inputs, targets, 0, compiled);
  RandomKey key;
  key.seed = options_.seed;
  key.epoch = variables_->step();  // each batch draws anew
  compiled->executable->Run(
      {compiled->feeds, compiled->variables, compiled->outputs, key, compiled->versions});
  RETURN_IF_ERROR(compiled->executable->status());
  const float loss = compiled->results[0].span<float>()[0];
  if (!std::isfinite(loss)) {
    return absl::FailedPreconditionError("the loss is not finite; the model is left as it was");
  }
  RETURN_IF_ERROR(variables_->ApplyStep(compiled->contributions));
  return loss;
}

absl::Status ParallelModel::Save(FileSystem& file_system, const std::string& path) const {
  return WriteVariableFile(file_system, path, *variables_);
}

absl::Status ParallelModel::Load(FileSystem& file_system, const std::string& path) {
  return ReadVariableFile(file_system, path, variables_.get());
}

std::vector<std::string> ParallelModel::missing_devices() const {
  return MissingDevices(options_.devices, options_.accelerators);
}

std::string ParallelModel::Summary() const {
  std::string text = absl::StrFormat("%-48s %-20s %12s\n", "variable", "shape", "parameters");
  size_t total = 0;
  size_t trainable = 0;
  for (size_t v = 0; v < variables_->size(); ++v) {
    const v1::VariableSpec& spec = variables_->spec(v);
    const size_t elements = variables_->value(v).size();
    absl::StrAppendFormat(&text, "%-48s %-20s %12d%s\n", spec.name(),
                          absl::StrCat("[", absl::StrJoin(spec.shape(), ","), "]"), elements,
                          spec.trainable() ? "" : "  not trained");
    total += elements;
    if (spec.trainable()) trainable += elements;
  }
  const Clone& first = graphs_.begin()->second.clones[0];
  for (const Output& output : first.outputs) {
    absl::StrAppendFormat(&text, "output %-41s %s\n", absl::StripPrefix(output.name(), first.scope),
                          output.shape().ToString());
  }
  absl::StrAppendFormat(&text, "parameters: %d, of which %d are trained\n", total, trainable);
  return text;
}

}  // namespace shoal

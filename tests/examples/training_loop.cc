#include "tests/examples/training_loop.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/status_macros.h"
#include "ml/graph/compiler.h"
#include "ml/kernels/cpu/cpu_kernels.h"
#include "ml/optim/optimizer_config.h"
#include "ml/tensor/initializer.h"
#include "proto/v1/optimizer_config.pb.h"
#include "runtime/observability/histogram.h"

namespace shoal {

absl::StatusOr<std::unique_ptr<TrainingLoop>> TrainingLoop::Create(
    const Graph& graph, const DeployedModel& model, const InputQueue& queue, const Dataset& dataset,
    const TrainingLoopOptions& options) {
  if (!model.train_op.has_value()) {
    return absl::InvalidArgumentError("the model was deployed without an optimizer or a loss");
  }
  BatchPlanOptions plan_options;
  plan_options.num_examples = dataset.size();
  plan_options.batch_size = options.batch_size;
  plan_options.num_clones = static_cast<int64_t>(model.clones.size());
  plan_options.seed = options.seed;
  ASSIGN_OR_RETURN(const BatchPlan plan, BatchPlan::Create(plan_options));
  if (plan.batch_examples() > dataset.size()) {
    return absl::InvalidArgumentError("the data set has fewer examples than one batch");
  }
  std::unique_ptr<TrainingLoop> loop(new TrainingLoop(graph, model, queue, dataset, options, plan));
  RETURN_IF_ERROR(loop->Prepare());
  return loop;
}

TrainingLoop::TrainingLoop(const Graph& graph, const DeployedModel& model, const InputQueue& queue,
                           const Dataset& dataset, const TrainingLoopOptions& options,
                           const BatchPlan& plan)
    : graph_(graph),
      model_(model),
      queue_(queue),
      dataset_(dataset),
      options_(options),
      plan_(plan),
      backend_(CpuKernelBackend()),
      file_system_(NewPosixFileSystem()),
      events_(file_system_.get(), &clock_, options.log_directory) {}

absl::Status TrainingLoop::Prepare() {
  ASSIGN_OR_RETURN(const OptimizerOptions rule, OptimizerOptionsFrom(*model_.train_op->optimizer));
  ASSIGN_OR_RETURN(rule_, UpdateRule::Create(rule));
  fetches_ = {model_.train_op->total_loss};
  for (const GradientAndVariable& pair : model_.train_op->gradients) {
    fetches_.push_back(pair.gradient);
  }
  for (const Output& update : model_.train_op->update_ops) fetches_.push_back(update);
  const auto fetch = [this](const Output& value) {
    if (std::count(fetches_.begin(), fetches_.end(), value) == 0) fetches_.push_back(value);
  };
  for (const ScalarSummary& summary : model_.summaries) fetch(summary.value);
  for (const HistogramSummary& summary : model_.histograms) fetch(summary.value);

  CompileRequest request;
  request.graph = &graph_;
  request.fetches = fetches_;
  request.backend = &backend_;
  for (const std::vector<Output>& batch : queue_.batches()) {
    for (const Output& field : batch) {
      Shape shape = field.shape();
      shape.set_dim(0, options_.batch_size);
      request.feeds.push_back({field, shape});
    }
  }
  ASSIGN_OR_RETURN(request.placer.devices, LocalDevices("worker", 0, {"/cpu:0"}));
  ASSIGN_OR_RETURN(executable_, Compile(request));
  MakeMemory();
  return absl::OkStatus();
}

void TrainingLoop::MakeMemory() {
  indices_.resize(static_cast<size_t>(plan_.batch_examples()));
  for (const FieldSpec& field : dataset_.fields()) {
    Shape shape({plan_.batch_examples()});
    for (int64_t dim : field.example.shape.dims()) shape.AddDim(dim);
    fields_.emplace_back(field.example.dtype, shape);
  }
  for (size_t clone = 0; clone < queue_.batches().size(); ++clone) {
    for (const Tensor& field : fields_) {
      const size_t part = field.bytes() / queue_.batches().size();
      inputs_.push_back(static_cast<const char*>(field.data()) + clone * part);
    }
  }
  for (const Variable& variable : graph_.variables()) {
    Tensor value(variable.spec.dtype, variable.spec.shape);
    const absl::Span<float> elements = value.mutable_span<float>();
    InitializeRange(variable.spec.initializer, options_.seed, VariableNameHash(variable.spec.name),
                    0, elements.size(), elements.data());
    slots_.emplace_back();
    for (const SlotSpec& slot : rule_->slots()) {
      slots_.back().emplace_back(value.spec());
      const absl::Span<float> state = slots_.back().back().mutable_span<float>();
      std::fill(state.begin(), state.end(), slot.initial_value);
    }
    variables_.push_back(value.data());
    values_.push_back(std::move(value));
  }
  for (const TensorSpec& spec : executable_->output_specs()) results_.emplace_back(spec);
  for (Tensor& result : results_) outputs_.push_back(result.mutable_data());
}

absl::Status TrainingLoop::LoadBatch(int64_t step) {
  const int64_t batches = dataset_.size() / plan_.batch_examples();  // full ones
  plan_.FillIndices(static_cast<uint32_t>(step / batches), step % batches,
                    absl::MakeSpan(indices_));
  std::vector<void*> rows;
  for (Tensor& field : fields_) rows.push_back(field.mutable_data());
  return dataset_.FillBatch(static_cast<uint32_t>(step / batches), indices_, rows);
}

absl::Status TrainingLoop::Update(int64_t step) {
  size_t fetch = 1;
  for (const GradientAndVariable& pair : model_.train_op->gradients) {
    const int index = pair.variable.node->variable_index;
    Tensor& value = values_[index];
    UpdateStep update;
    update.step = step + 1;
    update.learning_rate = static_cast<float>(model_.train_op->optimizer->learning_rate());
    update.gradient = results_[fetch++].span<float>().data();
    update.value = value.span<float>().data();
    update.new_value = value.mutable_span<float>().data();
    update.n = value.span<float>().size();
    for (size_t s = 0; s < slots_[index].size(); ++s) {
      update.slots[s] = slots_[index][s].span<float>().data();
      update.new_slots[s] = slots_[index][s].mutable_span<float>().data();
    }
    rule_->Apply(update);
  }
  for (const Output& op : model_.train_op->update_ops) {
    const Variable& variable = *graph_.FindVariable(op.node->attributes.GetString("variable", ""));
    ASSIGN_OR_RETURN(const MovingAverage average, MovingAverage::Create(variable.spec.decay));
    Tensor& value = values_[variable.node->variable_index];
    average.Apply(value.span<float>().data(), results_[fetch++].span<float>().data(),
                  value.mutable_span<float>().data(), value.span<float>().size());
  }
  return absl::OkStatus();
}

const Tensor& TrainingLoop::result(const Output& fetch) const {
  return results_[static_cast<size_t>(std::find(fetches_.begin(), fetches_.end(), fetch) -
                                      fetches_.begin())];
}

absl::Status TrainingLoop::WriteSummaries(int64_t step) {
  if (options_.log_directory.empty()) return absl::OkStatus();
  const auto at = static_cast<uint64_t>(step);
  std::vector<ScalarPoint> points;
  for (const ScalarSummary& summary : model_.summaries) {
    points.push_back({summary.name, result(summary.value).span<float>()[0]});
  }
  for (const HistogramSummary& summary : model_.histograms) {
    ValueHistogram histogram;
    histogram.Add(result(summary.value).span<float>());
    RETURN_IF_ERROR(events_.AddHistogram(at, summary.name, histogram));
    if (summary.norm_name.empty()) continue;
    points.push_back({summary.norm_name, std::sqrt(histogram.sum_squares())});
  }
  return events_.AddScalars(at, points);
}

absl::StatusOr<float> TrainingLoop::Train(int64_t num_steps) {
  float loss = 0;
  for (int64_t step = 0; step < num_steps; ++step) {
    RETURN_IF_ERROR(LoadBatch(step));
    executable_->Run({inputs_, variables_, outputs_, {}});
    loss = results_[0].span<float>()[0];
    RETURN_IF_ERROR(Update(step));
    RETURN_IF_ERROR(WriteSummaries(step));
  }
  RETURN_IF_ERROR(events_.Flush());
  return loss;
}

}  // namespace shoal

#include "worker/replica/training_loop.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"

#include "base/log.h"
#include "base/status_macros.h"
#include "ml/graph/compiler.h"
#include "ml/kernels/cpu/cpu_kernels.h"
#include "proto/v1/checkpoint.pb.h"
#include "proto/v1/variable.pb.h"
#include "runtime/config/path_check.h"
#include "runtime/config/run_config.h"
#include "runtime/observability/histogram.h"
#include "worker/replica/compute_backends.h"
#include "worker/replica/declared_variable.h"
#include "worker/replica/device_selection.h"

namespace shoal {

absl::StatusOr<std::unique_ptr<TrainingLoop>> TrainingLoop::Create(
    const Graph& graph, const DeployedModel& model, const InputQueue& queue, const Dataset& dataset,
    const TrainingLoopOptions& options) {
  RETURN_IF_ERROR(
      CheckIsPath("TrainingLoopOptions::checkpoint_directory", options.checkpoint_directory));
  RETURN_IF_ERROR(CheckIsPath("TrainingLoopOptions::log_directory", options.log_directory));
  if (!model.train_op.has_value()) {
    return absl::InvalidArgumentError(
        "the model was deployed without an optimizer or a loss; give Deploy both");
  }
  BatchPlanOptions plan_options;
  plan_options.num_examples = dataset.size();
  plan_options.batch_size = options.batch_size;
  plan_options.num_clones = static_cast<int64_t>(model.clones.size());
  plan_options.seed = options.seed;
  ASSIGN_OR_RETURN(const BatchPlan plan, BatchPlan::Create(plan_options));
  if (plan.batch_examples() > dataset.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the data set has ", dataset.size(), " examples, fewer than one batch of ",
                     plan.batch_examples(), "; lower TrainingLoopOptions::batch_size, which is ",
                     options.batch_size, " for each clone"));
  }
  for (const FieldSpec& field : dataset.fields()) {
    if (!field.is_ragged()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("field ", field.name, " of the data set is ragged, which a TrainingLoop ",
                     "cannot feed; train with worker::Main and `shoal train`"));
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
      accelerators_(AcceleratorsFor(options.devices)),
      file_system_(NewPosixFileSystem()),
      events_(file_system_.get(), &clock_, options.log_directory) {}

absl::Status TrainingLoop::Prepare() {
  std::vector<v1::VariableSpec> specs;
  for (const Variable& variable : graph_.variables()) {
    specs.push_back(DeclaredVariable(variable.spec));
  }
  ASSIGN_OR_RETURN(variables_, OwnedVariables::Create(std::move(specs), model_.train_op->optimizer,
                                                      options_.seed));
  ChooseFetches();
  CompileRequest request;
  request.graph = &graph_;
  request.fetches = fetches_;
  request.backend = &backend_;
  for (const KernelBackend& backend : accelerators_) request.accelerators.push_back(&backend);
  for (const std::vector<Output>& batch : queue_.batches()) {
    for (const Output& field : batch) {
      Shape shape = field.shape();
      shape.set_dim(0, options_.batch_size);
      request.feeds.push_back({field, shape});
    }
  }
  ASSIGN_OR_RETURN(request.placer.devices,
                   LocalDevices("worker", 0, PresentDevices(options_.devices, accelerators_)));
  request.placer.allow_soft_placement = options_.allow_soft_placement;
  request.threads_per_device = options_.threads_per_device;
  ASSIGN_OR_RETURN(executable_, Compile(request));
  MakeMemory();
  LogMissingDevices(options_.devices, accelerators_);
  return RestoreCheckpoint();
}

absl::Status TrainingLoop::RestoreCheckpoint() {
  if (options_.checkpoint_directory.empty()) return absl::OkStatus();
  if (options_.checkpoint_every_steps < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("TrainingLoopOptions::checkpoint_every_steps is ",
                     options_.checkpoint_every_steps, "; it must be at least 0"));
  }
  v1::Manifest loop;
  for (size_t v = 0; v < variables_->size(); ++v) *loop.add_variables() = variables_->spec(v);
  loop.mutable_plan()->set_examples_per_epoch(static_cast<uint64_t>(dataset_.size()));
  loop.mutable_plan()->set_batch_examples(static_cast<uint32_t>(plan_.batch_examples()));
  loop.mutable_plan()->set_replicas_to_aggregate(1);
  loop.set_data_fingerprint(dataset_.fingerprint());
  loop.set_seed(options_.seed);
  loop.set_synchronous(true);
  loop.set_optimizer(OptimizerName(*model_.train_op->optimizer));
  ASSIGN_OR_RETURN(
      checkpoints_,
      LoopCheckpoints::Open(*file_system_, JoinPath(options_.checkpoint_directory, "checkpoints"),
                            std::move(loop), options_.checkpoints_to_keep));
  absl::StatusOr<RunLock> lock =
      RunLock::Acquire(options_.checkpoint_directory, RunLock::Holder::kChief);
  if (absl::IsAlreadyExists(lock.status())) {
    return absl::AlreadyExistsError(
        absl::StrCat("TrainingLoopOptions::checkpoint_directory: another loop or run is using ",
                     options_.checkpoint_directory, " (",
                     RunLock::ReadHolder(options_.checkpoint_directory, RunLock::Holder::kChief),
                     "); wait for it or name another directory"));
  }
  RETURN_IF_ERROR(lock.status());
  lock_.emplace(*std::move(lock));
  RETURN_IF_ERROR(checkpoints_->Restore(variables_.get()));
  saved_step_ = step();
  return absl::OkStatus();
}

absl::Status TrainingLoop::SaveCheckpoint() {
  if (checkpoints_ == nullptr || step() == saved_step_) return absl::OkStatus();
  RETURN_IF_ERROR(checkpoints_->Save(*variables_, clock_.Now()));
  saved_step_ = step();
  return absl::OkStatus();
}

void TrainingLoop::ChooseFetches() {
  fetches_ = {model_.train_op->total_loss};
  for (const GradientAndVariable& pair : model_.train_op->gradients) {
    fetches_.push_back(pair.gradient);
    contributes_.push_back(pair.variable.node->variable_index);
  }
  for (const Output& op : model_.train_op->update_ops) {
    fetches_.push_back(op);
    contributes_.push_back(
        graph_.FindVariable(op.node->attributes.GetString("variable", ""))->node->variable_index);
  }
  const auto fetch = [this](const Output& value) {
    if (std::count(fetches_.begin(), fetches_.end(), value) == 0) fetches_.push_back(value);
  };
  for (const ScalarSummary& summary : model_.summaries) fetch(summary.value);
  for (const HistogramSummary& summary : model_.histograms) fetch(summary.value);
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
  values_.resize(variables_->size());
  versions_.resize(variables_->size());
  for (const TensorSpec& spec : executable_->output_specs()) results_.emplace_back(spec);
  for (Tensor& result : results_) outputs_.push_back(result.mutable_data());
  results_[0].mutable_span<float>()[0] = std::numeric_limits<float>::quiet_NaN();
  contributions_.resize(variables_->size());
  for (size_t i = 0; i < contributes_.size(); ++i) {
    contributions_[contributes_[i]] = results_[i + 1].span<float>().data();
  }
}

absl::Status TrainingLoop::TakeStep() {
  const auto step = static_cast<int64_t>(variables_->step());
  const int64_t batches = dataset_.size() / plan_.batch_examples();  // full ones
  RandomKey key;
  key.seed = options_.seed;
  key.epoch = static_cast<uint64_t>(step / batches);
  key.first_example = static_cast<uint64_t>(step % batches * plan_.batch_examples());
  plan_.FillIndices(static_cast<uint32_t>(key.epoch), step % batches, absl::MakeSpan(indices_));
  std::vector<void*> rows;
  for (Tensor& field : fields_) rows.push_back(field.mutable_data());
  RETURN_IF_ERROR(dataset_.FillBatch(static_cast<uint32_t>(key.epoch), indices_, rows));
  for (size_t v = 0; v < values_.size(); ++v) {
    values_[v] = variables_->value(v).data();
    versions_[v] = variables_->version(v);
  }
  executable_->Run({inputs_, values_, outputs_, key, versions_});
  RETURN_IF_ERROR(executable_->status());
  RETURN_IF_ERROR(variables_->ApplyStep(contributions_));
  const int64_t every = options_.summarize_every_steps;
  const bool is_due = every > 0 && (step == 0 || (step + 1) % every == 0);
  return is_due ? WriteSummaries(step) : absl::OkStatus();
}

const Tensor& TrainingLoop::result(const Output& fetch) const {
  return results_[static_cast<size_t>(std::find(fetches_.begin(), fetches_.end(), fetch) -
                                      fetches_.begin())];
}

std::vector<std::string> TrainingLoop::missing_devices() const {
  return MissingDevices(options_.devices, accelerators_);
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

absl::Status TrainingLoop::TakeSteps(int64_t num_steps) {
  absl::Time logged = clock_.Now();
  int64_t logged_step = step();
  for (int64_t i = 0; i < num_steps; ++i) {
    RETURN_IF_ERROR(TakeStep());
    if (options_.log_every_steps > 0 && step() % options_.log_every_steps == 0) {
      const absl::Time now = clock_.Now();
      LOG(INFO) << absl::StrFormat(
          "step %d: loss %.4g, %.1f steps/s", step(), results_[0].span<float>()[0],
          static_cast<double>(step() - logged_step) / absl::ToDoubleSeconds(now - logged));
      logged = now;
      logged_step = step();
    }
    const int64_t every = options_.checkpoint_every_steps;
    if (every > 0 && step() % every == 0) RETURN_IF_ERROR(SaveCheckpoint());
  }
  return SaveCheckpoint();
}

absl::StatusOr<float> TrainingLoop::Train(int64_t num_steps) {
  const absl::Status trained = TakeSteps(num_steps);
  const absl::Status flushed = events_.Flush();
  RETURN_IF_ERROR(trained);
  RETURN_IF_ERROR(flushed);
  return results_[0].span<float>()[0];
}

absl::StatusOr<float> TrainingLoop::TrainTo(int64_t last_step) {
  return Train(std::max<int64_t>(0, last_step - step()));
}

}  // namespace shoal

// Any model, computed on any devices at once: Keras' ParallelModel.
//
//   ParallelModelSpec spec;
//   spec.inputs = {{"input", {DataType::kFloat32, {784}}}};
//   spec.model = [](GraphBuilder& builder, absl::Span<const Output> inputs, bool is_training) {
//     return std::vector<Output>{Dense(builder, inputs[0], {.units = 10})};
//   };
//   ParallelModelOptions options;
//   options.devices = {"/cpu:0", "/cpu:2"};
//   ASSIGN_OR_RETURN(auto model, ParallelModel::Create(spec, options));
//   RETURN_IF_ERROR(model->Load(*file_system, "runs/NAME/checkpoints/step-100/model.safetensors"));
//   ASSIGN_OR_RETURN(std::vector<Tensor> outputs, model->Predict({images}));
//
// Every device has a copy of the model and computes its part of the batch; batches need not divide.
// The outputs of the parts stand one after the other, in the order of the examples; scalars are
// averaged, weighed by examples. A loss is computed from the merged outputs, so it may look at the
// whole batch. Names, values, files and summary are those of the inner model: the number of devices
// shows nowhere, and results differ by rounding only (but for batch norm in training, whose
// statistics are those of each copy's examples).
#ifndef SHOAL_WORKER_PARALLEL_MODEL_H_
#define SHOAL_WORKER_PARALLEL_MODEL_H_

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "ml/deploy/parallel_graph.h"
#include "ml/device/kernel.h"
#include "ml/graph/compiler.h"
#include "ml/graph/executable.h"
#include "ml/tensor/tensor.h"
#include "runtime/variables/owned_variables.h"

namespace shoal {

class FileSystem;

namespace v1 {
class OptimizerConfig;
}

struct ParallelModelOptions {
  std::vector<std::string> devices = {"/cpu:0"};  // one copy on each; any numbers, each once
  KernelBackend backend;                          // of CPUs
  std::vector<KernelBackend> accelerators;        // backends of other device types
  int threads_per_device = 1;
  // A device that is not there: the CPU of its number instead, or an error.
  bool allow_soft_placement = true;
  uint64_t seed = 1;                            // seeds first values and random ops
  DataType compute_dtype = DataType::kFloat32;  // or kBfloat16: what products are computed from
};

// Not thread-safe.
class ParallelModel {
 public:
  // Variables have their first values. InvalidArgument names what does not fit: the model to its
  // inputs, a device. `optimizer` is for TrainOnBatch; null with a spec without a loss.
  static absl::StatusOr<std::unique_ptr<ParallelModel>> Create(
      ParallelModelSpec spec, ParallelModelOptions options,
      const v1::OptimizerConfig* optimizer = nullptr);
  ~ParallelModel();

  // The outputs for these inputs, which have one first dimension; computed batch_size examples at a
  // time, 0: all at once. InvalidArgument names an input of another type or shape.
  absl::StatusOr<std::vector<Tensor>> Predict(absl::Span<const Tensor> inputs,
                                              int64_t batch_size = 0);

  // One update; returns the loss before it. FailedPrecondition if the loss, a gradient or a new
  // value is not finite; then nothing is changed.
  absl::StatusOr<float> TrainOnBatch(absl::Span<const Tensor> inputs,
                                     absl::Span<const Tensor> targets);

  // The inner model's, in the order of declaration.
  const OwnedVariables& variables() const { return *variables_; }
  OwnedVariables& variables() { return *variables_; }

  // A safetensors file of all variables by name. Load takes any such file, as checkpoints export
  // it: FailedPrecondition names the first variable that differs, and then nothing is changed.
  absl::Status Save(FileSystem& file_system, const std::string& path) const;
  absl::Status Load(FileSystem& file_system, const std::string& path);

  // Devices of the options that this build or machine does not have; soft placement computes their
  // copies on CPUs.
  std::vector<std::string> missing_devices() const;

  // Variables with shapes and numbers of parameters, outputs, totals.
  std::string Summary() const;

 private:
  // An executable for a number of examples, with its bindings.
  struct Compiled {
    std::unique_ptr<Executable> executable;
    const ParallelGraph* graph = nullptr;
    std::vector<int64_t> first_rows;  // by clone
    std::vector<int64_t> num_rows;    // by clone
    std::vector<const void*> feeds, variables;
    std::vector<uint64_t> versions;  // of the variables
    std::vector<void*> outputs;
    std::vector<Tensor> results;              // training: loss, then contributions
    std::vector<const float*> contributions;  // training: by variable
    std::vector<size_t> variable_of_graph;    // the graph's variables to ours
  };

  ParallelModel(ParallelModelSpec spec, ParallelModelOptions options);
  absl::StatusOr<const ParallelGraph*> GraphFor(size_t num_clones, bool is_training);
  absl::StatusOr<Compiled*> CompiledFor(int64_t num_examples, bool is_training);
  absl::Status MapVariables(Compiled* compiled) const;
  CompileRequest RequestFor(const Compiled& compiled, int64_t num_examples, bool is_training,
                            std::vector<size_t>* contributes) const;
  absl::Status Compile(int64_t num_examples, bool is_training, Compiled* compiled) const;
  void Bind(absl::Span<const Tensor> inputs, absl::Span<const Tensor> targets, int64_t first,
            Compiled* compiled) const;
  absl::Status BindOutputs(int64_t first, int64_t total, Compiled* compiled,
                           std::vector<Tensor>* outputs, std::vector<float>* scalars) const;
  absl::Status PredictPart(absl::Span<const Tensor> inputs, int64_t first, int64_t count,
                           std::vector<Tensor>* outputs);

  const ParallelModelSpec spec_;
  const ParallelModelOptions options_;
  std::unique_ptr<OwnedVariables> variables_;
  std::map<std::pair<bool, size_t>, ParallelGraph> graphs_;  // by is_training, clones
  std::map<std::pair<bool, int64_t>, Compiled> compiled_;    // by is_training, examples
};

}  // namespace shoal

#endif  // SHOAL_WORKER_PARALLEL_MODEL_H_

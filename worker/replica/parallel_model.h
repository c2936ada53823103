// Computes any model on several devices at once, like Keras' ParallelModel.
//
//   ParallelModelSpec spec;
//   spec.inputs = {{"input", {DataType::kFloat32, {784}}}};
//   spec.model = [](GraphBuilder& builder, absl::Span<const Output> inputs, bool is_training) {
//     DenseOptions dense;
//     dense.units = 10;
//     return std::vector<Output>{Dense(builder, inputs[0], dense)};
//   };
//   ParallelModelOptions options;
//   options.devices = {"/cpu:0", "/cpu:2"};
//   ASSIGN_OR_RETURN(auto model, ParallelModel::Create(spec, options));
//   // The file of `shoal export runs/NAME --model_file=model.safetensors`.
//   RETURN_IF_ERROR(model->Load(*file_system, "model.safetensors"));
//   ASSIGN_OR_RETURN(std::vector<Tensor> outputs, model->Predict({images}));
//
// Every device has a copy of the model and computes a part of the batch, whose size need not be
// divisible by the number of devices. The outputs of the parts are concatenated in the order of the
// examples; scalars are averaged, weighted by the number of examples. A loss is computed from the
// merged outputs, so it may use the whole batch. Names, values, files and summary are those of the
// inner model and do not depend on the number of devices. Results differ only by rounding, except
// for batch norm in training, which uses the statistics of each copy's examples.
#ifndef SHOAL_WORKER_REPLICA_PARALLEL_MODEL_H_
#define SHOAL_WORKER_REPLICA_PARALLEL_MODEL_H_

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
  std::vector<std::string> devices = {"/cpu:0"};  // one copy on each; no device twice
  // The backend of CPU devices, and those of other device types. Without a backend, Create uses all
  // that this build and machine have for the devices, and logs which of them are missing.
  KernelBackend backend;
  std::vector<KernelBackend> accelerators;
  int threads_per_device = 1;
  // If true, a missing device is replaced by the CPU of the same index; if false, it is an error.
  bool allow_soft_placement = true;
  uint64_t seed = 1;  // seeds first values and random ops
  // The type of the operands of products: kFloat32 or kBfloat16.
  DataType compute_dtype = DataType::kFloat32;
};

// Not thread-safe.
class ParallelModel {
 public:
  // Creates a model whose variables have their initial values. InvalidArgument names the input or
  // device that does not fit. `optimizer` is for TrainOnBatch; null if the spec has no loss.
  static absl::StatusOr<std::unique_ptr<ParallelModel>> Create(
      ParallelModelSpec spec, ParallelModelOptions options,
      const v1::OptimizerConfig* optimizer = nullptr);
  ~ParallelModel();

  // Returns the outputs for these inputs, whose first dimensions must be equal. They are computed
  // batch_size examples at a time; 0: all at once. InvalidArgument names an input of a wrong type
  // or shape.
  absl::StatusOr<std::vector<Tensor>> Predict(absl::Span<const Tensor> inputs,
                                              int64_t batch_size = 0);

  // Makes one update and returns the loss before it. Returns FailedPrecondition, and changes
  // nothing, if the loss, a gradient or a new value is not finite.
  absl::StatusOr<float> TrainOnBatch(absl::Span<const Tensor> inputs,
                                     absl::Span<const Tensor> targets);

  // The inner model's variables, in the order of declaration.
  const OwnedVariables& variables() const { return *variables_; }
  OwnedVariables& variables() { return *variables_; }

  // Save writes a safetensors file with all variables by name. Load reads such a file, also one
  // that a checkpoint has exported; FailedPrecondition names the first variable that differs, and
  // then nothing is changed.
  absl::Status Save(FileSystem& file_system, const std::string& path) const;
  absl::Status Load(FileSystem& file_system, const std::string& path);

  // Returns the listed devices that this build or machine does not have. With soft placement their
  // copies are computed on CPUs.
  std::vector<std::string> missing_devices() const;

  // Returns a table of the variables with shapes and numbers of parameters, the outputs, and
  // totals.
  std::string Summary() const;

 private:
  // An executable for one number of examples, with its bindings.
  struct Compiled {
    std::unique_ptr<Executable> executable;
    const ParallelGraph* graph = nullptr;
    std::vector<int64_t> first_rows;  // indexed by clone
    std::vector<int64_t> num_rows;    // indexed by clone
    std::vector<const void*> feeds, variables;
    std::vector<uint64_t> versions;  // versions of the variables
    std::vector<void*> outputs;
    std::vector<Tensor> results;              // training: loss, then contributions
    std::vector<const float*> contributions;  // training: indexed by variable
    std::vector<size_t> variable_of_graph;    // maps the graph's variables to the inner model's
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
  std::map<std::pair<bool, size_t>, ParallelGraph> graphs_;  // keyed by is_training and clones
  std::map<std::pair<bool, int64_t>, Compiled> compiled_;    // keyed by is_training and examples
};

}  // namespace shoal

#endif  // SHOAL_WORKER_REPLICA_PARALLEL_MODEL_H_

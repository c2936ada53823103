#include "ml/kernels/op_runner.h"

#include <cstring>
#include <utility>

#include "base/status_macros.h"
#include "ml/tensor/buffer.h"

namespace shoal {
namespace {

// As a float32: -1.2e22; as a byte: not 0, 1 or 255.
constexpr int kNoise = 0xe4;

TensorSpec AsFloat64(TensorSpec spec) {
  if (spec.dtype == DataType::kFloat32) spec.dtype = DataType::kFloat64;
  return spec;
}

Tensor AsFloat64(const Tensor& tensor) {
  if (tensor.dtype() != DataType::kFloat32) return tensor;
  Tensor result(AsFloat64(tensor.spec()));
  for (size_t i = 0; i < tensor.span<float>().size(); ++i) {
    result.mutable_span<double>()[i] = tensor.span<float>()[i];
  }
  return result;
}

}  // namespace

absl::StatusOr<std::vector<Tensor>> RunOp(const KernelFactory& factory, const OpCall& call,
                                          const OpRunOptions& options) {
  std::vector<TensorSpec> input_specs;
  std::vector<const void*> inputs;
  for (const Tensor& input : call.inputs) {
    input_specs.push_back(input.spec());
    inputs.push_back(input.data());
  }
  std::vector<bool> needed = options.output_needed;
  if (needed.empty()) needed.assign(call.outputs.size(), true);
  const KernelRequest request{call.op,      &call.attributes, input_specs,
                              call.outputs, needed,           options.threads};
  ASSIGN_OR_RETURN(const std::unique_ptr<Kernel> kernel, factory(request));
  std::vector<Tensor> results;
  std::vector<void*> outputs;
  for (size_t k = 0; k < call.outputs.size(); ++k) {
    results.push_back(needed[k] ? Tensor(call.outputs[k]) : Tensor());
    outputs.push_back(needed[k] ? results.back().mutable_data() : nullptr);
    if (needed[k]) std::memset(outputs.back(), kNoise, call.outputs[k].bytes());
  }
  Buffer workspace(kernel->workspace_bytes());
  if (workspace.size() > 0) std::memset(workspace.data(), kNoise, workspace.size());
  KernelContext context;
  context.inputs = inputs.data();
  context.outputs = outputs.data();
  context.workspace = workspace.data();
  context.key = options.key;
  kernel->Run(context);
  return results;
}

OpCall AsFloat64(const OpCall& call) {
  OpCall result{call.op, call.attributes, {}, {}};
  for (const Tensor& input : call.inputs) result.inputs.push_back(AsFloat64(input));
  for (const TensorSpec& spec : call.outputs) result.outputs.push_back(AsFloat64(spec));
  return result;
}

}  // namespace shoal

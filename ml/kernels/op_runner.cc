#include "ml/kernels/op_runner.h"

#include <cstring>
#include <utility>

#include "base/status_macros.h"
#include "ml/tensor/buffer.h"

namespace shoal {
namespace {

// A byte pattern that is about -1.2e22 as a float32 and neither 0, 1 nor 255 as a byte.
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

// The operands of one run in host memory; outputs and workspace are filled with noise.
struct Operands {
  std::vector<const void*> inputs;
  std::vector<Tensor> results;  // those not needed are empty
  std::vector<void*> outputs;
};

Operands OperandsOf(const OpCall& call, const std::vector<bool>& needed) {
  Operands operands;
  for (const Tensor& input : call.inputs) operands.inputs.push_back(input.data());
  for (size_t k = 0; k < call.outputs.size(); ++k) {
    operands.results.push_back(needed[k] ? Tensor(call.outputs[k]) : Tensor());
    operands.outputs.push_back(needed[k] ? operands.results.back().mutable_data() : nullptr);
    if (needed[k]) std::memset(operands.outputs.back(), kNoise, call.outputs[k].bytes());
  }
  return operands;
}

void RunOnHost(Kernel* kernel, const RandomKey& key, Operands* operands) {
  Buffer workspace(kernel->workspace_bytes());
  if (workspace.size() > 0) std::memset(workspace.data(), kNoise, workspace.size());
  KernelContext context;
  context.inputs = operands->inputs.data();
  context.outputs = operands->outputs.data();
  context.workspace = workspace.data();
  context.key = key;
  kernel->Run(context);
}

// Copies `bytes` bytes to new memory of the device; fills it with noise if there is no source.
absl::StatusOr<DeviceMemory> OnDevice(const std::shared_ptr<Device>& device, const void* from,
                                      size_t bytes) {
  ASSIGN_OR_RETURN(DeviceMemory memory, DeviceMemory::Allocate(device, bytes));
  if (bytes == 0) return memory;
  Buffer noise(from == nullptr ? bytes : 0);
  if (from == nullptr) std::memset(noise.data(), kNoise, bytes);
  device->CopyFromHost(memory.data(), from == nullptr ? noise.data() : from, bytes);
  RETURN_IF_ERROR(device->Synchronize());
  return memory;
}

absl::Status RunOnDevice(Kernel* kernel, const OpCall& call, const OpRunOptions& options,
                         Operands* operands) {
  std::vector<DeviceMemory> memories;
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  for (const Tensor& input : call.inputs) {
    ASSIGN_OR_RETURN(DeviceMemory memory, OnDevice(options.device, input.data(), input.bytes()));
    inputs.push_back(memory.data());
    memories.push_back(std::move(memory));
  }
  for (size_t k = 0; k < call.outputs.size(); ++k) {
    const size_t bytes = operands->outputs[k] == nullptr ? 0 : call.outputs[k].bytes();
    ASSIGN_OR_RETURN(DeviceMemory memory, OnDevice(options.device, nullptr, bytes));
    outputs.push_back(memory.data());
    memories.push_back(std::move(memory));
  }
  ASSIGN_OR_RETURN(DeviceMemory workspace,
                   OnDevice(options.device, nullptr, kernel->workspace_bytes()));
  KernelContext context;
  context.inputs = inputs.data();
  context.outputs = outputs.data();
  context.workspace = workspace.data();
  context.key = options.key;
  context.stream = options.device->stream();
  kernel->Run(context);
  for (size_t k = 0; k < outputs.size(); ++k) {
    if (outputs[k] == nullptr) continue;
    options.device->CopyToHost(Device::Queue::kCompute, operands->outputs[k], outputs[k],
                               call.outputs[k].bytes());
  }
  return options.device->Synchronize();
}

}  // namespace

absl::StatusOr<std::vector<Tensor>> RunOp(const KernelFactory& factory, const OpCall& call,
                                          const OpRunOptions& options) {
  std::vector<TensorSpec> input_specs;
  for (const Tensor& input : call.inputs) input_specs.push_back(input.spec());
  std::vector<bool> needed = options.output_needed;
  if (needed.empty()) needed.assign(call.outputs.size(), true);
  const KernelRequest request{call.op, &call.attributes, input_specs,         call.outputs,
                              needed,  options.threads,  options.device.get()};
  if (options.device != nullptr) options.device->Activate();
  ASSIGN_OR_RETURN(const std::unique_ptr<Kernel> kernel, factory(request));
  Operands operands = OperandsOf(call, needed);
  if (options.device == nullptr) {
    RunOnHost(kernel.get(), options.key, &operands);
  } else {
    RETURN_IF_ERROR(RunOnDevice(kernel.get(), call, options, &operands));
  }
  return std::move(operands.results);
}

OpCall AsFloat64(const OpCall& call) {
  OpCall result{call.op, call.attributes, {}, {}};
  for (const Tensor& input : call.inputs) result.inputs.push_back(AsFloat64(input));
  for (const TensorSpec& spec : call.outputs) result.outputs.push_back(AsFloat64(spec));
  return result;
}

}  // namespace shoal

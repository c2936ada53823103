#include "tests/benchmark/kernel_bench.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "ml/kernels/cpu/cpu_kernels.h"
#include "tests/benchmark/fma_peak.h"

namespace shoal {
namespace {

std::unique_ptr<void, void (*)(void*)> AllocateTouched(size_t bytes) {
  const size_t rounded = (bytes + 64 + 4095) / 4096 * 4096;
  void* memory = std::aligned_alloc(4096, rounded);
  std::memset(memory, 0, rounded);
  return {memory, std::free};
}

}  // namespace

void KernelSequence::AddBuffer(const std::string& name, const TensorSpec& spec, float scale) {
  Buffer buffer{spec, AllocateTouched(spec.bytes())};
  uint32_t state = 12345;
  for (int64_t i = 0; i < spec.shape.num_elements(); ++i) {
    state = state * 1664525u + 1013904223u;
    const float unit = static_cast<float>(state >> 8) / 16777216.0f;
    if (spec.dtype == DataType::kFloat32) {
      static_cast<float*>(buffer.bytes.get())[i] = (2.0f * unit - 1.0f) * scale;
    } else if (spec.dtype == DataType::kInt32) {
      static_cast<int32_t*>(buffer.bytes.get())[i] = static_cast<int32_t>(unit * scale);
    }
  }
  buffers_.insert_or_assign(name, std::move(buffer));
}

void KernelSequence::AddAlias(const std::string& name, const std::string& of,
                              const TensorSpec& spec) {
  buffers_.insert_or_assign(name, Buffer{spec, buffers_.at(of).bytes});
}

void KernelSequence::AddKernel(const std::string& label, const std::string& op,
                               const Attributes& attributes, const std::vector<std::string>& inputs,
                               const std::vector<std::string>& outputs,
                               const TensorSpec& skipped_spec) {
  std::vector<TensorSpec> input_specs, output_specs;
  Call call;
  KernelRequest request;
  for (const std::string& name : inputs) {
    input_specs.push_back(buffers_.at(name).spec);
    call.inputs.push_back(buffers_.at(name).bytes.get());
  }
  for (const std::string& name : outputs) {
    request.output_needed.push_back(!name.empty());
    output_specs.push_back(name.empty() ? skipped_spec : buffers_.at(name).spec);
    call.outputs.push_back(name.empty() ? nullptr : buffers_.at(name).bytes.get());
  }
  request.op = op;
  request.attributes = &attributes;
  request.inputs = input_specs;
  request.outputs = output_specs;
  request.threads = threads_;
  absl::StatusOr<std::unique_ptr<Kernel>> kernel = CreateCpuKernel(request);
  if (!kernel.ok()) {
    std::fprintf(stderr, "%s\n", kernel.status().ToString().c_str());
    std::exit(1);
  }
  call.kernel = *std::move(kernel);
  if (call.kernel->workspace_bytes() > workspace_bytes_ || workspace_ == nullptr) {
    workspace_bytes_ = call.kernel->workspace_bytes();
    workspace_ = AllocateTouched(workspace_bytes_);
  }
  calls_.push_back(std::move(call));
  timings_.push_back({label, {}});
}

void KernelSequence::Run() {
  for (size_t i = 0; i < calls_.size(); ++i) {
    KernelContext context;
    context.inputs = calls_[i].inputs.data();
    context.outputs = calls_[i].outputs.data();
    context.workspace = workspace_.get();
    const double start = ThreadCpuSeconds();
    calls_[i].kernel->Run(context);
    timings_[i].seconds.push_back(ThreadCpuSeconds() - start);
  }
}

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<long>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

}  // namespace shoal

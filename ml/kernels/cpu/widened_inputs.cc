#include "ml/kernels/cpu/widened_inputs.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "ml/kernels/cpu/parallel.h"
#include "ml/kernels/cpu/simd/selection_kernels.h"
#include "ml/tensor/buffer.h"

namespace shoal::cpu {
namespace {

class WidenedInputsKernel : public Kernel {
 public:
  struct Input {
    size_t index;
    int64_t count;
    size_t offset;  // in the workspace, behind the kernel's own
  };

  WidenedInputsKernel(std::unique_ptr<Kernel> kernel, std::vector<Input> widened, size_t num_inputs,
                      size_t widened_bytes, const SelectionKernels& simd, int threads)
      : kernel_(std::move(kernel)),
        widened_(std::move(widened)),
        own_bytes_(AlignedBytes(kernel_->workspace_bytes())),
        widened_bytes_(widened_bytes),
        simd_(simd),
        threads_(threads),
        inputs_(num_inputs) {}

  size_t workspace_bytes() const override { return own_bytes_ + widened_bytes_; }

  void Run(const KernelContext& context) override {
    std::copy_n(context.inputs, inputs_.size(), inputs_.begin());
    for (const Input& input : widened_) {
      const void* from = context.inputs[input.index];
      // ConvGrad has dy twice where nobody reads y.
      const auto* const same = std::find(context.inputs, context.inputs + input.index, from);
      if (same != context.inputs + input.index) {
        inputs_[input.index] = inputs_[static_cast<size_t>(same - context.inputs)];
        continue;
      }
      char* to = static_cast<char*>(context.workspace) + own_bytes_ + input.offset;
      Widen(from, input.count, to);
      inputs_[input.index] = to;
    }
    KernelContext inner = context;
    inner.inputs = inputs_.data();
    kernel_->Run(inner);
  }

 private:
  void Widen(const void* from, int64_t count, char* to) const {
    ParallelFor(threads_, count, [&](int64_t begin, int64_t end) {
      simd_.convert(DataType::kBfloat16, DataType::kFloat32,
                    static_cast<const Bfloat16*>(from) + begin, to + begin * 4, end - begin);
    });
  }

  const std::unique_ptr<Kernel> kernel_;
  const std::vector<Input> widened_;
  const size_t own_bytes_;
  const size_t widened_bytes_;
  const SelectionKernels& simd_;
  const int threads_;
  std::vector<const void*> inputs_;
};

}  // namespace

bool HasBfloat16(const KernelRequest& request) {
  const auto is_bfloat16 = [](const TensorSpec& spec) { return spec.dtype == DataType::kBfloat16; };
  return std::any_of(request.inputs.begin(), request.inputs.end(), is_bfloat16) ||
         std::any_of(request.outputs.begin(), request.outputs.end(), is_bfloat16);
}

bool TakesBfloat16Factors(absl::string_view op) {
  for (const char* product : {"MatMul", "Dense", "Conv", "ConvGrad", "ConvPool", "ConvTranspose"}) {
    if (op == product) return true;
  }
  return false;
}

absl::StatusOr<std::unique_ptr<Kernel>> CreateWithWidenedInputs(const KernelRequest& request,
                                                                CpuIsa isa,
                                                                const KernelFactory& create) {
  std::vector<TensorSpec> specs(request.inputs.begin(), request.inputs.end());
  std::vector<WidenedInputsKernel::Input> widened;
  size_t bytes = 0;
  for (size_t i = 0; i < specs.size(); ++i) {
    if (specs[i].dtype != DataType::kBfloat16) continue;
    specs[i].dtype = DataType::kFloat32;
    widened.push_back({i, specs[i].shape.num_elements(), bytes});
    bytes += AlignedBytes(specs[i].bytes());
  }
  KernelRequest inner = request;
  inner.inputs = specs;
  absl::StatusOr<std::unique_ptr<Kernel>> kernel = create(inner);
  if (!kernel.ok()) return kernel.status();
  return {std::make_unique<WidenedInputsKernel>(*std::move(kernel), std::move(widened),
                                                specs.size(), bytes, SelectionKernelsFor(isa),
                                                request.threads)};
}

}  // namespace shoal::cpu

// Kernels that convert inputs to another layout and then run another kernel.

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"

#include "ml/kernels/cpu/kernel_families.h"
#include "ml/kernels/cpu/layout_reorder.h"

namespace shoal::cpu {
namespace {

// Converts some inputs to blocks of 16 channels in its workspace, then runs another kernel.
class ReorderedInputsKernel : public Kernel {
 public:
  struct Input {
    int index;
    LayoutReorder reorder;
    size_t offset;
  };

  ReorderedInputsKernel(std::unique_ptr<Kernel> kernel, std::vector<Input> inputs,
                        size_t num_inputs, size_t reordered_bytes, int threads)
      : kernel_(std::move(kernel)),
        reordered_(std::move(inputs)),
        reordered_bytes_(reordered_bytes),
        threads_(threads),
        inputs_(num_inputs) {}

  size_t workspace_bytes() const override { return reordered_bytes_ + kernel_->workspace_bytes(); }

  void Run(const KernelContext& context) override {
    char* workspace = static_cast<char*>(context.workspace);
    std::copy_n(context.inputs, inputs_.size(), inputs_.begin());
    for (const Input& input : reordered_) {
      float* to = reinterpret_cast<float*>(workspace + input.offset);
      input.reorder.Run(threads_, FloatInput(context, input.index), to);
      inputs_[input.index] = to;
    }
    KernelContext inner = context;
    inner.inputs = inputs_.data();
    inner.workspace = workspace + reordered_bytes_;
    kernel_->Run(inner);
  }

 private:
  const std::unique_ptr<Kernel> kernel_;
  const std::vector<Input> reordered_;
  const size_t reordered_bytes_;
  const int threads_;
  std::vector<const void*> inputs_;
};

// Returns whether the input is a plain image that can be blocked like the output, and not one value
// for each channel.
bool IsPlainImage(const TensorSpec& spec, const Shape& output) {
  return spec.dtype == DataType::kFloat32 && spec.layout == Layout::kPlain &&
         spec.shape.rank() == 4 && spec.shape.dim(1) == output.dim(1) &&
         spec.shape.dim(1) % 16 == 0 && spec.shape.dim(2) * spec.shape.dim(3) > 1;
}

bool NeedsReorderedInputs(const CpuRequest& request) {
  const bool is_convolution = absl::StartsWith(request.request.op, "Conv");
  if (is_convolution || request.num_outputs() == 0 || request.request.op == "ReorderLayout" ||
      request.output(0).layout != Layout::kBlocked16) {
    return false;
  }
  return absl::c_any_of(request.request.inputs, [&](const TensorSpec& spec) {
    return IsPlainImage(spec, request.output(0).shape);
  });
}

KernelOr CreateWithReorderedInputs(const CpuRequest& request, FamilyCreator create) {
  std::vector<TensorSpec> specs(request.request.inputs.begin(), request.request.inputs.end());
  std::vector<ReorderedInputsKernel::Input> inputs;
  size_t bytes = 0;
  for (size_t i = 0; i < specs.size(); ++i) {
    if (!IsPlainImage(specs[i], request.output(0).shape)) continue;
    specs[i].layout = Layout::kBlocked16;
    inputs.push_back(
        {static_cast<int>(i), MakeLayoutReorder(specs[i].shape, Layout::kBlocked16), bytes});
    bytes += static_cast<size_t>(AlignedBytes(static_cast<int64_t>(specs[i].bytes())));
  }
  KernelRequest blocked = request.request;
  blocked.inputs = specs;
  KernelOr kernel = CreateAdapted(CpuRequest{blocked, request.simd, request.isa}, create);
  if (!kernel.ok()) return kernel.status();
  return std::make_unique<ReorderedInputsKernel>(*std::move(kernel), std::move(inputs),
                                                 specs.size(), bytes, request.threads());
}

}  // namespace

KernelOr CreateAdapted(const CpuRequest& request, FamilyCreator create) {
  if (NeedsReorderedInputs(request)) return CreateWithReorderedInputs(request, create);
  return create(request);
}

}  // namespace shoal::cpu

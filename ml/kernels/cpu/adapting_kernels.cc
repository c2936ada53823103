// Kernels around other kernels: inputs in another order, outputs that nobody wants.

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"

#include "ml/kernels/cpu/kernel_families.h"
#include "ml/kernels/cpu/layout_reorder.h"

namespace shoal::cpu {
namespace {

// Brings some inputs into blocks in its workspace, then runs another kernel.
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

// An image in plain order that can be blocked as the output is: not a value for each channel.
bool IsPlainImage(const TensorSpec& spec, const Shape& output) {
  return spec.dtype == DataType::kFloat32 && spec.layout == Layout::kPlain &&
         spec.shape.rank() == 4 && spec.shape.dim(1) == output.dim(1) &&
         spec.shape.dim(1) % 16 == 0 && spec.shape.dim(2) * spec.shape.dim(3) > 1;
}

// Gives outputs that nobody wants a place in its workspace, for kernels that write all of them.
class ScratchOutputsKernel : public Kernel {
 public:
  // Offsets into the workspace of the outputs, -1 for those that are wanted.
  ScratchOutputsKernel(std::unique_ptr<Kernel> kernel, std::vector<int64_t> offsets,
                       size_t scratch_bytes)
      : kernel_(std::move(kernel)),
        offsets_(std::move(offsets)),
        scratch_bytes_(scratch_bytes),
        outputs_(offsets_.size()) {}

  size_t workspace_bytes() const override { return scratch_bytes_ + kernel_->workspace_bytes(); }

  void Run(const KernelContext& context) override {
    char* workspace = static_cast<char*>(context.workspace);
    for (size_t i = 0; i < outputs_.size(); ++i) {
      outputs_[i] = offsets_[i] < 0 ? context.outputs[i] : workspace + offsets_[i];
    }
    KernelContext inner = context;
    inner.outputs = outputs_.data();
    inner.workspace = workspace + scratch_bytes_;
    kernel_->Run(inner);
  }

 private:
  const std::unique_ptr<Kernel> kernel_;
  const std::vector<int64_t> offsets_;
  const size_t scratch_bytes_;
  std::vector<void*> outputs_;
};

constexpr absl::string_view kWritesAllOutputs[] = {"ConvPool", "MaxPool", "SoftmaxCrossEntropy",
                                                   "SparseSoftmaxCrossEntropy"};

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

bool NeedsScratchOutputs(const CpuRequest& request) {
  if (!absl::c_linear_search(kWritesAllOutputs, request.request.op)) return false;
  for (int i = 0; i < request.num_outputs(); ++i) {
    if (!request.needed(i)) return true;
  }
  return false;
}

KernelOr CreateWithScratchOutputs(const CpuRequest& request, FamilyCreator create) {
  std::vector<int64_t> offsets;
  int64_t bytes = 0;
  for (int i = 0; i < request.num_outputs(); ++i) {
    offsets.push_back(request.needed(i) ? -1 : bytes);
    if (!request.needed(i)) bytes += AlignedBytes(static_cast<int64_t>(request.output(i).bytes()));
  }
  KernelRequest all = request.request;
  all.output_needed.clear();
  KernelOr kernel = create(CpuRequest{all, request.simd, request.isa});
  if (!kernel.ok()) return kernel.status();
  return std::make_unique<ScratchOutputsKernel>(*std::move(kernel), std::move(offsets),
                                                static_cast<size_t>(bytes));
}

}  // namespace

KernelOr CreateAdapted(const CpuRequest& request, FamilyCreator create) {
  if (NeedsReorderedInputs(request)) return CreateWithReorderedInputs(request, create);
  if (NeedsScratchOutputs(request)) return CreateWithScratchOutputs(request, create);
  return create(request);
}

}  // namespace shoal::cpu

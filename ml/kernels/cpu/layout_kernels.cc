// ReorderLayout, which ops work on blocks of 16 channels, and kernels whose inputs come in
// different orders.

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"

#include "ml/kernels/cpu/kernel_families.h"
#include "ml/kernels/cpu/parallel.h"

namespace shoal::cpu {
namespace {

// Blocks of 16 channels: [16][pixels] <-> [pixels][16].
struct Reorder {
  int64_t blocks, pixels;
  bool to_blocked;

  void Run(int threads, const float* x, float* y) const {
    const int64_t size = pixels * 16;
    ParallelFor(threads, blocks, [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b) {
        if (to_blocked) {
          ToBlocked(x + b * size, y + b * size);
        } else {
          ToPlain(x + b * size, y + b * size);
        }
      }
    });
  }

 private:
  void ToBlocked(const float* x, float* y) const {
    for (int64_t p = 0; p < pixels; ++p) {
      for (int c = 0; c < 16; ++c) y[p * 16 + c] = x[c * pixels + p];
    }
  }

  void ToPlain(const float* x, float* y) const {
    for (int c = 0; c < 16; ++c) {
      for (int64_t p = 0; p < pixels; ++p) y[c * pixels + p] = x[p * 16 + c];
    }
  }
};

Reorder ReorderOf(const Shape& shape, Layout to) {
  return {shape.dim(0) * shape.dim(1) / 16, shape.dim(2) * shape.dim(3), to == Layout::kBlocked16};
}

class ReorderKernel : public Kernel {
 public:
  ReorderKernel(const Reorder& reorder, int threads) : reorder_(reorder), threads_(threads) {}

  void Run(const KernelContext& context) override {
    reorder_.Run(threads_, FloatInput(context, 0), FloatOutput(context, 0));
  }

 private:
  const Reorder reorder_;
  const int threads_;
};

// Brings some inputs into blocks in its workspace, then runs another kernel.
class ReorderedInputsKernel : public Kernel {
 public:
  struct Input {
    int index;
    Reorder reorder;
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

constexpr absl::string_view kElementwise[] = {
    "Abs",      "Add",         "AddN",     "Div",      "Exp",
    "Identity", "Log",         "Maximum",  "Minimum",  "Mul",
    "Neg",      "Reciprocal",  "Relu",     "ReluGrad", "Scale",
    "Sigmoid",  "SigmoidGrad", "Sqrt",     "Square",   "SquaredDifference",
    "Sub",      "Tanh",        "TanhGrad",
};

// An image in plain order that can be blocked as the output is: not a value for each channel.
bool IsPlainImage(const TensorSpec& spec, const Shape& output) {
  return spec.dtype == DataType::kFloat32 && spec.layout == Layout::kPlain &&
         spec.shape.rank() == 4 && spec.shape.dim(1) == output.dim(1) &&
         spec.shape.dim(1) % 16 == 0 && spec.shape.dim(2) * spec.shape.dim(3) > 1;
}

}  // namespace

bool TakesBlockedLayout(absl::string_view op, const Attributes& attributes, Port port, int index) {
  (void)attributes;
  const bool input = port == Port::kInput;
  if (op == "Conv" || op == "MaxPool" || op == "ConvPool" || op == "AveragePool") {
    return !input || index == 0;
  }
  if (op == "ConvGrad" || op == "ConvPoolGrad") return input ? index != 1 : index == 0;
  if (op == "MaxPoolGrad" || op == "AveragePoolGrad") return true;
  if (op == "BatchNorm") return index == 0;
  if (op == "BatchNormGrad") return index == 0 || (input && index == 4);
  return std::find(std::begin(kElementwise), std::end(kElementwise), op) != std::end(kElementwise);
}

KernelOr CreateReorderLayout(const CpuRequest& request) {
  if (absl::Status status = request.CheckFloat(1, 1, 1); !status.ok()) return status;
  const TensorSpec& from = request.input(0);
  const TensorSpec& to = request.output(0);
  if (from.shape != to.shape) return request.Invalid("want equal shapes");
  if (from.layout == to.layout) return CreateCopy(request);
  if (from.shape.rank() != 4 || from.shape.dim(1) % 16 != 0) {
    return request.Invalid("want images with a multiple of 16 channels");
  }
  return std::make_unique<ReorderKernel>(ReorderOf(from.shape, to.layout), request.threads());
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
    inputs.push_back({static_cast<int>(i), ReorderOf(specs[i].shape, Layout::kBlocked16), bytes});
    bytes += static_cast<size_t>(AlignedBytes(static_cast<int64_t>(specs[i].bytes())));
  }
  KernelRequest blocked = request.request;
  blocked.inputs = specs;
  KernelOr kernel = create(CpuRequest{blocked, request.simd, request.isa});
  if (!kernel.ok()) return kernel.status();
  return std::make_unique<ReorderedInputsKernel>(*std::move(kernel), std::move(inputs),
                                                 specs.size(), bytes, request.threads());
}

}  // namespace shoal::cpu

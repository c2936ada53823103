#include "ml/kernels/reference/reference_kernels.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "ml/device/describe_request.h"
#include "ml/kernels/reference/reference_op.h"

namespace shoal {
namespace {

using reference::Call;
using reference::Function;
using reference::Op;

class ReferenceKernel final : public Kernel {
 public:
  ReferenceKernel(Function function, const KernelRequest& request)
      : function_(function),
        attributes_(request.attributes == nullptr ? Attributes() : *request.attributes),
        inputs_(request.inputs.begin(), request.inputs.end()),
        outputs_(request.outputs.begin(), request.outputs.end()) {}

  void Run(const KernelContext& context) override {
    function_(Call{attributes_, inputs_, outputs_, context});
  }

 private:
  const Function function_;
  const Attributes attributes_;
  const std::vector<TensorSpec> inputs_;
  const std::vector<TensorSpec> outputs_;
};

// Computes products of bfloat16 numbers as products of the same numbers in type T.
template <typename T>
class WidenedReferenceKernel final : public Kernel {
 public:
  WidenedReferenceKernel(std::unique_ptr<Kernel> kernel, const KernelRequest& request)
      : kernel_(std::move(kernel)),
        specs_(request.inputs.begin(), request.inputs.end()),
        widened_(specs_.size()) {
    for (size_t i = 0; i < specs_.size(); ++i) {
      if (specs_[i].dtype != DataType::kBfloat16) continue;
      widened_[i].resize(static_cast<size_t>(specs_[i].shape.num_elements()));
    }
  }

  void Run(const KernelContext& context) override {
    std::vector<const void*> inputs(context.inputs, context.inputs + specs_.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (specs_[i].dtype != DataType::kBfloat16) continue;
      for (size_t k = 0; k < widened_[i].size(); ++k) {
        widened_[i][k] = static_cast<T>(
            reference::LoadElement(specs_[i].dtype, inputs[i], static_cast<int64_t>(k)));
      }
      inputs[i] = widened_[i].data();
    }
    KernelContext inner = context;
    inner.inputs = inputs.data();
    kernel_->Run(inner);
  }

 private:
  const std::unique_ptr<Kernel> kernel_;
  const std::vector<TensorSpec> specs_;
  std::vector<std::vector<T>> widened_;
};

// Returns whether an input or output is bfloat16.
bool HasBfloat16(const KernelRequest& request) {
  for (const auto& specs : {request.inputs, request.outputs}) {
    for (const TensorSpec& spec : specs) {
      if (spec.dtype == DataType::kBfloat16) return true;
    }
  }
  return false;
}

absl::StatusOr<std::unique_ptr<Kernel>> CreateWidened(const KernelRequest& request) {
  const std::vector<absl::string_view> products = {"MatMul",   "Dense",    "Conv",
                                                   "ConvGrad", "ConvPool", "ConvTranspose"};
  const DataType dtype = request.outputs[0].dtype;
  const bool is_product = std::find(products.begin(), products.end(), request.op) != products.end();
  if (!is_product || !IsFloating(dtype)) {
    return absl::UnimplementedError(
        absl::StrCat("no reference kernel of these types: ", DescribeRequest(request)));
  }
  std::vector<TensorSpec> specs(request.inputs.begin(), request.inputs.end());
  for (TensorSpec& spec : specs) {
    if (spec.dtype == DataType::kBfloat16) spec.dtype = dtype;
  }
  KernelRequest inner = request;
  inner.inputs = specs;
  auto kernel = CreateReferenceKernel(inner);
  if (!kernel.ok()) return kernel.status();
  if (dtype == DataType::kFloat32) {
    return {std::make_unique<WidenedReferenceKernel<float>>(*std::move(kernel), request)};
  }
  return {std::make_unique<WidenedReferenceKernel<double>>(*std::move(kernel), request)};
}

std::vector<absl::Span<const Op>> Families() {
  return {reference::ActivationOps(),    reference::ConvolutionOps(), reference::DenseOps(),
          reference::ElementwiseOps(),   reference::FeatureOps(),     reference::LossOps(),
          reference::NormalizationOps(), reference::PoolingOps(),     reference::ReductionOps(),
          reference::SelectionOps(),     reference::ShapeOps()};
}

const Op* FindOp(absl::string_view name) {
  for (absl::Span<const Op> family : Families()) {
    for (const Op& op : family) {
      if (op.name == name) return &op;
    }
  }
  return nullptr;
}

// Returns the function for the first floating-point type of the inputs and outputs, or any function
// if the op only moves elements.
Function FunctionFor(const Op& op, const KernelRequest& request) {
  for (const auto& specs : {request.inputs, request.outputs}) {
    for (const TensorSpec& spec : specs) {
      if (spec.dtype == DataType::kFloat32) return op.float32;
      if (spec.dtype == DataType::kFloat64) return op.float64;
    }
  }
  return op.float32 == op.float64 ? op.float32 : nullptr;
}

bool IsPlain(const KernelRequest& request) {
  for (const auto& specs : {request.inputs, request.outputs}) {
    for (const TensorSpec& spec : specs) {
      if (spec.layout != Layout::kPlain) return false;
    }
  }
  return true;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> CreateReferenceKernel(const KernelRequest& request) {
  if (HasBfloat16(request) && request.op != "Cast" && request.op != "ReorderLayout") {
    return CreateWidened(request);
  }
  const Op* op = FindOp(request.op);
  if (op == nullptr) {
    return absl::NotFoundError(absl::StrCat("no reference kernel for ", DescribeRequest(request)));
  }
  const Function function = FunctionFor(*op, request);
  if (function == nullptr || (!IsPlain(request) && request.op != "ReorderLayout")) {
    return absl::UnimplementedError(
        absl::StrCat("no reference kernel of these types or layouts: ", DescribeRequest(request)));
  }
  return {std::make_unique<ReferenceKernel>(function, request)};
}

std::vector<std::string> ReferenceKernelOps() {
  std::vector<std::string> names;
  for (absl::Span<const Op> family : Families()) {
    for (const Op& op : family) names.emplace_back(op.name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

KernelBackend ReferenceKernelBackend() {
  KernelBackend backend;
  backend.create_kernel = CreateReferenceKernel;
  return backend;
}

}  // namespace shoal

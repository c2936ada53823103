#include "ml/kernels/reference/reference_kernels.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "ml/kernels/describe_request.h"
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

std::vector<absl::Span<const Op>> Families() {
  return {reference::ActivationOps(),  reference::ConvolutionOps(), reference::DenseOps(),
          reference::ElementwiseOps(), reference::LossOps(),        reference::NormalizationOps(),
          reference::PoolingOps(),     reference::ReductionOps(),   reference::SelectionOps(),
          reference::ShapeOps()};
}

const Op* FindOp(absl::string_view name) {
  for (absl::Span<const Op> family : Families()) {
    for (const Op& op : family) {
      if (op.name == name) return &op;
    }
  }
  return nullptr;
}

// The function for the first floating type among inputs and outputs; any, if elements only move.
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

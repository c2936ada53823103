#include "ml/kernels/cuda/convolution_kernels.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "ml/device/describe_request.h"
#include "ml/kernels/cuda/dnn_convolution.h"

namespace shoal::cuda {
namespace {

using KernelOr = absl::StatusOr<std::unique_ptr<Kernel>>;

CudaDevice* DeviceOf(const KernelRequest& request) {
  return static_cast<CudaDevice*>(request.device);
}

ChannelView ViewOf(const Shape& images) {
  return {static_cast<int>(images.dim(0)), static_cast<int>(images.dim(1)),
          static_cast<int>(images.dim(2) * images.dim(3))};
}

// Returns the type of the inputs `a` and `b`, which must be equal.
absl::StatusOr<DnnConvolution::Factors> FactorsOf(const KernelRequest& request, size_t a,
                                                  size_t b) {
  const DataType dtype = request.inputs[a].dtype;
  if (dtype != request.inputs[b].dtype) {
    return absl::UnimplementedError(
        absl::StrCat("no GPU kernel for factors of two types: ", DescribeRequest(request)));
  }
  return dtype == DataType::kBfloat16 ? DnnConvolution::Factors::kBfloat16
                                      : DnnConvolution::Factors::kFloat32;
}

// x, w, optional bias -> y
KernelOr CreateConv(const KernelRequest& request) {
  const Shape& y = request.outputs[0].shape;
  ASSIGN_OR_RETURN(const DnnConvolution::Factors factors, FactorsOf(request, 0, 1));
  ASSIGN_OR_RETURN(
      std::shared_ptr<DnnConvolution> convolution,
      DnnConvolution::Create(DeviceOf(request), *request.attributes, request.inputs[0].shape,
                             request.inputs[1].shape, y, {true, false, false}, factors));
  const ChannelView view = ViewOf(y);
  const Activation activation = ActivationOf(*request.attributes);
  const bool has_bias = request.inputs.size() > 2;
  return MakeKernel(convolution->workspace_bytes(), [=](const KernelContext& c) {
    convolution->Forward(c.inputs[0], c.inputs[1], Out<float>(c, 0), c.workspace);
    if (!has_bias && activation == Activation::kNone) return;
    AddBiasAndActivate(c.stream, view, has_bias ? In<float>(c, 2) : nullptr, activation,
                       Out<float>(c, 0));
  });
}

// x, w, y, dy -> dx, dw, dbias. From bfloat16 there is no dbias, and no activation.
KernelOr CreateConvGrad(const KernelRequest& request) {
  const Shape& y = request.inputs[3].shape;
  const bool needs_dx = request.output_needed[0], needs_dw = request.output_needed[1];
  const bool needs_bias = request.outputs.size() > 2 && request.output_needed[2];
  const Activation activation = ActivationOf(*request.attributes);
  ASSIGN_OR_RETURN(const DnnConvolution::Factors factors, FactorsOf(request, 0, 3));
  RETURN_IF_ERROR(FactorsOf(request, 0, 1).status());
  if (factors == DnnConvolution::Factors::kBfloat16 &&
      (needs_bias || activation != Activation::kNone)) {
    return absl::UnimplementedError(
        absl::StrCat("no GPU kernel for a bias or activation: ", DescribeRequest(request)));
  }
  ASSIGN_OR_RETURN(
      std::shared_ptr<DnnConvolution> convolution,
      DnnConvolution::Create(DeviceOf(request), *request.attributes, request.inputs[0].shape,
                             request.inputs[1].shape, y, {false, needs_dx, needs_dw}, factors));
  const ChannelView view = ViewOf(y);
  const size_t dz_bytes = activation == Activation::kNone
                              ? 0
                              : Padded256(sizeof(float) * static_cast<size_t>(view.count()));
  const size_t rest = std::max(convolution->workspace_bytes(), SumChannelsWorkspace(view));
  return MakeKernel(dz_bytes + rest, [=](const KernelContext& c) {
    const void* dz = c.inputs[3];
    if (activation != Activation::kNone) {
      auto* before = static_cast<float*>(c.workspace);
      UndoActivation(c.stream, view.count(), activation, In<float>(c, 2), In<float>(c, 3), before);
      dz = before;
    }
    void* workspace = static_cast<char*>(c.workspace) + dz_bytes;
    if (needs_dw) convolution->ToWeights(c.inputs[0], dz, Out<float>(c, 1), workspace);
    if (needs_bias) {
      SumChannels(c.stream, view, static_cast<const float*>(dz), workspace, Out<float>(c, 2));
    }
    if (needs_dx) convolution->ToImages(dz, c.inputs[1], Out<float>(c, 0), workspace);
  });
}

// x, w [in, out / group, height, width], optional bias -> y: it computes the input gradient of a
// convolution from y to x.
KernelOr CreateConvTranspose(const KernelRequest& request) {
  const Shape& y = request.outputs[0].shape;
  ASSIGN_OR_RETURN(const DnnConvolution::Factors factors, FactorsOf(request, 0, 1));
  ASSIGN_OR_RETURN(
      std::shared_ptr<DnnConvolution> convolution,
      DnnConvolution::Create(DeviceOf(request), *request.attributes, y, request.inputs[1].shape,
                             request.inputs[0].shape, {false, true, false}, factors));
  const ChannelView view = ViewOf(y);
  const bool has_bias = request.inputs.size() > 2;
  return MakeKernel(convolution->workspace_bytes(), [=](const KernelContext& c) {
    convolution->ToImages(c.inputs[0], c.inputs[1], Out<float>(c, 0), c.workspace);
    if (!has_bias) return;
    AddBiasAndActivate(c.stream, view, In<float>(c, 2), Activation::kNone, Out<float>(c, 0));
  });
}

constexpr LoopOp kOps[] = {
    {"Conv", "ppf:f", &CreateConv},
    {"ConvGrad", "p:f", &CreateConvGrad},
    {"ConvTranspose", "ppf:f", &CreateConvTranspose},
};

}  // namespace

absl::Span<const LoopOp> ConvolutionOps() { return kOps; }

}  // namespace shoal::cuda

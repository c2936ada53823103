#include "ml/kernels/cuda/convolution_kernels.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"
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

// x, w, optional bias -> y
KernelOr CreateConv(const KernelRequest& request) {
  const Shape& y = request.outputs[0].shape;
  ASSIGN_OR_RETURN(
      std::shared_ptr<DnnConvolution> convolution,
      DnnConvolution::Create(DeviceOf(request), *request.attributes, request.inputs[0].shape,
                             request.inputs[1].shape, y, {true, false, false}));
  const ChannelView view = ViewOf(y);
  const Activation activation = ActivationOf(*request.attributes);
  const bool has_bias = request.inputs.size() > 2;
  return MakeKernel(convolution->workspace_bytes(), [=](const KernelContext& c) {
    convolution->Forward(In<float>(c, 0), In<float>(c, 1), Out<float>(c, 0), c.workspace);
    if (!has_bias && activation == Activation::kNone) return;
    AddBiasAndActivate(c.stream, view, has_bias ? In<float>(c, 2) : nullptr, activation,
                       Out<float>(c, 0));
  });
}

// x, w, y, dy -> dx, dw, dbias
KernelOr CreateConvGrad(const KernelRequest& request) {
  const Shape& y = request.inputs[3].shape;
  const bool needs_dx = request.output_needed[0], needs_dw = request.output_needed[1];
  const bool needs_bias = request.outputs.size() > 2 && request.output_needed[2];
  ASSIGN_OR_RETURN(
      std::shared_ptr<DnnConvolution> convolution,
      DnnConvolution::Create(DeviceOf(request), *request.attributes, request.inputs[0].shape,
                             request.inputs[1].shape, y, {false, needs_dx, needs_dw}));
  const ChannelView view = ViewOf(y);
  const Activation activation = ActivationOf(*request.attributes);
  const size_t dz_bytes =
      activation == Activation::kNone
          ? 0
          : (sizeof(float) * static_cast<size_t>(view.count()) + 255) / 256 * 256;
  const size_t rest = std::max(convolution->workspace_bytes(), SumChannelsWorkspace(view));
  return MakeKernel(dz_bytes + rest, [=](const KernelContext& c) {
    const float *x = In<float>(c, 0), *w = In<float>(c, 1), *dz = In<float>(c, 3);
    if (activation != Activation::kNone) {
      auto* before = static_cast<float*>(c.workspace);
      UndoActivation(c.stream, view.count(), activation, In<float>(c, 2), dz, before);
      dz = before;
    }
    void* workspace = static_cast<char*>(c.workspace) + dz_bytes;
    if (needs_dw) convolution->ToWeights(x, dz, Out<float>(c, 1), workspace);
    if (needs_bias) SumChannels(c.stream, view, dz, workspace, Out<float>(c, 2));
    if (needs_dx) convolution->ToImages(dz, w, Out<float>(c, 0), workspace);
  });
}

// x, w [in, out / group, height, width], optional bias -> y: the way back of the convolution from y
// to x.
KernelOr CreateConvTranspose(const KernelRequest& request) {
  const Shape& y = request.outputs[0].shape;
  ASSIGN_OR_RETURN(
      std::shared_ptr<DnnConvolution> convolution,
      DnnConvolution::Create(DeviceOf(request), *request.attributes, y, request.inputs[1].shape,
                             request.inputs[0].shape, {false, true, false}));
  const ChannelView view = ViewOf(y);
  const bool has_bias = request.inputs.size() > 2;
  return MakeKernel(convolution->workspace_bytes(), [=](const KernelContext& c) {
    convolution->ToImages(In<float>(c, 0), In<float>(c, 1), Out<float>(c, 0), c.workspace);
    if (!has_bias) return;
    AddBiasAndActivate(c.stream, view, In<float>(c, 2), Activation::kNone, Out<float>(c, 0));
  });
}

constexpr LoopOp kOps[] = {
    {"Conv", "f:f", &CreateConv},
    {"ConvGrad", "f:f", &CreateConvGrad},
    {"ConvTranspose", "f:f", &CreateConvTranspose},
};

}  // namespace

absl::Span<const LoopOp> ConvolutionOps() { return kOps; }

}  // namespace shoal::cuda

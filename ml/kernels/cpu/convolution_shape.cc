#include "ml/kernels/cpu/convolution_shape.h"

#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace shoal::cpu {
namespace {

absl::StatusOr<WindowShape> MakeWindow(const std::vector<int64_t>& kernel,
                                       const std::vector<int64_t>& strides,
                                       const std::vector<int64_t>& pads,
                                       const std::vector<int64_t>& dilations) {
  if (kernel.size() != 2 || strides.size() != 2 || pads.size() != 4 || dilations.size() != 2) {
    return absl::InvalidArgumentError(
        "want two numbers for kernel, strides and dilations, four for pads");
  }
  WindowShape window;
  for (int i = 0; i < 2; ++i) {
    window.kernel[i] = kernel[i];
    window.stride[i] = strides[i];
    window.pad_before[i] = pads[i];
    window.pad_after[i] = pads[i + 2];
    window.dilation[i] = dilations[i];
    if (kernel[i] < 1 || strides[i] < 1 || dilations[i] < 1 || pads[i] < 0 || pads[i + 2] < 0) {
      return absl::InvalidArgumentError("kernel, strides, dilations or pads out of range");
    }
  }
  return window;
}

absl::Status CheckFits(const int64_t* out_size) {
  if (out_size[0] > 0 && out_size[1] > 0) return absl::OkStatus();
  return absl::InvalidArgumentError("the window does not fit into the padded images");
}

}  // namespace

int64_t WindowShape::OutputSize(int axis, int64_t input_size) const {
  const int64_t reach = (kernel[axis] - 1) * dilation[axis] + 1;
  const int64_t slack = input_size + pad_before[axis] + pad_after[axis] - reach;
  return slack < 0 ? 0 : slack / stride[axis] + 1;
}

absl::StatusOr<ConvolutionShape> MakeConvolutionShape(const Attributes& attributes,
                                                      const Shape& images, const Shape& weights) {
  if (images.rank() != 4 || weights.rank() != 4) {
    return absl::InvalidArgumentError("want images [n,c,h,w] and weights [out,in/group,h,w]");
  }
  ConvolutionShape shape{};
  const absl::StatusOr<WindowShape> window =
      MakeWindow({weights.dim(2), weights.dim(3)}, attributes.GetInts("strides", {1, 1}),
                 attributes.GetInts("pads", {0, 0, 0, 0}), attributes.GetInts("dilations", {1, 1}));
  if (!window.ok()) return window.status();
  shape.window = *window;
  shape.batch = images.dim(0);
  shape.in_channels = images.dim(1);
  shape.out_channels = weights.dim(0);
  shape.group = attributes.GetInt("group", 1);
  if (shape.group < 1 || weights.dim(1) * shape.group != shape.in_channels ||
      shape.out_channels % shape.group != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("weights ", weights.ToString(), " in ", shape.group, " groups do not fit"));
  }
  for (int i = 0; i < 2; ++i) {
    shape.in_size[i] = images.dim(2 + i);
    shape.out_size[i] = window->OutputSize(i, shape.in_size[i]);
  }
  if (absl::Status status = CheckFits(shape.out_size); !status.ok()) return status;
  return shape;
}

absl::StatusOr<PoolShape> MakePoolShape(const Attributes& attributes, const Shape& images,
                                        bool has_prefix) {
  if (images.rank() != 4) return absl::InvalidArgumentError("want images [n,c,h,w]");
  const absl::StatusOr<WindowShape> window = MakeWindow(
      attributes.GetInts(has_prefix ? "pool_kernel_shape" : "kernel_shape", {}),
      attributes.GetInts(has_prefix ? "pool_strides" : "strides", {1, 1}),
      has_prefix ? std::vector<int64_t>{0, 0, 0, 0} : attributes.GetInts("pads", {0, 0, 0, 0}),
      {1, 1});
  if (!window.ok()) return window.status();
  PoolShape shape{};
  shape.window = *window;
  shape.batch = images.dim(0);
  shape.channels = images.dim(1);
  for (int i = 0; i < 2; ++i) {
    shape.in_size[i] = images.dim(2 + i);
    shape.out_size[i] = window->OutputSize(i, shape.in_size[i]);
    if (window->pad_before[i] >= window->kernel[i] || window->pad_after[i] >= window->kernel[i]) {
      return absl::InvalidArgumentError("padding must be smaller than the window");
    }
  }
  if (absl::Status status = CheckFits(shape.out_size); !status.ok()) return status;
  return shape;
}

}  // namespace shoal::cpu

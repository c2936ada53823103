// Derives the sizes of a convolution or a pooling from the shapes and attributes of a request.
#ifndef SHOAL_ML_KERNELS_CPU_CONVOLUTION_SHAPE_H_
#define SHOAL_ML_KERNELS_CPU_CONVOLUTION_SHAPE_H_

#include <cstdint>

#include "absl/status/statusor.h"

#include "ml/device/attributes.h"
#include "ml/tensor/shape.h"

namespace shoal::cpu {

// A window that slides over the height (index 0) and width (index 1) of images.
struct WindowShape {
  int64_t kernel[2] = {1, 1};
  int64_t stride[2] = {1, 1};
  int64_t pad_before[2] = {0, 0};
  int64_t pad_after[2] = {0, 0};
  int64_t dilation[2] = {1, 1};

  int64_t OutputSize(int axis, int64_t input_size) const;
};

struct ConvolutionShape {
  int64_t batch, in_channels, in_size[2];
  int64_t out_channels, out_size[2];
  int64_t group;
  WindowShape window;

  int64_t InputElements() const { return batch * in_channels * in_size[0] * in_size[1]; }
  int64_t OutputElements() const { return batch * out_channels * out_size[0] * out_size[1]; }
  int64_t WeightElements() const {
    return out_channels * (in_channels / group) * window.kernel[0] * window.kernel[1];
  }
};

// Reads the attributes strides, pads [top, left, bottom, right], dilations and group. The kernel
// size is that of the weights [out, in / group, height, width].
absl::StatusOr<ConvolutionShape> MakeConvolutionShape(const Attributes& attributes,
                                                      const Shape& images, const Shape& weights);

struct PoolShape {
  int64_t batch, channels, in_size[2], out_size[2];
  WindowShape window;

  int64_t InputPixels() const { return in_size[0] * in_size[1]; }
  int64_t OutputPixels() const { return out_size[0] * out_size[1]; }
};

// Reads the attributes kernel_shape, strides and pads. With has_prefix it reads pool_kernel_shape
// and pool_strides, without padding.
absl::StatusOr<PoolShape> MakePoolShape(const Attributes& attributes, const Shape& images,
                                        bool has_prefix = false);

}  // namespace shoal::cpu

#endif  // SHOAL_ML_KERNELS_CPU_CONVOLUTION_SHAPE_H_

// How the reference kernels are written: a function per op and element type, over plain tensors.
// Sums are in double, in one order; nothing is blocked, fused, vectorised or parallel.
#ifndef SHOAL_ML_KERNELS_REFERENCE_REFERENCE_OP_H_
#define SHOAL_ML_KERNELS_REFERENCE_REFERENCE_OP_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "ml/device/kernel.h"

namespace shoal::reference {

// One run of an op.
struct Call {
  const Attributes& attributes;
  const std::vector<TensorSpec>& inputs;
  const std::vector<TensorSpec>& outputs;
  const KernelContext& context;

  template <typename T>
  const T* In(size_t index) const {
    return static_cast<const T*>(context.inputs[index]);
  }
  // Null if nobody needs it.
  template <typename T>
  T* Out(size_t index) const {
    return static_cast<T*>(context.outputs[index]);
  }
  const Shape& InShape(size_t index) const { return inputs[index].shape; }
  const Shape& OutShape(size_t index) const { return outputs[index].shape; }
};

using Function = void (*)(const Call&);

struct Op {
  absl::string_view name;
  Function float32;
  Function float64;
};

absl::Span<const Op> ActivationOps();
absl::Span<const Op> ConvolutionOps();
absl::Span<const Op> DenseOps();
absl::Span<const Op> ElementwiseOps();
absl::Span<const Op> LossOps();
absl::Span<const Op> NormalizationOps();
absl::Span<const Op> PoolingOps();
absl::Span<const Op> ReductionOps();
absl::Span<const Op> SelectionOps();
absl::Span<const Op> ShapeOps();

// The element of a tensor of shape `from` that is broadcast to element `index` of shape `to`.
int64_t BroadcastIndex(const Shape& from, const Shape& to, int64_t index);

// An element of any type as a number, and back. Whole numbers beyond 2^53 are rounded.
double LoadElement(DataType dtype, const void* from, int64_t index);
void StoreElement(DataType dtype, double value, void* to, int64_t index);
// An element of so many bytes as it is.
void CopyElement(size_t bytes, const void* from, int64_t from_index, void* to, int64_t to_index);

// activation: none, relu, relu6, sigmoid, tanh.
double Activate(absl::string_view activation, double x);
// The slope, from the activation's value.
double ActivationSlope(absl::string_view activation, double y);

// Window attributes of convolutions and pools, ONNX's names; heights first.
struct Window {
  int64_t kernel[2], strides[2], pads[2], dilations[2];  // pads: top, left

  // Returns the input position of tap (ky, kx) of output position (oy, ox); it may be outside.
  int64_t Row(int64_t oy, int64_t ky) const {
    return oy * strides[0] - pads[0] + ky * dilations[0];
  }
  int64_t Column(int64_t ox, int64_t kx) const {
    return ox * strides[1] - pads[1] + kx * dilations[1];
  }
};

// `prefix` is "pool_" for the pool inside a fused convolution and pool.
Window PoolWindow(const Attributes& attributes, absl::string_view prefix = "");
Window ConvolutionWindow(const Attributes& attributes, const Shape& weights);

// Four nested dimensions, flat.
inline int64_t At(const Shape& shape, int64_t a, int64_t b, int64_t c, int64_t d) {
  return ((a * shape.dim(1) + b) * shape.dim(2) + c) * shape.dim(3) + d;
}

// Max pool with the winner's place in its window, row by row; 255 where relu gave 0.
template <typename T>
void PoolMax(const Window& window, bool relu, const Shape& x_shape, const T* x,
             const Shape& y_shape, T* y, uint8_t* index);
template <typename T>
void PoolMaxGradient(const Window& window, const Shape& y_shape, const uint8_t* index, const T* dy,
                     const Shape& x_shape, T* dx);

}  // namespace shoal::reference

#endif  // SHOAL_ML_KERNELS_REFERENCE_REFERENCE_OP_H_

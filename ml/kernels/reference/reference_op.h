// Helpers for the reference kernels, each of which is a function for one op and element type. They
// add in double in a fixed order and do not block, vectorise or parallelise.
#ifndef SHOAL_ML_KERNELS_REFERENCE_REFERENCE_OP_H_
#define SHOAL_ML_KERNELS_REFERENCE_REFERENCE_OP_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "ml/device/kernel.h"

namespace shoal::reference {

// One run of an op, with its attributes, specs and memory. All are borrowed.
struct Call {
  const Attributes& attributes;
  const std::vector<TensorSpec>& inputs;
  const std::vector<TensorSpec>& outputs;
  const KernelContext& context;

  template <typename T>
  const T* In(size_t index) const {
    return static_cast<const T*>(context.inputs[index]);
  }
  // Returns null if the output is not needed.
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
absl::Span<const Op> FeatureOps();
absl::Span<const Op> LossOps();
absl::Span<const Op> NormalizationOps();
absl::Span<const Op> PoolingOps();
absl::Span<const Op> ReductionOps();
absl::Span<const Op> SelectionOps();
absl::Span<const Op> ShapeOps();

// Returns the index of the element of a tensor of shape `from` that is broadcast to element `index`
// of shape `to`.
int64_t BroadcastIndex(const Shape& from, const Shape& to, int64_t index);

// Convert an element of any type to a double and back. Integers beyond 2^53 are rounded.
double LoadElement(DataType dtype, const void* from, int64_t index);
void StoreElement(DataType dtype, double value, void* to, int64_t index);
// Copies one element of this size in bytes.
void CopyElement(size_t bytes, const void* from, int64_t from_index, void* to, int64_t to_index);

// Applies an activation: none, relu, relu6, sigmoid or tanh.
double Activate(absl::string_view activation, double x);
// Returns the slope of the activation where its output is y.
double ActivationSlope(absl::string_view activation, double y);

// The window of a convolution or pool, from attributes with ONNX's names. Index 0 is the height, 1
// the width.
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

// Returns the row-major index of element [a, b, c, d] of a 4-d tensor.
inline int64_t At(const Shape& shape, int64_t a, int64_t b, int64_t c, int64_t d) {
  return ((a * shape.dim(1) + b) * shape.dim(2) + c) * shape.dim(3) + d;
}

// Max pooling. `index` receives the position of the largest element in its window, in row-major
// order; 255 if relu made the output 0.
template <typename T>
void PoolMax(const Window& window, bool relu, const Shape& x_shape, const T* x,
             const Shape& y_shape, T* y, uint8_t* index);
template <typename T>
void PoolMaxGradient(const Window& window, const Shape& y_shape, const uint8_t* index, const T* dy,
                     const Shape& x_shape, T* dx);

}  // namespace shoal::reference

#endif  // SHOAL_ML_KERNELS_REFERENCE_REFERENCE_OP_H_

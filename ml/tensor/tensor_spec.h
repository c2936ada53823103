// Describes a tensor before it has bytes: element type, shape and the order of its elements.
#ifndef SHOAL_ML_TENSOR_TENSOR_SPEC_H_
#define SHOAL_ML_TENSOR_TENSOR_SPEC_H_

#include <cstddef>
#include <string>

#include "ml/tensor/dtype.h"
#include "ml/tensor/shape.h"

namespace shoal {

// kPlain: row-major in the order of the dimensions (images: NCHW).
// kBlocked16: nChw16c, [N][C/16][H][W][16], for 4-d activations whose channel count is a multiple
// of 16. The shape of a blocked tensor is still [N,C,H,W]; both orders have the same size.
enum class Layout { kPlain, kBlocked16 };

struct TensorSpec {
  DataType dtype = DataType::kFloat32;
  Shape shape;
  Layout layout = Layout::kPlain;

  // The shape must be known.
  size_t bytes() const { return static_cast<size_t>(shape.num_elements()) * SizeOf(dtype); }
  // Returns "float32[128,32,28,28]", followed by ":blocked16" for that layout.
  std::string ToString() const;

  friend bool operator==(const TensorSpec& a, const TensorSpec& b) {
    return a.dtype == b.dtype && a.shape == b.shape && a.layout == b.layout;
  }
  friend bool operator!=(const TensorSpec& a, const TensorSpec& b) { return !(a == b); }
};

}  // namespace shoal

#endif  // SHOAL_ML_TENSOR_TENSOR_SPEC_H_

// A tensor of the host: a spec and bytes that are shared with copies of the tensor. Copying a
// Tensor copies neither bytes nor guards them: writers must know that nobody reads.
#ifndef SHOAL_ML_TENSOR_TENSOR_H_
#define SHOAL_ML_TENSOR_TENSOR_H_

#include <algorithm>
#include <initializer_list>
#include <memory>

#include "absl/types/span.h"

#include "ml/tensor/buffer.h"
#include "ml/tensor/tensor_spec.h"

namespace shoal {

class Tensor {
 public:
  Tensor() = default;
  // All zeros; the spec's shape must be known.
  explicit Tensor(const TensorSpec& spec);
  Tensor(DataType dtype, const Shape& shape) : Tensor(TensorSpec{dtype, shape}) {}

  // A tensor with these elements, row-major; their number must be the shape's.
  template <typename T>
  static Tensor Of(const Shape& shape, std::initializer_list<T> elements) {
    Tensor tensor(DataTypeOf<T>(), shape);
    std::copy(elements.begin(), elements.end(), tensor.mutable_span<T>().begin());
    return tensor;
  }

  const TensorSpec& spec() const { return spec_; }
  const Shape& shape() const { return spec_.shape; }
  DataType dtype() const { return spec_.dtype; }
  size_t bytes() const { return spec_.bytes(); }

  const void* data() const { return buffer_ == nullptr ? nullptr : buffer_->data(); }
  void* mutable_data() { return buffer_ == nullptr ? nullptr : buffer_->data(); }

  // T must be the element type.
  template <typename T>
  absl::Span<const T> span() const {
    return {static_cast<const T*>(data()), static_cast<size_t>(shape().num_elements())};
  }
  template <typename T>
  absl::Span<T> mutable_span() {
    return {static_cast<T*>(mutable_data()), static_cast<size_t>(shape().num_elements())};
  }

 private:
  TensorSpec spec_;
  std::shared_ptr<Buffer> buffer_;  // shared: copies of a tensor are views of the same bytes
};

}  // namespace shoal

#endif  // SHOAL_ML_TENSOR_TENSOR_H_

// A tensor in the host's memory. Copies of a Tensor share the same bytes, without synchronization:
// a caller that writes must ensure that no other thread accesses the bytes of any copy.
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
  // Makes a tensor of zeros; the spec's shape must be known.
  explicit Tensor(const TensorSpec& spec);
  Tensor(DataType dtype, const Shape& shape) : Tensor(TensorSpec{dtype, shape}) {}

  // Returns a tensor with these elements in row-major order; their number must fit the shape.
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

// The shape of a tensor: up to 8 dimensions. Copyable; it uses no heap memory.
//
// In a graph that is not compiled yet, a dimension may be kUnknownDim: the size of the batch, which
// is known only when the graph is compiled. Shapes of kernels and tensors have no unknown
// dimension.
#ifndef SHOAL_ML_TENSOR_SHAPE_H_
#define SHOAL_ML_TENSOR_SHAPE_H_

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "absl/types/span.h"

namespace shoal {

inline constexpr int64_t kUnknownDim = -1;

class Shape {
 public:
  static constexpr int kMaxRank = 8;

  // The shape of a scalar, "[]".
  Shape() = default;
  // At most kMaxRank dimensions, each >= 0 or kUnknownDim.
  Shape(std::initializer_list<int64_t> dims)
      : Shape(absl::Span<const int64_t>(dims.begin(), dims.size())) {}
  explicit Shape(absl::Span<const int64_t> dims);

  int rank() const { return rank_; }
  int64_t dim(int index) const { return dims_[index]; }
  absl::Span<const int64_t> dims() const { return {dims_.data(), static_cast<size_t>(rank_)}; }
  void set_dim(int index, int64_t size) { dims_[index] = size; }
  void AddDim(int64_t size);

  // Returns whether no dimension is unknown.
  bool IsKnown() const;
  // Returns the product of the dimensions (1 for a scalar), or kUnknownDim if a dimension is
  // unknown.
  int64_t num_elements() const;

  // Returns text such as "[2000,600]"; an unknown dimension is printed as "?".
  std::string ToString() const;

  friend bool operator==(const Shape& a, const Shape& b) { return a.dims() == b.dims(); }
  friend bool operator!=(const Shape& a, const Shape& b) { return !(a == b); }

 private:
  std::array<int64_t, kMaxRank> dims_{};
  int rank_ = 0;
};

}  // namespace shoal

#endif  // SHOAL_ML_TENSOR_SHAPE_H_

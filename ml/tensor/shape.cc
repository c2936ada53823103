#include "ml/tensor/shape.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "absl/strings/str_cat.h"

namespace shoal {

Shape::Shape(absl::Span<const int64_t> dims) {
  for (int64_t dim : dims) AddDim(dim);
}

void Shape::AddDim(int64_t size) {
  if (rank_ == kMaxRank) {
    std::fprintf(stderr, "a shape has at most %d dimensions\n", kMaxRank);
    std::abort();
  }
  dims_[rank_++] = size;
}

bool Shape::IsKnown() const {
  return std::none_of(dims().begin(), dims().end(), [](int64_t dim) { return dim < 0; });
}

int64_t Shape::num_elements() const {
  int64_t product = 1;
  for (int64_t dim : dims()) {
    if (dim < 0) return kUnknownDim;
    product *= dim;
  }
  return product;
}

std::string Shape::ToString() const {
  std::string text = "[";
  for (int i = 0; i < rank_; ++i) {
    if (i > 0) text += ",";
    text += dims_[i] < 0 ? "?" : absl::StrCat(dims_[i]);
  }
  return text + "]";
}

}  // namespace shoal

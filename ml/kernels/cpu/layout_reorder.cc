#include "ml/kernels/cpu/layout_reorder.h"

#include "ml/kernels/cpu/parallel.h"

namespace shoal::cpu {
namespace {

void ToBlocked(int64_t pixels, const float* x, float* y) {
  for (int64_t p = 0; p < pixels; ++p) {
    for (int c = 0; c < 16; ++c) y[p * 16 + c] = x[c * pixels + p];
  }
}

void ToPlain(int64_t pixels, const float* x, float* y) {
  for (int c = 0; c < 16; ++c) {
    for (int64_t p = 0; p < pixels; ++p) y[c * pixels + p] = x[p * 16 + c];
  }
}

}  // namespace

void LayoutReorder::Run(int threads, const float* x, float* y) const {
  const int64_t size = pixels * 16;
  ParallelFor(threads, blocks, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      if (to_blocked) {
        ToBlocked(pixels, x + b * size, y + b * size);
      } else {
        ToPlain(pixels, x + b * size, y + b * size);
      }
    }
  });
}

LayoutReorder MakeLayoutReorder(const Shape& shape, Layout to) {
  return {shape.dim(0) * shape.dim(1) / 16, shape.dim(2) * shape.dim(3), to == Layout::kBlocked16};
}

}  // namespace shoal::cpu

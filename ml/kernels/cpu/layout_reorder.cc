#include "ml/kernels/cpu/layout_reorder.h"

#include "ml/kernels/cpu/parallel.h"

namespace shoal::cpu {
namespace {

void ToBlocked(int64_t lanes, int64_t pixels, const float* x, float* y) {
  if (lanes < 16) {
    for (int64_t p = 0; p < pixels; ++p) {
      for (int64_t c = 0; c < 16; ++c) y[p * 16 + c] = c < lanes ? x[c * pixels + p] : 0.0f;
    }
    return;
  }
  for (int64_t p = 0; p < pixels; ++p) {
    for (int c = 0; c < 16; ++c) y[p * 16 + c] = x[c * pixels + p];
  }
}

void ToPlain(int64_t lanes, int64_t pixels, const float* x, float* y) {
  for (int64_t c = 0; c < lanes; ++c) {
    for (int64_t p = 0; p < pixels; ++p) y[c * pixels + p] = x[p * 16 + c];
  }
}

}  // namespace

void LayoutReorder::Run(int threads, const float* x, float* y) const {
  const int64_t blocks = (channels + 15) / 16;
  ParallelFor(threads, images * blocks, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i % blocks * 16;
      const int64_t lanes = channels - first < 16 ? channels - first : 16;
      const int64_t plain = (i / blocks * channels + first) * pixels, blocked = i * 16 * pixels;
      if (to_blocked) {
        ToBlocked(lanes, pixels, x + plain, y + blocked);
      } else {
        ToPlain(lanes, pixels, x + blocked, y + plain);
      }
    }
  });
}

LayoutReorder MakeLayoutReorder(const Shape& shape, Layout to) {
  return {shape.dim(0), shape.dim(1), shape.dim(2) * shape.dim(3), to == Layout::kBlocked16};
}

}  // namespace shoal::cpu

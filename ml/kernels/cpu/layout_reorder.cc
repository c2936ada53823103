#include "ml/kernels/cpu/layout_reorder.h"

#include "ml/kernels/cpu/parallel.h"

namespace shoal::cpu {
namespace {

template <typename T>
void ToBlocked(int64_t lanes, int64_t pixels, const T* x, T* y) {
  if (lanes < 16) {
    for (int64_t p = 0; p < pixels; ++p) {
      for (int64_t c = 0; c < 16; ++c) y[p * 16 + c] = c < lanes ? x[c * pixels + p] : T{0};
    }
    return;
  }
  for (int64_t p = 0; p < pixels; ++p) {
    for (int c = 0; c < 16; ++c) y[p * 16 + c] = x[c * pixels + p];
  }
}

template <typename T>
void ToPlain(int64_t lanes, int64_t pixels, const T* x, T* y) {
  for (int64_t c = 0; c < lanes; ++c) {
    for (int64_t p = 0; p < pixels; ++p) y[c * pixels + p] = x[p * 16 + c];
  }
}

template <typename T>
void Reorder(const LayoutReorder& r, int threads, const T* x, T* y) {
  const int64_t blocks = (r.channels + 15) / 16;
  ParallelFor(threads, r.images * blocks, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i % blocks * 16;
      const int64_t lanes = r.channels - first < 16 ? r.channels - first : 16;
      const int64_t plain = (i / blocks * r.channels + first) * r.pixels;
      const int64_t blocked = i * 16 * r.pixels;
      if (r.to_blocked) {
        ToBlocked(lanes, r.pixels, x + plain, y + blocked);
      } else {
        ToPlain(lanes, r.pixels, x + blocked, y + plain);
      }
    }
  });
}

}  // namespace

void LayoutReorder::Run(int threads, const float* x, float* y) const {
  Reorder(*this, threads, x, y);
}

void LayoutReorder::Run(int threads, const uint16_t* x, uint16_t* y) const {
  Reorder(*this, threads, x, y);
}

LayoutReorder MakeLayoutReorder(const Shape& shape, Layout to) {
  return {shape.dim(0), shape.dim(1), shape.dim(2) * shape.dim(3), to == Layout::kBlocked16};
}

}  // namespace shoal::cpu

#include <algorithm>
#include <cmath>
#include <limits>

#include "ml/kernels/reference/reference_op.h"

namespace shoal::reference {
namespace {

constexpr uint8_t kNoWinner = 255;

// Calls visit(x index, place in the window, y index) for every element under every window; taps
// outside the image get x index -1.
template <typename Visit>
void ForEachTap(const Window& window, const Shape& x_shape, const Shape& y_shape,
                const Visit& visit) {
  for (int64_t y = 0; y < y_shape.num_elements(); ++y) {
    const int64_t ox = y % y_shape.dim(3);
    const int64_t oy = y / y_shape.dim(3) % y_shape.dim(2);
    const int64_t channel = y / (y_shape.dim(2) * y_shape.dim(3)) % y_shape.dim(1);
    const int64_t image = y / (y_shape.dim(1) * y_shape.dim(2) * y_shape.dim(3));
    for (int64_t tap = 0; tap < window.kernel[0] * window.kernel[1]; ++tap) {
      const int64_t row = window.Row(oy, tap / window.kernel[1]);
      const int64_t column = window.Column(ox, tap % window.kernel[1]);
      const bool inside =
          row >= 0 && row < x_shape.dim(2) && column >= 0 && column < x_shape.dim(3);
      visit(inside ? At(x_shape, image, channel, row, column) : -1, tap, y);
    }
  }
}

template <typename T>
void MaxPool(const Call& call) {
  PoolMax(PoolWindow(call.attributes), call.attributes.GetBool("relu", false), call.InShape(0),
          call.In<T>(0), call.OutShape(0), call.Out<T>(0), call.Out<uint8_t>(1));
}

// index, dy -> dx
template <typename T>
void MaxPoolGrad(const Call& call) {
  PoolMaxGradient(PoolWindow(call.attributes), call.InShape(1), call.In<uint8_t>(0), call.In<T>(1),
                  call.OutShape(0), call.Out<T>(0));
}

// Elements of each window: those inside the image, or all with count_include_pad.
std::vector<double> WindowSizes(const Call& call, const Shape& x_shape, const Shape& y_shape) {
  const bool all = call.attributes.GetBool("count_include_pad", false);
  std::vector<double> sizes(static_cast<size_t>(y_shape.num_elements()));
  ForEachTap(PoolWindow(call.attributes), x_shape, y_shape, [&](int64_t x, int64_t, int64_t y) {
    if (all || x >= 0) sizes[static_cast<size_t>(y)] += 1;
  });
  return sizes;
}

template <typename T>
void AveragePool(const Call& call) {
  const Shape &x_shape = call.InShape(0), &y_shape = call.OutShape(0);
  const std::vector<double> sizes = WindowSizes(call, x_shape, y_shape);
  std::vector<double> sums(sizes.size());
  ForEachTap(PoolWindow(call.attributes), x_shape, y_shape, [&](int64_t x, int64_t, int64_t y) {
    if (x >= 0) sums[static_cast<size_t>(y)] += call.In<T>(0)[x];
  });
  for (size_t i = 0; i < sums.size(); ++i) call.Out<T>(0)[i] = static_cast<T>(sums[i] / sizes[i]);
}

// dy -> dx
template <typename T>
void AveragePoolGrad(const Call& call) {
  const Shape &x_shape = call.OutShape(0), &y_shape = call.InShape(0);
  const std::vector<double> sizes = WindowSizes(call, x_shape, y_shape);
  std::vector<double> sums(static_cast<size_t>(x_shape.num_elements()));
  ForEachTap(PoolWindow(call.attributes), x_shape, y_shape, [&](int64_t x, int64_t, int64_t y) {
    if (x < 0) return;
    sums[static_cast<size_t>(x)] += call.In<T>(0)[y] / sizes[static_cast<size_t>(y)];
  });
  for (size_t i = 0; i < sums.size(); ++i) call.Out<T>(0)[i] = static_cast<T>(sums[i]);
}

int64_t PixelsOf(const Shape& images) { return images.dim(2) * images.dim(3); }

template <typename T>
void GlobalAveragePool(const Call& call) {
  const int64_t pixels = PixelsOf(call.InShape(0));
  for (int64_t y = 0; y < call.OutShape(0).num_elements(); ++y) {
    double sum = 0;
    for (int64_t i = 0; i < pixels; ++i) sum += call.In<T>(0)[y * pixels + i];
    call.Out<T>(0)[y] = static_cast<T>(sum / static_cast<double>(pixels));
  }
}

// dy -> dx
template <typename T>
void GlobalAveragePoolGrad(const Call& call) {
  const int64_t pixels = PixelsOf(call.OutShape(0));
  for (int64_t i = 0; i < call.OutShape(0).num_elements(); ++i) {
    call.Out<T>(0)[i] = static_cast<T>(call.In<T>(0)[i / pixels] / static_cast<double>(pixels));
  }
}

// x -> y, index of the first largest pixel; a NaN is larger than all.
template <typename T>
void GlobalMaxPool(const Call& call) {
  const int64_t pixels = PixelsOf(call.InShape(0));
  for (int64_t y = 0; y < call.InShape(0).dim(0) * call.InShape(0).dim(1); ++y) {
    const T* x = call.In<T>(0) + y * pixels;
    int64_t best = 0;
    for (int64_t i = 1; i < pixels; ++i) {
      if (!(x[i] <= x[best]) && !std::isnan(x[best])) best = i;
    }
    if (T* to = call.Out<T>(0)) to[y] = x[best];
    if (int32_t* to = call.Out<int32_t>(1)) to[y] = static_cast<int32_t>(best);
  }
}

// index, dy -> dx
template <typename T>
void GlobalMaxPoolGrad(const Call& call) {
  const int64_t pixels = PixelsOf(call.OutShape(0));
  for (int64_t i = 0; i < call.OutShape(0).num_elements(); ++i) {
    const bool won = call.In<int32_t>(0)[i / pixels] == i % pixels;
    call.Out<T>(0)[i] = won ? call.In<T>(1)[i / pixels] : T{0};
  }
}

constexpr Op kOps[] = {
    {"MaxPool", &MaxPool<float>, &MaxPool<double>},
    {"MaxPoolGrad", &MaxPoolGrad<float>, &MaxPoolGrad<double>},
    {"AveragePool", &AveragePool<float>, &AveragePool<double>},
    {"AveragePoolGrad", &AveragePoolGrad<float>, &AveragePoolGrad<double>},
    {"GlobalAveragePool", &GlobalAveragePool<float>, &GlobalAveragePool<double>},
    {"GlobalAveragePoolGrad", &GlobalAveragePoolGrad<float>, &GlobalAveragePoolGrad<double>},
    {"GlobalMaxPool", &GlobalMaxPool<float>, &GlobalMaxPool<double>},
    {"GlobalMaxPoolGrad", &GlobalMaxPoolGrad<float>, &GlobalMaxPoolGrad<double>},
};

}  // namespace

template <typename T>
void PoolMax(const Window& window, bool relu, const Shape& x_shape, const T* x,
             const Shape& y_shape, T* y, uint8_t* index) {
  std::vector<T> best(static_cast<size_t>(y_shape.num_elements()),
                      -std::numeric_limits<T>::infinity());
  std::vector<uint8_t> winner(best.size(), kNoWinner);
  ForEachTap(window, x_shape, y_shape, [&](int64_t from, int64_t tap, int64_t to) {
    T& most = best[static_cast<size_t>(to)];
    if (from < 0 || std::isnan(most) || x[from] <= most) return;  // the first of equals wins
    most = x[from];
    winner[static_cast<size_t>(to)] = static_cast<uint8_t>(tap);
  });
  for (size_t i = 0; i < best.size(); ++i) {
    const bool none = relu && best[i] <= 0;
    if (y != nullptr) y[i] = none ? 0 : best[i];
    if (index != nullptr) index[i] = none ? kNoWinner : winner[i];
  }
}

template <typename T>
void PoolMaxGradient(const Window& window, const Shape& y_shape, const uint8_t* index, const T* dy,
                     const Shape& x_shape, T* dx) {
  std::vector<double> sums(static_cast<size_t>(x_shape.num_elements()));
  ForEachTap(window, x_shape, y_shape, [&](int64_t x, int64_t tap, int64_t y) {
    if (x >= 0 && index[y] == tap) sums[static_cast<size_t>(x)] += dy[y];
  });
  for (size_t i = 0; i < sums.size(); ++i) dx[i] = static_cast<T>(sums[i]);
}

template void PoolMax(const Window&, bool, const Shape&, const float*, const Shape&, float*,
                      uint8_t*);
template void PoolMax(const Window&, bool, const Shape&, const double*, const Shape&, double*,
                      uint8_t*);
template void PoolMaxGradient(const Window&, const Shape&, const uint8_t*, const float*,
                              const Shape&, float*);
template void PoolMaxGradient(const Window&, const Shape&, const uint8_t*, const double*,
                              const Shape&, double*);

absl::Span<const Op> PoolingOps() { return kOps; }

}  // namespace shoal::reference

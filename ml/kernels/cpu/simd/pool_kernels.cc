// The body of PoolKernels for one instruction set: see pool_kernels.h and vector.h. With
// SHOAL_PLAIN_PLANES, a block is one channel and a vector one float.

#include "ml/kernels/cpu/simd/pool_kernels.h"

#ifndef SHOAL_PLAIN_PLANES
#include "ml/kernels/cpu/simd/vector.h"
#endif

namespace shoal::cpu::SHOAL_SIMD_NAMESPACE {

#ifdef SHOAL_PLAIN_PLANES
constexpr int kLanes = 1;
using Vec = float;
inline Vec Load(const float* p) { return *p; }
inline void Store(float* p, Vec v) { *p = v; }
inline Vec Set1(float x) { return x; }
inline Vec Zero() { return 0.0f; }
inline Vec SelectGreater(Vec a, Vec b, Vec x, Vec y) { return a > b ? x : y; }
inline Vec SelectEqual(Vec a, Vec b, Vec x, Vec y) { return a == b ? x : y; }
inline Vec SelectNan(Vec v, Vec x, Vec y) { return v != v ? x : y; }
inline void StoreBytes(uint8_t* p, Vec v) { *p = static_cast<uint8_t>(v); }
inline Vec LoadBytes(const uint8_t* p) { return static_cast<float>(*p); }
constexpr int kBlock = 1;
#else
constexpr int kBlock = 16;
#endif

namespace {

struct Range {
  int64_t begin, end;
};

// Positions inside the window that are inside the image, for the output at `out` along an axis.
inline Range Inside(const PoolPlane& p, int axis, int64_t out) {
  const int64_t start = out * p.stride[axis] - p.pad[axis];
  const int64_t end = p.in[axis] - start < p.kernel[axis] ? p.in[axis] - start : p.kernel[axis];
  return {start < 0 ? -start : 0, end};
}

// Calls f(offset of the window's first pixel in the input, offset of the output pixel, rows,
// columns) for every output pixel of a plane; offsets in floats.
template <typename Function>
inline void ForEachWindow(const PoolPlane& p, Function f) {
  for (int64_t oy = 0; oy < p.out[0]; ++oy) {
    const Range rows = Inside(p, 0, oy);
    for (int64_t ox = 0; ox < p.out[1]; ++ox) {
      const int64_t y = oy * p.stride[0] - p.pad[0];
      const int64_t x = ox * p.stride[1] - p.pad[1];
      f((y * p.in[1] + x) * kBlock, (oy * p.out[1] + ox) * kBlock, rows, Inside(p, 1, ox));
    }
  }
}

struct Winner {
  Vec value, index;

  void Offer(Vec candidate, float position) {
    const Vec at = Set1(position);
    index = SelectNan(candidate, at, SelectGreater(candidate, value, at, index));
    value = SelectNan(candidate, candidate, SelectGreater(candidate, value, candidate, value));
  }
};

inline Winner StartOf(bool relu, Vec first, float position) {
  if (!relu) return {first, Set1(position)};
  Winner winner{Zero(), Set1(static_cast<float>(kNoWinner))};
  winner.Offer(first, position);
  return winner;
}

void MaxPool(const PoolPlane& p, bool relu, const float* x, float* y, uint8_t* index,
             int64_t planes) {
  const int64_t in_plane = p.in[0] * p.in[1] * kBlock, out_plane = p.out[0] * p.out[1] * kBlock;
  for (int64_t i = 0; i < planes; ++i, x += in_plane, y += out_plane, index += out_plane) {
    ForEachWindow(p, [&](int64_t from, int64_t to, Range rows, Range columns) {
      for (int lane = 0; lane < kBlock; lane += kLanes) {
        const float* window = x + from + lane;
        const int64_t first = rows.begin * p.in[1] + columns.begin;
        Winner winner = StartOf(relu, Load(window + first * kBlock),
                                static_cast<float>(rows.begin * p.kernel[1] + columns.begin));
        for (int64_t r = rows.begin; r < rows.end; ++r) {
          for (int64_t c = columns.begin; c < columns.end; ++c) {
            if (r == rows.begin && c == columns.begin) continue;
            winner.Offer(Load(window + (r * p.in[1] + c) * kBlock),
                         static_cast<float>(r * p.kernel[1] + c));
          }
        }
        Store(y + to + lane, winner.value);
        StoreBytes(index + to + lane, winner.index);
      }
    });
  }
}

// Windows of 2x2 that cover the image exactly: the usual pool.
bool IsExactTwoByTwo(const PoolPlane& p) {
  bool exact = true;
  for (int a = 0; a < 2; ++a) {
    exact =
        exact && p.kernel[a] == 2 && p.stride[a] == 2 && p.pad[a] == 0 && p.in[a] == 2 * p.out[a];
  }
  return exact;
}

template <bool kRelu>
inline void MaxPool2x2(const PoolPlane& p, const float* x, float* y, uint8_t* index,
                       int64_t planes) {
  const int64_t row = p.in[1] * kBlock;
  for (int64_t line = 0; line < planes * p.out[0]; ++line, x += 2 * row) {
    for (int64_t at = 0; at < p.out[1] * kBlock; at += kLanes) {
      const float* window = x + at / kBlock * 2 * kBlock + at % kBlock;
      Winner winner = StartOf(kRelu, Load(window), 0.0f);
      winner.Offer(Load(window + kBlock), 1.0f);
      winner.Offer(Load(window + row), 2.0f);
      winner.Offer(Load(window + row + kBlock), 3.0f);
      Store(y + at, winner.value);
      StoreBytes(index + at, winner.index);
    }
    y += p.out[1] * kBlock;
    index += p.out[1] * kBlock;
  }
}

void MaxPoolAny(const PoolPlane& p, bool relu, const float* x, float* y, uint8_t* index,
                int64_t planes) {
  if (!IsExactTwoByTwo(p)) return MaxPool(p, relu, x, y, index, planes);
  if (relu) return MaxPool2x2<true>(p, x, y, index, planes);
  MaxPool2x2<false>(p, x, y, index, planes);
}

void MaxPoolGradient2x2(const PoolPlane& p, const uint8_t* index, const float* dy, float* dx,
                        int64_t planes) {
  const int64_t row = p.in[1] * kBlock;
  for (int64_t line = 0; line < planes * p.out[0]; ++line, dx += 2 * row) {
    for (int64_t at = 0; at < p.out[1] * kBlock; at += kLanes) {
      float* window = dx + at / kBlock * 2 * kBlock + at % kBlock;
      const Vec winner = LoadBytes(index + at);
      const Vec gradient = Load(dy + at);
      Store(window, SelectEqual(winner, Set1(0.0f), gradient, Zero()));
      Store(window + kBlock, SelectEqual(winner, Set1(1.0f), gradient, Zero()));
      Store(window + row, SelectEqual(winner, Set1(2.0f), gradient, Zero()));
      Store(window + row + kBlock, SelectEqual(winner, Set1(3.0f), gradient, Zero()));
    }
    dy += p.out[1] * kBlock;
    index += p.out[1] * kBlock;
  }
}

void MaxPoolGradient(const PoolPlane& p, const uint8_t* index, const float* dy, float* dx,
                     int64_t planes) {
  if (IsExactTwoByTwo(p)) return MaxPoolGradient2x2(p, index, dy, dx, planes);
  const int64_t in_plane = p.in[0] * p.in[1] * kBlock, out_plane = p.out[0] * p.out[1] * kBlock;
  for (int64_t i = 0; i < planes; ++i, dx += in_plane, dy += out_plane, index += out_plane) {
    for (int64_t at = 0; at < in_plane; at += kLanes) Store(dx + at, Zero());
    ForEachWindow(p, [&](int64_t from, int64_t to, Range rows, Range columns) {
      for (int lane = 0; lane < kBlock; lane += kLanes) {
        const Vec winner = LoadBytes(index + to + lane);
        const Vec gradient = Load(dy + to + lane);
        for (int64_t r = rows.begin; r < rows.end; ++r) {
          for (int64_t c = columns.begin; c < columns.end; ++c) {
            float* target = dx + from + lane + (r * p.in[1] + c) * kBlock;
            const Vec position = Set1(static_cast<float>(r * p.kernel[1] + c));
            Store(target, Load(target) + SelectEqual(winner, position, gradient, Zero()));
          }
        }
      }
    });
  }
}

inline Vec Share(const PoolPlane& p, bool count_padding, Range rows, Range columns) {
  const int64_t inside = (rows.end - rows.begin) * (columns.end - columns.begin);
  const int64_t elements = count_padding ? p.kernel[0] * p.kernel[1] : inside;
  return Set1(1.0f / static_cast<float>(elements));
}

void AveragePool(const PoolPlane& p, bool count_padding, const float* x, float* y, int64_t planes) {
  const int64_t in_plane = p.in[0] * p.in[1] * kBlock, out_plane = p.out[0] * p.out[1] * kBlock;
  for (int64_t i = 0; i < planes; ++i, x += in_plane, y += out_plane) {
    ForEachWindow(p, [&](int64_t from, int64_t to, Range rows, Range columns) {
      const Vec share = Share(p, count_padding, rows, columns);
      for (int lane = 0; lane < kBlock; lane += kLanes) {
        Vec total = Zero();
        for (int64_t r = rows.begin; r < rows.end; ++r) {
          for (int64_t c = columns.begin; c < columns.end; ++c) {
            total = total + Load(x + from + lane + (r * p.in[1] + c) * kBlock);
          }
        }
        Store(y + to + lane, total * share);
      }
    });
  }
}

void AveragePoolGradient(const PoolPlane& p, bool count_padding, const float* dy, float* dx,
                         int64_t planes) {
  const int64_t in_plane = p.in[0] * p.in[1] * kBlock, out_plane = p.out[0] * p.out[1] * kBlock;
  for (int64_t i = 0; i < planes; ++i, dx += in_plane, dy += out_plane) {
    for (int64_t at = 0; at < in_plane; at += kLanes) Store(dx + at, Zero());
    ForEachWindow(p, [&](int64_t from, int64_t to, Range rows, Range columns) {
      const Vec share = Share(p, count_padding, rows, columns);
      for (int lane = 0; lane < kBlock; lane += kLanes) {
        const Vec gradient = Load(dy + to + lane) * share;
        for (int64_t r = rows.begin; r < rows.end; ++r) {
          for (int64_t c = columns.begin; c < columns.end; ++c) {
            float* target = dx + from + lane + (r * p.in[1] + c) * kBlock;
            Store(target, Load(target) + gradient);
          }
        }
      }
    });
  }
}

}  // namespace

const PoolKernels kPoolKernels = {MaxPoolAny, MaxPoolGradient, AveragePool, AveragePoolGradient};

}  // namespace shoal::cpu::SHOAL_SIMD_NAMESPACE

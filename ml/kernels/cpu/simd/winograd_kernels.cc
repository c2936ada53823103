// The body of WinogradKernels for one instruction set: see winograd_kernels.h and vector.h.

#include "ml/kernels/cpu/simd/winograd_kernels.h"

#include "ml/kernels/cpu/simd/vector.h"

namespace shoal::cpu::SHOAL_SIMD_NAMESPACE {
namespace {

constexpr int kTile = 6;    // inputs of a tile, a side
constexpr int kKernel = 5;  // weights, a side

// ---- the maps along one side; vectors at distance `step` ----------------------------------------

constexpr double kA = 2.0 / 3.0, kB = 3.0 / 2.0;  // the points are 0, +-kA, +-kB; kA * kB = 1
constexpr double kA2 = kA * kA, kB2 = kB * kB;

inline Vec Constant(double value) { return Set1(static_cast<float>(value)); }

template <int kStep>
inline void InputMap(const Vec* d, Vec* r) {  // B^T
  const Vec d0 = d[0], d1 = d[kStep], d2 = d[2 * kStep], d3 = d[3 * kStep], d4 = d[4 * kStep];
  const Vec d5 = d[5 * kStep];
  const Vec a2 = Constant(kA2), b2 = Constant(kB2), sum = Constant(kA2 + kB2);
  const Vec even_a = d4 - b2 * d2, odd_a = Constant(kA) * (d3 - b2 * d1);
  const Vec even_b = d4 - a2 * d2, odd_b = Constant(kB) * (d3 - a2 * d1);
  r[0] = d0 + (d4 - sum * d2);
  r[kStep] = even_a + odd_a;
  r[2 * kStep] = even_a - odd_a;
  r[3 * kStep] = even_b + odd_b;
  r[4 * kStep] = even_b - odd_b;
  r[5 * kStep] = d1 + (d5 - sum * d3);
}

template <int kStep>
inline void InputAdjoint(const Vec* r, Vec* d) {  // B
  const Vec r0 = r[0], r1 = r[kStep], r2 = r[2 * kStep], r3 = r[3 * kStep], r4 = r[4 * kStep];
  const Vec r5 = r[5 * kStep];
  const Vec a = Constant(kA), b = Constant(kB), sum = Constant(kA2 + kB2);
  const Vec sum_a = r1 + r2, difference_a = r1 - r2, sum_b = r3 + r4, difference_b = r3 - r4;
  d[0] = r0;
  d[kStep] = r5 - Fma(b, difference_a, a * difference_b);
  d[2 * kStep] = Zero() - Fma(sum, r0, Fma(Constant(kB2), sum_a, Constant(kA2) * sum_b));
  d[3 * kStep] = Fma(a, difference_a, b * difference_b) - sum * r5;
  d[4 * kStep] = r0 + sum_a + sum_b;
  d[5 * kStep] = r5;
}

template <int kFrom, int kTo>
inline void OutputMap(const Vec* m, Vec* y) {  // A^T
  const Vec sum_a = m[kFrom] + m[2 * kFrom], difference_a = m[kFrom] - m[2 * kFrom];
  const Vec sum_b = m[3 * kFrom] + m[4 * kFrom], difference_b = m[3 * kFrom] - m[4 * kFrom];
  y[0] = m[0] + sum_a + sum_b;
  y[kTo] = Fma(Constant(kA), difference_a, Fma(Constant(kB), difference_b, m[5 * kFrom]));
}

template <int kFrom, int kTo>
inline void OutputAdjoint(const Vec* y, Vec* e) {  // A
  const Vec y0 = y[0], y1 = y[kFrom], a = Constant(kA) * y1, b = Constant(kB) * y1;
  e[0] = y0;
  e[kTo] = y0 + a;
  e[2 * kTo] = y0 - a;
  e[3 * kTo] = y0 + b;
  e[4 * kTo] = y0 - b;
  e[5 * kTo] = y1;
}

// The divisors of the rows of G: products of differences of the points.
constexpr double kDivisorA = 2 * kA2 * (kA2 - kB2), kDivisorB = 2 * kB2 * (kB2 - kA2);

template <int kFrom, int kTo>
inline void WeightMap(const Vec* w, Vec* u) {  // G
  const Vec w0 = w[0], w1 = w[kFrom], w2 = w[2 * kFrom], w3 = w[3 * kFrom], w4 = w[4 * kFrom];
  const Vec even_a = Fma(Constant(kA2 * kA2), w4, Fma(Constant(kA2), w2, w0));
  const Vec even_b = Fma(Constant(kB2 * kB2), w4, Fma(Constant(kB2), w2, w0));
  const Vec odd_a = Fma(Constant(kA2 * kA), w3, Constant(kA) * w1);
  const Vec odd_b = Fma(Constant(kB2 * kB), w3, Constant(kB) * w1);
  const Vec a = Constant(1 / kDivisorA), b = Constant(1 / kDivisorB);
  u[0] = w0;
  u[kTo] = a * (even_a + odd_a);
  u[2 * kTo] = a * (even_a - odd_a);
  u[3 * kTo] = b * (even_b + odd_b);
  u[4 * kTo] = b * (even_b - odd_b);
  u[5 * kTo] = w4;
}

template <int kFrom, int kTo>
inline void WeightAdjoint(const Vec* u, Vec* w) {  // G^T
  const Vec a = Constant(1 / kDivisorA), b = Constant(1 / kDivisorB);
  const Vec sum_a = a * (u[kFrom] + u[2 * kFrom]), sum_b = b * (u[3 * kFrom] + u[4 * kFrom]);
  const Vec odd_a = a * (u[kFrom] - u[2 * kFrom]), odd_b = b * (u[3 * kFrom] - u[4 * kFrom]);
  w[0] = u[0] + sum_a + sum_b;
  w[kTo] = Fma(Constant(kA), odd_a, Constant(kB) * odd_b);
  w[2 * kTo] = Fma(Constant(kA2), sum_a, Constant(kB2) * sum_b);
  w[3 * kTo] = Fma(Constant(kA2 * kA), odd_a, Constant(kB2 * kB) * odd_b);
  w[4 * kTo] = Fma(Constant(kA2 * kA2), sum_a, Fma(Constant(kB2 * kB2), sum_b, u[5 * kFrom]));
}

// ---- tiles
// ---------------------------------------------------------------------------------------

struct TileAt {
  int64_t image, row, column;  // row and column of the tile
};

inline TileAt TileOf(const WinogradShape& s, int64_t tile) {
  const int64_t in_image = tile % s.tiles_of_image();
  return {tile / s.tiles_of_image(), in_image / s.tiles[1], in_image % s.tiles[1]};
}

// Floats from the first block of an image's plane to channel `c`, for planes of `pixels`.
inline int64_t ChannelOffset(int64_t c, int64_t pixels) { return c / 16 * pixels * 16 + c % 16; }

// Rows and columns of the 6x6 inputs that are inside the image.
struct InputWindow {
  int64_t top, left;  // place of the tile; may be negative
  int64_t row_begin, row_end, column_begin, column_end;

  bool is_whole() const {
    return row_begin == 0 && column_begin == 0 && row_end == kTile && column_end == kTile;
  }
};

inline int64_t Clamp(int64_t v, int64_t low, int64_t high) {
  return v < low ? low : v > high ? high : v;
}

inline InputWindow WindowOf(const WinogradShape& s, const TileAt& tile) {
  InputWindow w;
  w.top = tile.row * 2 - s.pad[0];
  w.left = tile.column * 2 - s.pad[1];
  w.row_begin = Clamp(-w.top, 0, kTile);
  w.column_begin = Clamp(-w.left, 0, kTile);
  w.row_end = Clamp(s.in[0] - w.top, w.row_begin, kTile);
  w.column_end = Clamp(s.in[1] - w.left, w.column_begin, kTile);
  return w;
}

// Outside the image, zeros are read. The two rows below the tile are fetched: the next row of tiles
// reads them, in steps that the processor does not foresee.
inline void LoadInputs(const WinogradShape& s, const InputWindow& w, const float* x, Vec* d) {
  const float* corner = x + (w.top * s.in[1] + w.left) * 16;
  const int64_t row = s.in[1] * 16;
  for (int i = 0; i < 4; ++i) __builtin_prefetch(corner + (6 + i / 2) * row + (2 + i % 2) * 16);
  if (w.is_whole()) {
    for (int r = 0; r < kTile; ++r) {
      for (int c = 0; c < kTile; ++c) d[r * kTile + c] = Load(corner + r * row + c * 16);
    }
    return;
  }
  const float zeros[kLanes] = {};
  for (int r = 0; r < kTile; ++r) {
    for (int c = 0; c < kTile; ++c) {
      const bool inside =
          (r >= w.row_begin) & (r < w.row_end) & (c >= w.column_begin) & (c < w.column_end);
      d[r * kTile + c] = Load(inside ? corner + r * row + c * 16 : zeros);
    }
  }
}

inline void LoadPoints(const float* from, int64_t stride, Vec* points) {
  for (int p = 0; p < kWinogradPoints; ++p) points[p] = Load(from + p * stride);
}

inline void StorePoints(float* to, int64_t stride, const Vec* points) {
  for (int p = 0; p < kWinogradPoints; ++p) Store(to + p * stride, points[p]);
}

void TransformInput(const WinogradShape& s, TileRange tiles, const float* x, float* v) {
  const int64_t pixels = s.in[0] * s.in[1];
  const int64_t stride = tiles.PointFloats(s.in_channels);
  for (int64_t t = 0; t < tiles.count; ++t) {
    const TileAt tile = TileOf(s, tiles.first + t);
    const InputWindow window = WindowOf(s, tile);
    const float* image = x + tile.image * s.in_channels * pixels;
    for (int64_t c = 0; c < s.in_channels; c += kLanes) {
      Vec d[kTile * kTile], half[kTile * kTile];
      LoadInputs(s, window, image + ChannelOffset(c, pixels), d);
      for (int i = 0; i < kTile; ++i) InputMap<kTile>(d + i, half + i);
      for (int i = 0; i < kTile; ++i) InputMap<1>(half + i * kTile, d + i * kTile);
      StorePoints(v + t * s.in_channels + c, stride, d);
    }
  }
}

inline void AddOutputs(const WinogradShape& s, const InputWindow& w, float* x, const Vec* d) {
  float* corner = x + (w.top * s.in[1] + w.left) * 16;
  const int64_t row = s.in[1] * 16;
  const bool is_whole = w.is_whole();
  for (int r = 0; r < kTile; ++r) {
    if (r < w.row_begin || r >= w.row_end) continue;
    float* to = corner + r * row;
    for (int c = 0; c < kTile; ++c) {
      if (!is_whole && (c < w.column_begin || c >= w.column_end)) continue;
      Store(to + c * 16, Load(to + c * 16) + d[r * kTile + c]);
    }
  }
}

void AddInputGradient(const WinogradShape& s, TileRange tiles, const float* d, float* dx) {
  const int64_t pixels = s.in[0] * s.in[1];
  const int64_t stride = tiles.PointFloats(s.in_channels);
  for (int64_t t = 0; t < tiles.count; ++t) {
    const TileAt tile = TileOf(s, tiles.first + t);
    const InputWindow w = WindowOf(s, tile);
    float* image = dx + tile.image * s.in_channels * pixels;
    for (int64_t c = 0; c < s.in_channels; c += kLanes) {
      Vec r[kTile * kTile], half[kTile * kTile];
      LoadPoints(d + t * s.in_channels + c, stride, r);
      for (int i = 0; i < kTile; ++i) InputAdjoint<kTile>(r + i, half + i);
      for (int i = 0; i < kTile; ++i) InputAdjoint<1>(half + i * kTile, r + i * kTile);
      AddOutputs(s, w, image + ChannelOffset(c, pixels), r);
    }
  }
}

// ---- outputs
// ---------------------------------------------------------------------------------------

// The place of a tile's outputs: one pixel of the pooled image, or up to 2x2 pixels.
struct OutputPlace {
  int64_t offset;            // floats from the start of the batch to channel 0
  int64_t plane;             // floats of one block of channels
  int64_t row_stride;        // floats
  bool has_row, has_column;  // the second ones
};

inline OutputPlace PlaceOf(const WinogradShape& s, const TileAt& tile) {
  const int64_t step = s.is_pooled ? 1 : 2;
  const int64_t height = s.is_pooled ? s.tiles[0] : s.out[0];
  const int64_t width = s.is_pooled ? s.tiles[1] : s.out[1];
  OutputPlace place;
  place.plane = height * width * 16;
  place.row_stride = width * 16;
  place.offset = tile.image * (s.out_channels / 16) * place.plane +
                 (tile.row * width + tile.column) * step * 16;
  place.has_row = tile.row * 2 + 1 < s.out[0];
  place.has_column = tile.column * 2 + 1 < s.out[1];
  return place;
}

// The first largest of four, or none if relu and none is positive.
inline void StorePooled(bool relu, const Vec* y, float* to, uint8_t* index) {
  Vec best = relu ? Zero() : y[0];
  Vec at = Set1(relu ? 255.0f : 0.0f);
  for (int k = 0; k < 4; ++k) {
    const Vec position = Set1(static_cast<float>(k));
    at = SelectNan(y[k], position, SelectGreater(y[k], best, position, at));
    best = SelectNan(y[k], y[k], SelectGreater(y[k], best, y[k], best));
  }
  Store(to, best);
  StoreBytes(index, at);
}

void TransformOutput(const WinogradShape& s, TileRange tiles, const float* m, const float* bias,
                     float* y, uint8_t* index) {
  const int64_t stride = tiles.PointFloats(s.out_channels);
  for (int64_t t = 0; t < tiles.count; ++t) {
    const OutputPlace place = PlaceOf(s, TileOf(s, tiles.first + t));
    for (int64_t c = 0; c < s.out_channels; c += kLanes) {
      Vec points[kWinogradPoints], half[2 * kTile], out[4];
      LoadPoints(m + t * s.out_channels + c, stride, points);
      for (int i = 0; i < kTile; ++i) OutputMap<kTile, kTile>(points + i, half + i);
      for (int i = 0; i < 2; ++i) OutputMap<1, 1>(half + i * kTile, out + i * 2);
      const Vec b = bias == nullptr ? Zero() : Load(bias + c);
      for (Vec& v : out) v = v + b;
      const int64_t at = place.offset + c / 16 * place.plane + c % 16;
      if (s.is_pooled) {
        StorePooled(s.relu, out, y + at, index + at);
        continue;
      }
      Store(y + at, out[0]);
      if (place.has_column) Store(y + at + 16, out[1]);
      if (place.has_row) Store(y + at + place.row_stride, out[2]);
      if (place.has_row && place.has_column) Store(y + at + place.row_stride + 16, out[3]);
    }
  }
}

inline void LoadGradient(const OutputPlace& place, int64_t at, const float* dy,
                         const uint8_t* index, Vec* out) {
  if (index != nullptr) {
    const Vec winner = LoadBytes(index + at), gradient = Load(dy + at);
    for (int k = 0; k < 4; ++k) {
      out[k] = SelectEqual(winner, Set1(static_cast<float>(k)), gradient, Zero());
    }
    return;
  }
  out[0] = Load(dy + at);
  out[1] = place.has_column ? Load(dy + at + 16) : Zero();
  out[2] = place.has_row ? Load(dy + at + place.row_stride) : Zero();
  out[3] = place.has_row && place.has_column ? Load(dy + at + place.row_stride + 16) : Zero();
}

void TransformGradient(const WinogradShape& s, TileRange tiles, const float* dy,
                       const uint8_t* index, float* e, float* bias_gradient) {
  const int64_t stride = tiles.PointFloats(s.out_channels);
  for (int64_t t = 0; t < tiles.count; ++t) {
    const OutputPlace place = PlaceOf(s, TileOf(s, tiles.first + t));
    for (int64_t c = 0; c < s.out_channels; c += kLanes) {
      Vec out[4], half[2 * kTile], points[kWinogradPoints];
      LoadGradient(place, place.offset + c / 16 * place.plane + c % 16, dy, index, out);
      if (bias_gradient != nullptr) {
        const Vec sum = (out[0] + out[1]) + (out[2] + out[3]);
        Store(bias_gradient + c, Load(bias_gradient + c) + sum);
      }
      for (int i = 0; i < 2; ++i) OutputAdjoint<1, 1>(out + i * 2, half + i * kTile);
      for (int i = 0; i < kTile; ++i) OutputAdjoint<kTile, kTile>(half + i, points + i);
      StorePoints(e + t * s.out_channels + c, stride, points);
    }
  }
}

// ---- weights
// ---------------------------------------------------------------------------------------

constexpr int kTaps = kKernel * kKernel;

void TransformWeights(const WinogradShape& s, bool transposed, const float* w, float* u,
                      float* scratch) {
  const int64_t rows = transposed ? s.out_channels : s.in_channels;
  const int64_t columns = transposed ? s.in_channels : s.out_channels;
  const int64_t size = rows * columns;
  for (int64_t o = 0; o < s.out_channels; ++o) {
    for (int64_t i = 0; i < s.in_channels; ++i, w += kTaps) {
      float* to = scratch + (transposed ? o * columns + i : i * columns + o);
      for (int k = 0; k < kTaps; ++k) to[k * size] = w[k];
    }
  }
  for (int64_t at = 0; at < size; at += kLanes) {
    Vec taps[kTaps], half[kTile * kKernel], points[kWinogradPoints];
    for (int k = 0; k < kTaps; ++k) taps[k] = Load(scratch + k * size + at);
    for (int i = 0; i < kKernel; ++i) WeightMap<kKernel, kKernel>(taps + i, half + i);
    for (int i = 0; i < kTile; ++i) WeightMap<1, 1>(half + i * kKernel, points + i * kTile);
    for (int p = 0; p < kWinogradPoints; ++p) Store(u + p * size + at, points[p]);
  }
}

void TransformWeightGradient(const WinogradShape& s, const float* du, float* dw, float* scratch) {
  const int64_t size = s.in_channels * s.out_channels;
  for (int64_t at = 0; at < size; at += kLanes) {
    Vec points[kWinogradPoints], half[kKernel * kTile], taps[kTaps];
    for (int p = 0; p < kWinogradPoints; ++p) points[p] = Load(du + p * size + at);
    for (int i = 0; i < kTile; ++i) WeightAdjoint<kTile, kTile>(points + i, half + i);
    for (int i = 0; i < kKernel; ++i) WeightAdjoint<1, 1>(half + i * kTile, taps + i * kKernel);
    for (int k = 0; k < kTaps; ++k) Store(scratch + k * size + at, taps[k]);
  }
  for (int64_t o = 0; o < s.out_channels; ++o) {
    for (int64_t i = 0; i < s.in_channels; ++i, dw += kTaps) {
      for (int k = 0; k < kTaps; ++k) dw[k] = scratch[k * size + i * s.out_channels + o];
    }
  }
}

// ---- the matrix product
// ------------------------------------------------------------------------------

// Rows and vectors of the block of c that stays in registers.
#if defined(__AVX512F__)
constexpr int kRows = 12;
#else
constexpr int kRows = 4;
#endif
constexpr int kColumns = 2;

template <bool kTransposeA, int kM, int kN>
inline void Block(int64_t k, const float* a, int64_t lda, const float* b, int64_t ldb, float* c,
                  bool accumulate) {
  Vec sums[kM][kN];
  for (int i = 0; i < kM; ++i) {
    for (int j = 0; j < kN; ++j) sums[i][j] = Zero();
  }
  for (int64_t p = 0; p < k; ++p, b += ldb) {
    Vec row[kN];
    for (int j = 0; j < kN; ++j) row[j] = Load(b + j * kLanes);
    for (int i = 0; i < kM; ++i) {
      const Vec factor = Set1(kTransposeA ? a[i] : a[i * lda]);
      for (int j = 0; j < kN; ++j) sums[i][j] = Fma(factor, row[j], sums[i][j]);
    }
    a += kTransposeA ? lda : 1;
  }
  for (int i = 0; i < kM; ++i) {
    for (int j = 0; j < kN; ++j) {
      float* to = c + i * ldb + j * kLanes;
      Store(to, accumulate ? Load(to) + sums[i][j] : sums[i][j]);
    }
  }
}

template <bool kTransposeA, int kM>
inline void RowsOfBlocks(int64_t n, int64_t k, const float* a, int64_t lda, const float* b,
                         float* c, bool accumulate) {
  int64_t j = 0;
  for (; j + kColumns * kLanes <= n; j += kColumns * kLanes) {
    Block<kTransposeA, kM, kColumns>(k, a, lda, b + j, n, c + j, accumulate);
  }
  for (; j < n; j += kLanes) {
    Block<kTransposeA, kM, 1>(k, a, lda, b + j, n, c + j, accumulate);
  }
}

template <bool kTransposeA>
void MultiplyRows(int64_t m, int64_t n, int64_t k, const float* a, int64_t lda, const float* b,
                  float* c, bool accumulate) {
  int64_t i = 0;
  const auto at = [&](int64_t row) { return a + (kTransposeA ? row : row * lda); };
  for (; i + kRows <= m; i += kRows) {
    RowsOfBlocks<kTransposeA, kRows>(n, k, at(i), lda, b, c + i * n, accumulate);
  }
  for (; i + 8 <= m; i += 8) {
    RowsOfBlocks<kTransposeA, 8>(n, k, at(i), lda, b, c + i * n, accumulate);
  }
  for (; i < m; i += 4) {
    RowsOfBlocks<kTransposeA, 4>(n, k, at(i), lda, b, c + i * n, accumulate);
  }
}

void Multiply(bool transpose_a, int64_t m, int64_t n, int64_t k, const float* a, int64_t lda,
              const float* b, float* c, bool accumulate) {
  if (transpose_a) return MultiplyRows<true>(m, n, k, a, lda, b, c, accumulate);
  MultiplyRows<false>(m, n, k, a, lda, b, c, accumulate);
}

}  // namespace

const WinogradKernels kWinogradKernels = {
    TransformWeights, TransformInput,          TransformOutput, TransformGradient,
    AddInputGradient, TransformWeightGradient, Multiply,
};

}  // namespace shoal::cpu::SHOAL_SIMD_NAMESPACE

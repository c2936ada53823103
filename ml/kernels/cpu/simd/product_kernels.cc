// The body of product_kernels.h for one instruction set; see vector.h for what it must not include.
#include "ml/kernels/cpu/simd/product_kernels.h"

#include "ml/kernels/cpu/simd/vector.h"

namespace shoal::cpu::SHOAL_SIMD_NAMESPACE {
namespace {

// A tile is kTileRows rows by two vectors: its sums, one row of a panel and one factor stay in
// registers.
#if defined(__AVX512F__)
constexpr int kTileRows = 14;
constexpr bool kBiasedProductIsFaster = true;
#else
constexpr int kTileRows = 6;
constexpr bool kBiasedProductIsFaster = false;
#endif
constexpr int64_t kPanel = 2 * kLanes;
constexpr int64_t kLineFloats = 16;
// Rows of a tile up to so deep stay in L1 from one panel to the next.
constexpr int64_t kResidentDepth = 256;

void PackColumns(const float* w, int64_t k, int64_t n, float* packed) {
  for (int64_t column = 0; column < n; column += kPanel) {
    const float* from = w + column;
    for (int64_t j = 0; j < k; ++j, from += n, packed += kPanel) {
      Store(packed, Load(from));
      Store(packed + kLanes, Load(from + kLanes));
    }
  }
}

void PackRows(const float* w, int64_t k, int64_t n, float* packed) {
  for (int64_t row = 0; row < k; row += kPanel, packed += kPanel * n) {
    const int64_t rows = k - row < kPanel ? k - row : kPanel;
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < n; ++j) packed[j * kPanel + i] = w[(row + i) * n + j];
    }
    for (int64_t i = rows; i < kPanel; ++i) {
      for (int64_t j = 0; j < n; ++j) packed[j * kPanel + i] = 0.0f;
    }
  }
}

// One tile's product: `rows` [as many as the tile has, depth] times `panel` [depth, kPanel].
struct Product {
  const float* rows;
  const float* panel;
  int64_t depth;
};

// The memory that the next tile touches, which is fetched meanwhile.
struct Next {
  const float* read;  // two vectors of each row, as of `written`
  const float* written;
  int64_t stride;              // between rows of both
  const float* rows;           // a part of the rows after this tile's
  int64_t lines;               // lines of `rows` for each part of this tile's steps
  int64_t rows_step;           // distance from one panel to the next
  bool is_there, is_followed;  // the tile, and these rows by others
};

// The current factors of up to 14 rows, addressed by two pointers and a few multiples of the
// distance between rows: a pointer for each row would need more registers than there are.
struct Factors {
  const char* first;
  const char* seventh;
  int64_t stride, stride3, stride5;  // bytes
};

// Hides where a value comes from, or the compiler would compute the rows' addresses anew.
template <typename T>
inline void Keep(T& value) {
  asm("" : "+r"(value));
}

inline Factors FactorsOf(const float* rows, int64_t depth) {
  Factors f;
  f.stride = depth * static_cast<int64_t>(sizeof(float));
  f.stride3 = 3 * f.stride;
  f.stride5 = 5 * f.stride;
  f.first = reinterpret_cast<const char*>(rows);
  f.seventh = f.first + 7 * f.stride;
  Keep(f.stride);
  Keep(f.stride3);
  Keep(f.stride5);
  Keep(f.first);
  Keep(f.seventh);
  return f;
}

inline const float* FactorAt(const Factors& f, int row) {
  const char* at = row < 7 ? f.first : f.seventh;
  const int r = row < 7 ? row : row - 7;
  if (r == 1) at += f.stride;
  if (r == 2) at += 2 * f.stride;
  if (r == 3) at += f.stride3;
  if (r == 4) at += 4 * f.stride;
  if (r == 5) at += f.stride5;
  if (r == 6) at += 2 * f.stride3;
  return reinterpret_cast<const float*>(at);
}

// `steps` rows of the panel.
template <int kRows>
inline void MultiplySteps(int64_t steps, Factors& f, const float*& panel, Vec (&sums)[kRows][2]) {
  const float* end = panel + steps * kPanel;
#pragma GCC unroll 1
  while (panel != end) {
    const Vec low = Load(panel), high = Load(panel + kLanes);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const Vec factor = Set1(*FactorAt(f, r));
      sums[r][0] = Fma(factor, low, sums[r][0]);
      sums[r][1] = Fma(factor, high, sums[r][1]);
    }
    f.first += sizeof(float);
    f.seventh += sizeof(float);
    panel += kPanel;
  }
}

// The factors of the line after the current one.
template <int kRows>
inline void FetchFactors(Factors f) {
  f.first += kLineFloats * sizeof(float);
  f.seventh += kLineFloats * sizeof(float);
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) __builtin_prefetch(FactorAt(f, r));
}

// The next tile's row, and `lines` of the rows after this tile's.
inline void FetchRow(int64_t stride, const float*& read, const float*& written) {
  __builtin_prefetch(read);
  __builtin_prefetch(read + kLanes);
  __builtin_prefetch(written, 1);
  __builtin_prefetch(written + kLanes, 1);
  read += stride;
  written += stride;
}

inline void FetchLines(int64_t lines, const float*& rows) {
#pragma GCC unroll 1
  for (; lines > 0; --lines, rows += kLineFloats) __builtin_prefetch(rows);
}

// Rows that stay in L1: the steps are cut into one part for each row to fetch.
template <int kRows>
inline void MultiplyShallow(const Product& p, const Next& next, Factors& factors,
                            Vec (&sums)[kRows][2]) {
  const float* panel = p.panel;
  const int64_t steps = p.depth / kRows;
  int64_t left = p.depth;
  if (next.is_there && steps > 0) {
    const float *read = next.read, *written = next.written, *rows = next.rows;
#pragma GCC unroll 1
    for (int r = 0; r < kRows; ++r) {
      FetchRow(next.stride, read, written);
      FetchLines(next.lines, rows);
      MultiplySteps<kRows>(steps, factors, panel, sums);
    }
    left -= kRows * steps;
  }
  MultiplySteps<kRows>(left, factors, panel, sums);
}

// Deeper rows: a part for each line of them, whose next line is fetched before.
template <int kRows>
inline void MultiplyDeep(const Product& p, const Next& next, Factors& factors,
                         Vec (&sums)[kRows][2]) {
  const float* panel = p.panel;
  const float *read = next.read, *written = next.written, *rows = next.rows;
  int64_t rows_left = next.is_there ? kRows : 0;
  int64_t left = p.depth;
#pragma GCC unroll 1
  for (; left >= kLineFloats; left -= kLineFloats) {
    if (rows_left > 0) {
      FetchRow(next.stride, read, written);
      --rows_left;
    }
    FetchLines(next.lines, rows);
    FetchFactors<kRows>(factors);
    MultiplySteps<kRows>(kLineFloats, factors, panel, sums);
  }
  MultiplySteps<kRows>(left, factors, panel, sums);
}

template <int kRows, bool kIsDeep>
inline void Multiply(const Product& p, const Next& next, Vec (&sums)[kRows][2]) {
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) sums[r][0] = sums[r][1] = Zero();
  Factors factors = FactorsOf(p.rows, p.depth);
  if (kIsDeep) {
    MultiplyDeep<kRows>(p, next, factors, sums);
  } else {
    MultiplyShallow<kRows>(p, next, factors, sums);
  }
}

// For all panels of kRows rows: `rows`, `written` and `read` are those rows' own, `columns` wide
// the latter two. Divisions once, not for each panel.
template <int kRows>
inline Next NextOf(const float* read, const float* written, int64_t columns, const float* rows,
                   int64_t depth, bool is_followed) {
  const int64_t panels = (columns + kPanel - 1) / kPanel;
  const int64_t row_lines = depth / kLineFloats;
  const bool is_deep = depth > kResidentDepth;
  const int64_t parts = is_deep ? row_lines : kRows;  // of a tile's steps
  Next next;
  next.read = read;
  next.written = written;
  next.stride = columns;
  next.rows = rows + kRows * depth;
  next.lines = is_followed ? ((is_deep ? kRows : row_lines) + panels - 1) / panels : 0;
  next.rows_step = next.lines * parts * kLineFloats;
  next.is_followed = is_followed;
  return next;
}

// On to the tile after that in the panel at `column`: the next panel, or the next rows' first.
template <int kRows>
inline void Advance(int64_t column, Next& next) {
  const bool is_last = column + kPanel >= next.stride;
  const int64_t distance = is_last ? kRows * next.stride - column : kPanel;
  next.read += distance;
  next.written += distance;
  next.is_there = !is_last || next.is_followed;
}

// The sums of a tile in memory, for a last panel that is narrower than the others. Constant indices
// only: else the sums would live in memory during the product, too.
template <int kRows>
inline void Spill(const Vec (&sums)[kRows][2], float* block) {
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    Store(block + r * kPanel, sums[r][0]);
    Store(block + r * kPanel + kLanes, sums[r][1]);
  }
}

template <int kRows, bool kIsDeep>
__attribute__((noinline)) void BiasedTile(const BiasedProduct& p, int64_t row, int64_t column,
                                          const Product& product, const Next& next) {
  Vec sums[kRows][2];
  Multiply<kRows, kIsDeep>(product, next, sums);
  const Vec low = Load(p.bias + column), high = Load(p.bias + column + kLanes);
  // Max returns its second operand when one is not a number: NaN stays.
  const Vec least = p.relu ? Zero() : Set1(-__builtin_inff());
  float* y = p.y + row * p.n + column;
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    Store(y + r * p.n, Max(least, sums[r][0] + low));
    Store(y + r * p.n + kLanes, Max(least, sums[r][1] + high));
  }
}

// kRows rows from `row` on, all columns.
template <int kRows>
inline void BiasedRows(const BiasedProduct& p, int64_t row) {
  const float* rows = p.x + row * p.k;
  const float* y = p.y + row * p.n;
  const bool is_followed = row + 2 * kRows <= p.rows;
  const auto tile = p.k > kResidentDepth ? BiasedTile<kRows, true> : BiasedTile<kRows, false>;
  Next next = NextOf<kRows>(y, y, p.n, rows, p.k, is_followed);
  for (int64_t column = 0; column < p.n; column += kPanel) {
    Advance<kRows>(column, next);
    tile(p, row, column, {rows, p.packed + column * p.k, p.k}, next);
    next.rows += next.rows_step;
  }
}

inline Vec Masked(Vec x, Vec gradient) { return SelectGreater(x, Zero(), gradient, Zero()); }

__attribute__((noinline)) void StoreGradient(const InputGradient& p, int64_t row, int64_t column,
                                             int rows, const float* block) {
  for (int r = 0; r < rows; ++r) {
    const int64_t at = (row + r) * p.k + column;
    for (int64_t c = 0; c < p.k - column; ++c) {
      const float value = p.x[at + c] > 0.0f ? block[r * kPanel + c] : 0.0f;
      p.dx[at + c] = value;
      p.column_sums[column + c] += value;
    }
  }
}

template <int kRows>
__attribute__((noinline)) void GradientTile(const InputGradient& p, int64_t row, int64_t column,
                                            const Product& product, const Next& next) {
  Vec sums[kRows][2];
  Multiply<kRows, false>(product, next, sums);
  if (p.k - column < kPanel) {
    alignas(64) float block[kRows * kPanel];
    Spill<kRows>(sums, block);
    StoreGradient(p, row, column, kRows, block);
    return;
  }
  const float* x = p.x + row * p.k + column;
  float* dx = p.dx + row * p.k + column;
  float* column_sums = p.column_sums + column;
  Vec low = Load(column_sums), high = Load(column_sums + kLanes);
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    const Vec a = Masked(Load(x + r * p.k), sums[r][0]);
    const Vec b = Masked(Load(x + r * p.k + kLanes), sums[r][1]);
    Store(dx + r * p.k, a);
    Store(dx + r * p.k + kLanes, b);
    low = low + a;
    high = high + b;
  }
  Store(column_sums, low);
  Store(column_sums + kLanes, high);
}

template <int kRows>
inline void GradientRows(const InputGradient& p, int64_t row) {
  const float* rows = p.dz + row * p.n;
  const float* x = p.x + row * p.k;
  const float* dx = p.dx + row * p.k;
  const bool is_followed = row + 2 * kRows <= p.rows;
  Next next = NextOf<kRows>(x, dx, p.k, rows, p.n, is_followed);
  for (int64_t column = 0; column < p.k; column += kPanel) {
    Advance<kRows>(column, next);
    GradientTile<kRows>(p, row, column, {rows, p.packed + column * p.n, p.n}, next);
    next.rows += next.rows_step;
  }
}

void ComputeBiasedProduct(const BiasedProduct& p) {
  int64_t row = 0;
  for (; row + kTileRows <= p.rows; row += kTileRows) BiasedRows<kTileRows>(p, row);
  for (; row + 4 <= p.rows; row += 4) BiasedRows<4>(p, row);
  for (; row < p.rows; ++row) BiasedRows<1>(p, row);
}

void ComputeInputGradient(const InputGradient& p) {
  for (int64_t c = 0; c < p.k; ++c) p.column_sums[c] = 0.0f;
  int64_t row = 0;
  for (; row + kTileRows <= p.rows; row += kTileRows) GradientRows<kTileRows>(p, row);
  for (; row + 4 <= p.rows; row += 4) GradientRows<4>(p, row);
  for (; row < p.rows; ++row) GradientRows<1>(p, row);
}

}  // namespace

extern const ProductKernels kProductKernels;
const ProductKernels kProductKernels = {kTileRows,           kPanel,   kBiasedProductIsFaster,
                                        PackColumns,         PackRows, ComputeBiasedProduct,
                                        ComputeInputGradient};

}  // namespace shoal::cpu::SHOAL_SIMD_NAMESPACE

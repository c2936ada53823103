// The body of FeatureKernels for one instruction set: see feature_kernels.h.

#include "ml/kernels/cpu/simd/feature_kernels.h"

#include "ml/kernels/cpu/simd/vector.h"

namespace shoal::cpu::SHOAL_SIMD_NAMESPACE {
namespace {

// ---- bags

inline int64_t At(const IndexArray& array, int64_t i) {
  return array.is_int64 ? static_cast<const int64_t*>(array.data)[i]
                        : static_cast<const int32_t*>(array.data)[i];
}

// The positions of a bag in the indices.
struct Bag {
  int64_t begin, end;
};

inline Bag BagAt(const RowBags& bags, int64_t b) {
  const auto clipped = [&](int64_t offset) {
    return offset < 0 ? 0 : offset > bags.num_indices ? bags.num_indices : offset;
  };
  return {clipped(At(bags.offsets, b)), clipped(At(bags.offsets, b + 1))};
}

// The factor by which the weights of a bag are multiplied.
inline float FactorOf(const RowBags& bags, Bag bag) {
  if (!bags.is_mean) return 1.0f;
  float total = 0.0f;
  for (int64_t p = bag.begin; p < bag.end; ++p) {
    total += bags.weights == nullptr ? 1.0f : bags.weights[p];
  }
  return total == 0.0f ? 0.0f : 1.0f / total;
}

inline Vec LoadUpTo(const float* p, int64_t n) { return n >= kLanes ? Load(p) : LoadPart(p, n); }
inline void StoreUpTo(float* p, Vec v, int64_t n) {
  if (n >= kLanes) {
    Store(p, v);
  } else {
    StorePart(p, v, n);
  }
}

// sum += factor * x, for n floats. kDim is n if it is known when this is compiled, else 0.
template <int64_t kDim>
inline void AddRow(const float* x, float factor, float* sum, int64_t n) {
  const int64_t dim = kDim == 0 ? n : kDim;
  const Vec f = Set1(factor);
  for (int64_t d = 0; d < dim; d += kLanes) {
    StoreUpTo(sum + d, Fma(f, LoadUpTo(x + d, dim - d), LoadUpTo(sum + d, dim - d)), dim - d);
  }
}

template <>
inline void AddRow<1>(const float* x, float factor, float* sum, int64_t) {
  *sum += factor * *x;
}

// The distance in positions at which rows are prefetched.
constexpr int64_t kAhead = 16;

template <int64_t kDim>
void PoolOf(const RowBags& bags, const float* rows, int64_t begin, int64_t end, float* y) {
  const int64_t dim = kDim == 0 ? bags.dim : kDim;
  for (int64_t b = begin; b < end; ++b) {
    const Bag bag = BagAt(bags, b);
    const float scale = FactorOf(bags, bag);
    float* sum = y + b * dim;
    for (int64_t d = 0; d < dim; ++d) sum[d] = 0.0f;
    for (int64_t p = bag.begin; p < bag.end; ++p) {
      if (p + kAhead < bags.num_indices) {
        const int64_t next = At(bags.indices, p + kAhead);
        if (next >= 0 && next < bags.num_rows) __builtin_prefetch(rows + next * dim);
      }
      const int64_t row = At(bags.indices, p);
      if (row >= 0 && row < bags.num_rows) {
        AddRow<kDim>(rows + row * dim, bags.weights == nullptr ? scale : scale * bags.weights[p],
                     sum, dim);
      } else {
        for (int64_t d = 0; d < dim; ++d) sum[d] = __builtin_nanf("");
      }
    }
  }
}

template <int64_t kDim>
void AddPoolGradientOf(const RowBags& bags, const float* dy, int64_t num_bags, int64_t first_row,
                       int64_t last_row, float* gradient) {
  const int64_t dim = kDim == 0 ? bags.dim : kDim;
  for (int64_t b = 0; b < num_bags; ++b) {
    const Bag bag = BagAt(bags, b);
    const float scale = FactorOf(bags, bag);
    for (int64_t p = bag.begin; p < bag.end; ++p) {
      const int64_t row = At(bags.indices, p);
      if (row < first_row || row >= last_row) continue;
      AddRow<kDim>(dy + b * dim, bags.weights == nullptr ? scale : scale * bags.weights[p],
                   gradient + row * dim, dim);
    }
  }
}

void Pool(const RowBags& bags, const float* rows, int64_t begin, int64_t end, float* y) {
  if (bags.dim == 16) return PoolOf<16>(bags, rows, begin, end, y);
  if (bags.dim == 1) return PoolOf<1>(bags, rows, begin, end, y);
  PoolOf<0>(bags, rows, begin, end, y);
}

void AddPoolGradient(const RowBags& bags, const float* dy, int64_t num_bags, int64_t first_row,
                     int64_t last_row, float* gradient) {
  if (bags.dim == 16) {
    return AddPoolGradientOf<16>(bags, dy, num_bags, first_row, last_row, gradient);
  }
  if (bags.dim == 1) {
    return AddPoolGradientOf<1>(bags, dy, num_bags, first_row, last_row, gradient);
  }
  AddPoolGradientOf<0>(bags, dy, num_bags, first_row, last_row, gradient);
}

// ---- products of pairs

inline const float* VectorOf(const VectorBatch& batch, int64_t i, int64_t example) {
  return static_cast<const float*>(batch.vectors[i]) + example * batch.dim;
}

inline int64_t PaddedCount(int64_t count) { return (count + kLanes - 1) / kLanes * kLanes; }

int64_t PairScratch(int64_t count, int64_t dim) { return PaddedCount(count) * dim; }

// So many vectors of an example are multiplied at the same time, or get their gradients at the same
// time: their sums fit into the registers, and each does not have to wait for the one before it.
#if defined(__AVX512F__)
constexpr int kPairRows = 8;
#else
constexpr int kPairRows = 4;
#endif

// Vectors are prefetched this many examples before they are used.
constexpr int64_t kExamplesAhead = 8;

// transposed[d * ld + j] = element d of vector j, and 0 for vectors that do not exist.
inline void TransposeVectors(const VectorBatch& batch, int64_t example, int64_t ld,
                             float* transposed) {
  for (int64_t j = 0; j < batch.count; j += kLanes) {
    for (int64_t d = 0; d < batch.dim; d += kLanes) {
      Vec block[kLanes];
#pragma GCC unroll 16
      for (int i = 0; i < kLanes; ++i) {
        block[i] = Zero();
        if (j + i >= batch.count) continue;
        const float* x = VectorOf(batch, j + i, example) + d;
        // Each vector is a stream of memory of its own; a processor does not foresee so many.
        __builtin_prefetch(x + kExamplesAhead * batch.dim);
        block[i] = LoadUpTo(x, batch.dim - d);
      }
      Transpose(block);
#pragma GCC unroll 16
      for (int i = 0; i < kLanes; ++i) {
        if (d + i < batch.dim) Store(transposed + (d + i) * ld + j, block[i]);
      }
    }
  }
}

// Multiplies vectors [first, first + kRows) of an example with the vectors of kBlock * kLanes
// columns from `column` on, and stores the products with vectors of smaller numbers. `out` has all
// products of the example.
template <int kRows, int kBlock>
inline void ProductsOf(const VectorBatch& batch, int64_t example, int64_t first, int64_t column,
                       const float* transposed, int64_t ld, float* out) {
  const float* rows[kRows];
  Vec sums[kRows][kBlock];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    rows[r] = VectorOf(batch, first + r, example);
#pragma GCC unroll 2
    for (int v = 0; v < kBlock; ++v) sums[r][v] = Zero();
  }
  for (int64_t d = 0; d < batch.dim; ++d) {
    Vec columns[kBlock];
#pragma GCC unroll 2
    for (int v = 0; v < kBlock; ++v) columns[v] = Load(transposed + d * ld + column + v * kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const Vec factor = Set1(rows[r][d]);
#pragma GCC unroll 2
      for (int v = 0; v < kBlock; ++v) sums[r][v] = Fma(factor, columns[v], sums[r][v]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    const int64_t row = first + r;
    float* y = out + row * (row - 1) / 2 + column;
#pragma GCC unroll 2
    for (int v = 0; v < kBlock; ++v) {
      const int64_t left = row - column - v * kLanes;
      if (left > 0) StoreUpTo(y + v * kLanes, sums[r][v], left);
    }
  }
}

template <int kRows>
inline void ProductsOfRows(const VectorBatch& batch, int64_t example, int64_t first,
                           const float* transposed, int64_t ld, float* out) {
  const int64_t columns = first + kRows - 1;
  int64_t column = 0;
  for (; column + kLanes < columns; column += 2 * kLanes) {
    ProductsOf<kRows, 2>(batch, example, first, column, transposed, ld, out);
  }
  if (column < columns) {
    ProductsOf<kRows, 1>(batch, example, first, column, transposed, ld, out);
  }
}

void PairwiseDots(const VectorBatch& batch, float* scratch, float* y) {
  const int64_t n = batch.count, ld = PaddedCount(n);
  for (int64_t b = batch.begin; b < batch.end; ++b) {
    TransposeVectors(batch, b, ld, scratch);
    float* out = y + b * (n * (n - 1) / 2);
    int64_t i = 1;
    for (; i + kPairRows <= n; i += kPairRows) {
      ProductsOfRows<kPairRows>(batch, b, i, scratch, ld, out);
    }
    for (; i + 2 <= n; i += 2) ProductsOfRows<2>(batch, b, i, scratch, ld, out);
    if (i < n) ProductsOfRows<1>(batch, b, i, scratch, ld, out);
  }
}

// A range of columns of an example's vectors.
struct ColumnRange {
  int64_t example, begin, size;
};

// Computes the gradients of vectors [first, first + kRows): the sum of the other vectors, in their
// order, times the gradients of their products with this one. `dy` has the gradients of the
// example's products.
template <int kRows, int kBlock>
inline void GradientOfRows(const VectorBatch& batch, const ColumnRange& range, int64_t first,
                           const float* dy, void* const* gradients) {
  Vec sums[kRows][kBlock];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < kBlock; ++v) sums[r][v] = Zero();
  }
  const auto load = [&](int64_t j, Vec(&x)[kBlock]) {
    const float* from = VectorOf(batch, j, range.example) + range.begin;
#pragma GCC unroll 2
    for (int v = 0; v < kBlock; ++v) x[v] = LoadUpTo(from + v * kLanes, range.size - v * kLanes);
  };
  const auto add = [&](float factor, const Vec(&x)[kBlock], Vec(&sum)[kBlock]) {
    const Vec f = Set1(factor);
#pragma GCC unroll 2
    for (int v = 0; v < kBlock; ++v) sum[v] = Fma(f, x[v], sum[v]);
  };
  const auto row_of = [dy](int64_t i) { return dy + i * (i - 1) / 2; };
  const float* rows[kRows];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) rows[r] = row_of(first + r);
  Vec x[kBlock];
  for (int64_t j = 0; j < first; ++j) {
    load(j, x);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) add(rows[r][j], x, sums[r]);
  }
#pragma GCC unroll 8
  for (int k = 0; k < kRows; ++k) {
    load(first + k, x);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      if (r < k) add(rows[k][first + r], x, sums[r]);
      if (r > k) add(rows[r][first + k], x, sums[r]);
    }
  }
  for (int64_t j = first + kRows; j < batch.count; ++j) {
    load(j, x);
    const float* row = row_of(j) + first;
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) add(row[r], x, sums[r]);
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    if (gradients[first + r] == nullptr) continue;
    float* out =
        static_cast<float*>(gradients[first + r]) + range.example * batch.dim + range.begin;
#pragma GCC unroll 2
    for (int v = 0; v < kBlock; ++v) {
      StoreUpTo(out + v * kLanes, sums[r][v], range.size - v * kLanes);
    }
  }
}

template <int kBlock>
inline void GradientOfColumns(const VectorBatch& batch, const ColumnRange& range, const float* dy,
                              void* const* gradients) {
  int64_t i = 0;
  for (; i + kPairRows <= batch.count; i += kPairRows) {
    GradientOfRows<kPairRows, kBlock>(batch, range, i, dy, gradients);
  }
  for (; i + 2 <= batch.count; i += 2) {
    GradientOfRows<2, kBlock>(batch, range, i, dy, gradients);
  }
  if (i < batch.count) GradientOfRows<1, kBlock>(batch, range, i, dy, gradients);
}

void PairwiseDotsGradient(const VectorBatch& batch, const float* dy, void* const* gradients) {
  constexpr int64_t kWide = 2 * kLanes;
  const int64_t pairs = batch.count * (batch.count - 1) / 2;
  for (int64_t b = batch.begin; b < batch.end; ++b) {
    const float* gradient = dy + b * pairs;
    int64_t column = 0;
    for (; column + kWide <= batch.dim; column += kWide) {
      GradientOfColumns<2>(batch, {b, column, kWide}, gradient, gradients);
    }
    for (; column + kLanes <= batch.dim; column += kLanes) {
      GradientOfColumns<1>(batch, {b, column, kLanes}, gradient, gradients);
    }
    if (column < batch.dim) {
      GradientOfColumns<1>(batch, {b, column, batch.dim - column}, gradient, gradients);
    }
  }
}

// ---- factorization machines

inline Vec SumOfVectors(const VectorBatch& batch, int64_t example, int64_t column, Vec* squares) {
  Vec sum = Zero();
  *squares = Zero();
  for (int64_t i = 0; i < batch.count; ++i) {
    const Vec x = LoadUpTo(VectorOf(batch, i, example) + column, batch.dim - column);
    sum = sum + x;
    *squares = Fma(x, x, *squares);
  }
  return sum;
}

void Factorization(const VectorBatch& batch, float* y) {
  for (int64_t b = batch.begin; b < batch.end; ++b) {
    Vec total = Zero();
    for (int64_t column = 0; column < batch.dim; column += kLanes) {
      Vec squares;
      const Vec sum = SumOfVectors(batch, b, column, &squares);
      total = total + (sum * sum - squares);
    }
    y[b] = 0.5f * SumLanes(total);
  }
}

void FactorizationGradient(const VectorBatch& batch, const float* dy, void* const* gradients) {
  for (int64_t b = batch.begin; b < batch.end; ++b) {
    const Vec factor = Set1(dy[b]);
    for (int64_t column = 0; column < batch.dim; column += kLanes) {
      Vec squares;
      const Vec sum = SumOfVectors(batch, b, column, &squares);
      for (int64_t i = 0; i < batch.count; ++i) {
        if (gradients[i] == nullptr) continue;
        const Vec x = LoadUpTo(VectorOf(batch, i, b) + column, batch.dim - column);
        StoreUpTo(static_cast<float*>(gradients[i]) + b * batch.dim + column, factor * (sum - x),
                  batch.dim - column);
      }
    }
  }
}

}  // namespace

extern const FeatureKernels kFeatureKernels;
const FeatureKernels kFeatureKernels = {
    Pool,          AddPoolGradient,       PairScratch, PairwiseDots, PairwiseDotsGradient,
    Factorization, FactorizationGradient,
};

}  // namespace shoal::cpu::SHOAL_SIMD_NAMESPACE

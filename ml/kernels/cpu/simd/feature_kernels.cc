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

// The products of x with vectors [0, n) of an example, kBlock vectors of lanes at a time;
// `transposed` has element d of vector j at d * ld + j.
template <int kBlock>
inline void ProductsOf(const float* x, int64_t dim, const float* transposed, int64_t ld, int64_t n,
                       float* y) {
  Vec sums[kBlock];
  for (int v = 0; v < kBlock; ++v) sums[v] = Zero();
  for (int64_t d = 0; d < dim; ++d) {
    const Vec factor = Set1(x[d]);
    for (int v = 0; v < kBlock; ++v) {
      sums[v] = Fma(factor, Load(transposed + d * ld + v * kLanes), sums[v]);
    }
  }
  for (int v = 0; v < kBlock; ++v) {
    if (v * kLanes < n) StoreUpTo(y + v * kLanes, sums[v], n - v * kLanes);
  }
}

void PairwiseDots(const VectorBatch& batch, float* scratch, float* y) {
  const int64_t n = batch.count, dim = batch.dim, ld = PaddedCount(n);
  const int64_t pairs = n * (n - 1) / 2;
  for (int64_t i = 0; i < ld * dim; ++i) scratch[i] = 0.0f;
  for (int64_t b = batch.begin; b < batch.end; ++b) {
    for (int64_t j = 0; j < n; ++j) {
      const float* x = VectorOf(batch, j, b);
      for (int64_t d = 0; d < dim; ++d) scratch[d * ld + j] = x[d];
    }
    float* out = y + b * pairs;
    for (int64_t i = 1; i < n; out += i, ++i) {
      const float* x = VectorOf(batch, i, b);
      for (int64_t j = 0; j < i; j += 4 * kLanes) {
        switch ((i - j + kLanes - 1) / kLanes) {
          case 1:
            ProductsOf<1>(x, dim, scratch + j, ld, i - j, out + j);
            break;
          case 2:
            ProductsOf<2>(x, dim, scratch + j, ld, i - j, out + j);
            break;
          case 3:
            ProductsOf<3>(x, dim, scratch + j, ld, i - j, out + j);
            break;
          default:
            ProductsOf<4>(x, dim, scratch + j, ld, i - j, out + j);
        }
      }
    }
  }
}

// The sum of the other vectors times the gradients of their products with vector i, in a range of
// columns.
template <int kBlock>
inline void GradientOfPairs(const VectorBatch& batch, int64_t i, int64_t example, const float* dy,
                            int64_t column, int64_t columns, float* out) {
  Vec sums[kBlock];
  for (int v = 0; v < kBlock; ++v) sums[v] = Zero();
  const auto add = [&](int64_t j, float factor) {
    const Vec f = Set1(factor);
    const float* x = VectorOf(batch, j, example) + column;
    for (int v = 0; v < kBlock; ++v) {
      sums[v] = Fma(f, LoadUpTo(x + v * kLanes, columns - v * kLanes), sums[v]);
    }
  };
  const float* row = dy + i * (i - 1) / 2;
  for (int64_t j = 0; j < i; ++j) add(j, row[j]);
  for (int64_t j = i + 1; j < batch.count; ++j) add(j, dy[j * (j - 1) / 2 + i]);
  for (int v = 0; v < kBlock; ++v) {
    StoreUpTo(out + column + v * kLanes, sums[v], columns - v * kLanes);
  }
}

void PairwiseDotsGradient(const VectorBatch& batch, const float* dy, void* const* gradients) {
  const int64_t pairs = batch.count * (batch.count - 1) / 2;
  for (int64_t b = batch.begin; b < batch.end; ++b) {
    for (int64_t i = 0; i < batch.count; ++i) {
      if (gradients[i] == nullptr) continue;
      float* out = static_cast<float*>(gradients[i]) + b * batch.dim;
      int64_t column = 0;
      for (; column + 2 * kLanes <= batch.dim; column += 2 * kLanes) {
        GradientOfPairs<2>(batch, i, b, dy + b * pairs, column, 2 * kLanes, out);
      }
      for (; column < batch.dim; column += kLanes) {
        GradientOfPairs<1>(batch, i, b, dy + b * pairs, column, batch.dim - column, out);
      }
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

// Loops over bags of rows and over products of vectors. They are compiled once per instruction set,
// like those of simd_kernels.h.
#ifndef SHOAL_ML_KERNELS_CPU_SIMD_FEATURE_KERNELS_H_
#define SHOAL_ML_KERNELS_CPU_SIMD_FEATURE_KERNELS_H_

#include <cstdint>

#include "ml/kernels/cpu/simd/cpu_features.h"

namespace shoal::cpu {

// int32 or int64.
struct IndexArray {
  const void* data;
  bool is_int64;
};

// Bags of row numbers: bag b has positions offsets[b] to offsets[b + 1] - 1 of `indices`, as far as
// they exist. The factor of a row is its weight (1 without weights); if `is_mean`, divided by the
// sum of the bag's weights, or 0 if that is 0.
struct RowBags {
  IndexArray indices, offsets;
  const float* weights;  // may be null
  bool is_mean;
  int64_t num_indices, num_rows, dim;
};

// The parts of several vectors [batch, dim] that belong to examples [begin, end).
struct VectorBatch {
  const void* const* vectors;  // arrays of floats
  int64_t count, dim, begin, end;
};

struct FeatureKernels {
  // y[b] = the sum of the bag's rows times their factors, for bags [begin, end). A row that does
  // not exist is NaN.
  void (*pool)(const RowBags& bags, const float* rows, int64_t begin, int64_t end, float* y);
  // Adds factor * dy[b] to the gradients of the rows of all bags [0, num_bags), in their order, as
  // far as the rows are in [first_row, last_row).
  void (*add_pool_gradient)(const RowBags& bags, const float* dy, int64_t num_bags,
                            int64_t first_row, int64_t last_row, float* gradient);
  // y[b] = the products of all pairs, as PairwiseDots orders them. `scratch` has
  // pair_scratch(count, dim) floats.
  int64_t (*pair_scratch)(int64_t count, int64_t dim);
  void (*pairwise_dots)(const VectorBatch& batch, float* scratch, float* y);
  // gradients[i], which may be null, receives the gradient of vector i.
  void (*pairwise_dots_gradient)(const VectorBatch& batch, const float* dy, void* const* gradients);
  // y[b] = the sum of the products of all pairs.
  void (*factorization)(const VectorBatch& batch, float* y);
  void (*factorization_gradient)(const VectorBatch& batch, const float* dy, void* const* gradients);
};

// Returns the table of this instruction set, which is never destroyed.
const FeatureKernels& FeatureKernelsFor(CpuIsa isa);

namespace generic {
extern const FeatureKernels kFeatureKernels;
}
namespace avx2 {
extern const FeatureKernels kFeatureKernels;
}
namespace avx512 {
extern const FeatureKernels kFeatureKernels;
}

}  // namespace shoal::cpu

#endif  // SHOAL_ML_KERNELS_CPU_SIMD_FEATURE_KERNELS_H_

// Products of matrices that end in more than a product, compiled once per instruction set and
// chosen when a kernel is made. Row-major and dense; counts are in elements. The order of additions
// is fixed for given sizes, as in simd_kernels.h.
#ifndef SHOAL_ML_KERNELS_CPU_SIMD_PRODUCT_KERNELS_H_
#define SHOAL_ML_KERNELS_CPU_SIMD_PRODUCT_KERNELS_H_

#include <cstdint>

#include "ml/kernels/cpu/simd/cpu_features.h"

namespace shoal::cpu {

// A layer's output, with or without a ReLU.
struct BiasedProduct {
  const float* x;       // [rows, k]
  const float* packed;  // w[k, n], packed by pack_columns
  const float* bias;    // [n]
  float* y;             // [rows, n]: x * w + bias
  int64_t rows, k, n;   // n: whole panels
  bool relu;
};

// The gradient of a layer's input that is itself a ReLU's output.
struct InputGradient {
  const float* dz;      // [rows, n]
  const float* packed;  // w[k, n], packed by pack_rows
  const float* x;       // [rows, k]
  float* dx;            // [rows, k]: dz * w^T where x > 0, else 0
  float* column_sums;   // [k]: the sum of dx over rows; not null
  int64_t rows, k, n;   // made for n <= 256, whose rows stay in L1
};

struct ProductKernels {
  // Rows are computed so many at a time: multiples of it are fastest.
  int64_t rows_per_tile;
  // A panel of packed weights is so many columns (rows) of them; the last one of rows is filled
  // with zeros.
  int64_t columns_per_panel;
  // True if biased_product was measured to be faster than oneDNN's product and a pass of its own
  // for the bias.
  bool biased_product_is_faster;
  // Packs w[k, n]; `packed` is 64-byte aligned, and holds k times n, which is whole panels
  // (pack_rows: n times k rounded up to whole panels).
  void (*pack_columns)(const float* w, int64_t k, int64_t n, float* packed);
  void (*pack_rows)(const float* w, int64_t k, int64_t n, float* packed);
  void (*biased_product)(const BiasedProduct& product);
  void (*input_gradient)(const InputGradient& product);
};

// The table lives for the whole program.
const ProductKernels& ProductKernelsFor(CpuIsa isa);

namespace generic {
extern const ProductKernels kProductKernels;
}
namespace avx2 {
extern const ProductKernels kProductKernels;
}
namespace avx512 {
extern const ProductKernels kProductKernels;
}

}  // namespace shoal::cpu

#endif  // SHOAL_ML_KERNELS_CPU_SIMD_PRODUCT_KERNELS_H_

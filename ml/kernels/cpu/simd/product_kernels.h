// Matrix products that are fused with the operation behind them. They are compiled once per
// instruction set; a kernel chooses one when it is made. Matrices are row-major and dense; counts
// are in elements. The order of additions depends only on the sizes, as in simd_kernels.h.
#ifndef SHOAL_ML_KERNELS_CPU_SIMD_PRODUCT_KERNELS_H_
#define SHOAL_ML_KERNELS_CPU_SIMD_PRODUCT_KERNELS_H_

#include <cstdint>

#include "ml/kernels/cpu/simd/cpu_features.h"

namespace shoal::cpu {

// The output of a dense layer, with or without a ReLU.
struct BiasedProduct {
  const float* x;       // [rows, k]
  const float* packed;  // w[k, n], packed by pack_columns
  const float* bias;    // [n]
  float* y;             // [rows, n]: x * w + bias
  int64_t rows, k, n;   // n: a multiple of columns_per_panel
  bool relu;
};

// The gradient of the input of a dense layer, if this input is the output of a ReLU. The gradient
// is that of the ReLU's input.
struct InputGradient {
  const float* dz;      // [rows, n]
  const float* packed;  // w[k, n], packed by pack_rows
  const float* x;       // [rows, k]
  float* dx;            // [rows, k]: dz * w^T where x > 0, else 0
  float* column_sums;   // [k]: the sum of dx over rows; not null
  int64_t rows, k, n;   // fast for n <= 256, when a row stays in the L1 cache
};

struct ProductKernels {
  // The number of rows that are computed together; multiples of it are fastest.
  int64_t rows_per_tile;
  // The number of columns (pack_columns) or rows (pack_rows) of w in a panel. pack_rows fills the
  // last panel with zeros.
  int64_t columns_per_panel;
  // True if measurements showed that biased_product is faster than oneDNN's product followed by a
  // separate loop for the bias.
  bool biased_product_is_faster;
  // Pack w[k, n] into panels. `packed` is 64-byte aligned. It has k * n floats for pack_columns,
  // where n is a multiple of columns_per_panel, and n * (k rounded up to whole panels) for
  // pack_rows.
  void (*pack_columns)(const float* w, int64_t k, int64_t n, float* packed);
  void (*pack_rows)(const float* w, int64_t k, int64_t n, float* packed);
  void (*biased_product)(const BiasedProduct& product);
  void (*input_gradient)(const InputGradient& product);
};

// Returns the table of this instruction set, which is never destroyed.
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

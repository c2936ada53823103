// Loops that compare, select, convert and drop elements. They are compiled once per instruction
// set, like those of simd_kernels.h. Booleans are bytes of 0 or 1.
#ifndef SHOAL_ML_KERNELS_CPU_SIMD_SELECTION_KERNELS_H_
#define SHOAL_ML_KERNELS_CPU_SIMD_SELECTION_KERNELS_H_

#include <cstddef>
#include <cstdint>

#include "ml/kernels/cpu/simd/cpu_features.h"
#include "ml/kernels/cpu/simd/simd_kernels.h"
#include "ml/tensor/dtype.h"

namespace shoal::cpu {

enum class Comparison { kEqual, kLess, kGreater };

// An array of elements of any type, or one element that is used for all indices.
struct AnyOperand {
  const void* data;
  bool is_scalar;
};

// The number of elements in a block of dropout, whose random words come from 16 counters.
inline constexpr int64_t kDropoutBlock = 64;

struct SelectionKernels {
  // c[i] = a[i] op b[i].
  void (*compare)(Comparison op, DataType dtype, AnyOperand a, AnyOperand b, uint8_t* c, int64_t n);
  // z[i] = condition[i] ? x[i] : y[i]; element_bytes is 1, 4 or 8.
  void (*select)(AnyOperand condition, AnyOperand x, AnyOperand y, void* z, size_t element_bytes,
                 int64_t n);
  // y[i] = x[i] converted to another type: rounded towards zero for integers, x != 0 for bool. The
  // result is unspecified if the type cannot represent the value.
  void (*convert)(DataType from, DataType to, const void* x, void* y, int64_t n);
  // y[i] = scale * x[i] if the element is kept, else 0. Element i is in block b = first_block + i /
  // 64 of the example. With j = i % 64, it is kept if word j / 16 of Philox4x32-10(key; counter
  // high = example, low = 16 b + j % 16) is at least `threshold`.
  void (*dropout)(uint64_t key, uint64_t example, uint64_t first_block, uint32_t threshold,
                  float scale, const float* x, float* y, int64_t n);
  // Returns the largest (or smallest) of n > 0 elements; NaN if any element is NaN.
  float (*extreme)(bool largest, const float* x, int64_t n);
};

// Returns the table of this instruction set, which is never destroyed.
const SelectionKernels& SelectionKernelsFor(CpuIsa isa);

namespace generic {
extern const SelectionKernels kSelectionKernels;
}
namespace avx2 {
extern const SelectionKernels kSelectionKernels;
}
namespace avx512 {
extern const SelectionKernels kSelectionKernels;
}

}  // namespace shoal::cpu

#endif  // SHOAL_ML_KERNELS_CPU_SIMD_SELECTION_KERNELS_H_

// Comparing, choosing, converting and dropping elements, compiled once per instruction set as
// simd_kernels.h. Booleans are bytes of 0 or 1.
#ifndef SHOAL_ML_KERNELS_CPU_SIMD_SELECTION_KERNELS_H_
#define SHOAL_ML_KERNELS_CPU_SIMD_SELECTION_KERNELS_H_

#include <cstddef>
#include <cstdint>

#include "ml/kernels/cpu/simd/cpu_features.h"
#include "ml/kernels/cpu/simd/simd_kernels.h"
#include "ml/tensor/dtype.h"

namespace shoal::cpu {

enum class Comparison { kEqual, kLess, kGreater };

// An array of elements of any type, or one element that stands for all.
struct AnyOperand {
  const void* data;
  bool is_scalar;
};

// Elements that a dropout draws for at a time: words of 16 counters.
inline constexpr int64_t kDropoutBlock = 64;

struct SelectionKernels {
  // c[i] = a[i] op b[i].
  void (*compare)(Comparison op, DataType dtype, AnyOperand a, AnyOperand b, uint8_t* c, int64_t n);
  // z[i] = condition[i] ? x[i] : y[i], of elements of so many bytes: 1, 4 or 8.
  void (*select)(AnyOperand condition, AnyOperand x, AnyOperand y, void* z, size_t element_bytes,
                 int64_t n);
  // y[i] = x[i] as another type: towards zero to a whole number, != 0 to bool. What the type cannot
  // hold becomes some number.
  void (*convert)(DataType from, DataType to, const void* x, void* y, int64_t n);
  // y[i] = kept ? scale * x[i] : 0. Element i belongs to block b = first_block + i / 64 of an
  // example; with j = i % 64, it is kept where word j / 16 of Philox4x32-10(key; counter high =
  // example, low = 16 b + j % 16) is at least `threshold`.
  void (*dropout)(uint64_t key, uint64_t example, uint64_t first_block, uint32_t threshold,
                  float scale, const float* x, float* y, int64_t n);
  // The largest (or smallest) element of n > 0; NaN if there is one.
  float (*extreme)(bool largest, const float* x, int64_t n);
};

// The table lives for the whole program.
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

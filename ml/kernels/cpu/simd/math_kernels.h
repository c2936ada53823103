// Elementwise functions with parameters, and powers. They are compiled once per instruction set,
// like those of simd_kernels.h.
#ifndef SHOAL_ML_KERNELS_CPU_SIMD_MATH_KERNELS_H_
#define SHOAL_ML_KERNELS_CPU_SIMD_MATH_KERNELS_H_

#include <cstdint>

#include "ml/kernels/cpu/simd/cpu_features.h"
#include "ml/kernels/cpu/simd/simd_kernels.h"

namespace shoal::cpu {

// The functions, for parameters p and q:
//   kClip       min(max(x, p), q)
//   kLeakyRelu  x > 0 ? x : p * x
//   kElu        x > 0 ? x : p * (exp(x) - 1)
//   kErf        the error function, within 2e-7
//   kGelu       x * (1 + erf(x / sqrt 2)) / 2
//   kGeluTanh   the same with tanh(sqrt(2 / pi) * (x + 0.044715 x^3)) in the place of erf
//   kSilu       x / (1 + exp(-x))
//   kSoftplus   log(1 + exp(x))
enum class MathOp { kClip, kLeakyRelu, kElu, kErf, kGelu, kGeluTanh, kSilu, kSoftplus };

struct MathKernels {
  // y[i] = op(x[i]); x may be y. NaN stays NaN.
  void (*unary)(MathOp op, const float* x, float p, float q, float* y, int64_t n);
  // dx[i] = dy[i] * the slope of the function. For kClip, kLeakyRelu and kElu, v is the output y,
  // and p >= 0 for the last two; kClip has slope 0 at its limits. For kGelu, kGeluTanh and kSilu, v
  // is the input x. For kErf and kSoftplus the function does nothing: their gradients are composed
  // of other ops.
  void (*gradient)(MathOp op, const float* v, const float* dy, float p, float q, float* dx,
                   int64_t n);
  // c[i] = a[i] to the power b[i], within 1 ulp; NaN if a[i] is negative and b[i] is not an
  // integer.
  void (*power)(Operand a, Operand b, float* c, int64_t n);
};

// Returns the table of this instruction set, which is never destroyed.
const MathKernels& MathKernelsFor(CpuIsa isa);

namespace generic {
extern const MathKernels kMathKernels;
}
namespace avx2 {
extern const MathKernels kMathKernels;
}
namespace avx512 {
extern const MathKernels kMathKernels;
}

}  // namespace shoal::cpu

#endif  // SHOAL_ML_KERNELS_CPU_SIMD_MATH_KERNELS_H_

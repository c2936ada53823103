// Functions of elements with parameters, and powers, compiled once per instruction set as
// simd_kernels.h.
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
  // dx[i] = dy[i] * the slope: of kClip, kLeakyRelu and kElu at the output v = y (p >= 0), where
  // the limits of kClip have slope 0; of kGelu, kGeluTanh and kSilu at the input v = x.
  void (*gradient)(MathOp op, const float* v, const float* dy, float p, float q, float* dx,
                   int64_t n);
  // c[i] = a[i] to the power b[i], within 1 ulp; of a negative number NaN, unless b is whole.
  void (*power)(Operand a, Operand b, float* c, int64_t n);
};

// The table lives for the whole program.
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

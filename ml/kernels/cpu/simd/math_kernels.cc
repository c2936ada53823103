#include "ml/kernels/cpu/simd/math_kernels.h"

namespace shoal::cpu {

const MathKernels& MathKernelsFor(CpuIsa isa) {
#if defined(__x86_64__)
  switch (isa) {
    case CpuIsa::kAvx512:
      return avx512::kMathKernels;
    case CpuIsa::kAvx2:
      return avx2::kMathKernels;
    case CpuIsa::kGeneric:
      break;
  }
#else
  (void)isa;
#endif
  return generic::kMathKernels;
}

}  // namespace shoal::cpu

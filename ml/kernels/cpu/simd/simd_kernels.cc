#include "ml/kernels/cpu/simd/simd_kernels.h"

namespace shoal::cpu {

const SimdKernels& SimdKernelsFor(CpuIsa isa) {
#if defined(__x86_64__)
  switch (isa) {
    case CpuIsa::kAvx512:
      return avx512::kSimdKernels;
    case CpuIsa::kAvx2:
      return avx2::kSimdKernels;
    case CpuIsa::kGeneric:
      break;
  }
#else
  (void)isa;
#endif
  return generic::kSimdKernels;
}

}  // namespace shoal::cpu

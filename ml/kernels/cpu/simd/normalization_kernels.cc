#include "ml/kernels/cpu/simd/normalization_kernels.h"

namespace shoal::cpu {

const NormalizationKernels& NormalizationKernelsFor(CpuIsa isa) {
#if defined(__x86_64__)
  switch (isa) {
    case CpuIsa::kAvx512:
      return avx512::kNormalizationKernels;
    case CpuIsa::kAvx2:
      return avx2::kNormalizationKernels;
    case CpuIsa::kGeneric:
      break;
  }
#else
  (void)isa;
#endif
  return generic::kNormalizationKernels;
}

}  // namespace shoal::cpu

#include "ml/kernels/cpu/simd/product_kernels.h"

namespace shoal::cpu {

const ProductKernels& ProductKernelsFor(CpuIsa isa) {
#if defined(__x86_64__)
  switch (isa) {
    case CpuIsa::kAvx512:
      return avx512::kProductKernels;
    case CpuIsa::kAvx2:
      return avx2::kProductKernels;
    case CpuIsa::kGeneric:
      break;
  }
#else
  (void)isa;
#endif
  return generic::kProductKernels;
}

}  // namespace shoal::cpu

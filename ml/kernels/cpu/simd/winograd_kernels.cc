#include "ml/kernels/cpu/simd/winograd_kernels.h"

namespace shoal::cpu {

const WinogradKernels& WinogradKernelsFor(CpuIsa isa) {
#if defined(__x86_64__)
  switch (isa) {
    case CpuIsa::kAvx512:
      return avx512::kWinogradKernels;
    case CpuIsa::kAvx2:
      return avx2::kWinogradKernels;
    case CpuIsa::kGeneric:
      break;
  }
#else
  (void)isa;
#endif
  return generic::kWinogradKernels;
}

}  // namespace shoal::cpu

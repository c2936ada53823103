#include "ml/kernels/cpu/simd/selection_kernels.h"

namespace shoal::cpu {

const SelectionKernels& SelectionKernelsFor(CpuIsa isa) {
#if defined(__x86_64__)
  switch (isa) {
    case CpuIsa::kAvx512:
      return avx512::kSelectionKernels;
    case CpuIsa::kAvx2:
      return avx2::kSelectionKernels;
    case CpuIsa::kGeneric:
      break;
  }
#else
  (void)isa;
#endif
  return generic::kSelectionKernels;
}

}  // namespace shoal::cpu

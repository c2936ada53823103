#include "ml/kernels/cpu/simd/pool_kernels.h"

namespace shoal::cpu {

const PoolKernels& PoolKernelsFor(CpuIsa isa) {
#if defined(__x86_64__)
  switch (isa) {
    case CpuIsa::kAvx512:
      return avx512::kPoolKernels;
    case CpuIsa::kAvx2:
      return avx2::kPoolKernels;
    case CpuIsa::kGeneric:
      break;
  }
#else
  (void)isa;
#endif
  return generic::kPoolKernels;
}

const PoolKernels& PlainPoolKernels() { return plain::kPoolKernels; }

}  // namespace shoal::cpu

#define SHOAL_SIMD_NAMESPACE generic
#include "ml/kernels/cpu/simd/pool_kernels.inc"

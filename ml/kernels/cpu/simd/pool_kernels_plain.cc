#define SHOAL_SIMD_NAMESPACE plain
#define SHOAL_PLAIN_PLANES
#include "ml/kernels/cpu/simd/pool_kernels.inc"

#define SHOAL_SIMD_NAMESPACE avx2
#include "ml/kernels/cpu/simd/selection_kernels.inc"

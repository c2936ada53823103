#define SHOAL_SIMD_NAMESPACE avx512
#include "ml/kernels/cpu/simd/selection_kernels.inc"

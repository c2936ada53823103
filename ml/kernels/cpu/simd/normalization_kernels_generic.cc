#define SHOAL_SIMD_NAMESPACE generic
#include "ml/kernels/cpu/simd/normalization_kernels.inc"

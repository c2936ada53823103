#define SHOAL_SIMD_NAMESPACE generic
#include "ml/kernels/cpu/simd/winograd_kernels.inc"

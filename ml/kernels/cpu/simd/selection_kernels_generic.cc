#define SHOAL_SIMD_NAMESPACE generic
#include "ml/kernels/cpu/simd/selection_kernels.inc"

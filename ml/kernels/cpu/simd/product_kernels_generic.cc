#define SHOAL_SIMD_NAMESPACE generic
#include "ml/kernels/cpu/simd/product_kernels.inc"

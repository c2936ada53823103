#define SHOAL_SIMD_NAMESPACE avx2
#include "ml/kernels/cpu/simd/product_kernels.inc"

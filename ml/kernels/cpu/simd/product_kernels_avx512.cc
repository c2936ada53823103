#define SHOAL_SIMD_NAMESPACE avx512
#include "ml/kernels/cpu/simd/product_kernels.inc"

// Products of row-major float32 matrices, computed by oneDNN's sgemm.
#ifndef SHOAL_ML_KERNELS_CPU_GEMM_H_
#define SHOAL_ML_KERNELS_CPU_GEMM_H_

#include <cstdint>

#include "ml/kernels/cpu/simd/simd_kernels.h"

namespace shoal::cpu {

struct Matrix {
  const float* data;
  int64_t ld;                  // elements from one stored row to the next
  bool is_transposed = false;  // the operand is the transpose of the stored matrix
};

// Computes c[m, n] = a[m, k] * b[k, n] + (accumulate ? c : 0). Uses the calling thread's OpenMP
// team, or only the calling thread inside ParallelFor.
void Gemm(int64_t m, int64_t n, int64_t k, Matrix a, Matrix b, float* c, int64_t ldc,
          bool accumulate = false);

// Computes the same product without accumulation; b and c must be dense. The threads share the rows
// of c. If a is dense, products with one row, one column or k = 1 use simple loops of `simd`.
void ParallelGemm(const SimdKernels& simd, int threads, int64_t m, int64_t n, int64_t k, Matrix a,
                  Matrix b, float* c);

// Returns how many rows of c to compute in one chunk: as many rows of `widest` floats as fit into
// half a mebibyte of L2, but between 128 and 256, because every chunk packs b again, and few enough
// that no thread is idle. The result is a multiple of `tile`, unless this gives fewer chunks than
// threads.
int64_t RowsPerChunk(int64_t rows, int64_t widest, int threads, int64_t tile = 1);

}  // namespace shoal::cpu

#endif  // SHOAL_ML_KERNELS_CPU_GEMM_H_

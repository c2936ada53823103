// Matrix products in float32, row-major, through oneDNN's sgemm.
#ifndef SHOAL_ML_KERNELS_CPU_GEMM_H_
#define SHOAL_ML_KERNELS_CPU_GEMM_H_

#include <cstdint>

#include "ml/kernels/cpu/simd/simd_kernels.h"

namespace shoal::cpu {

struct Matrix {
  const float* data;
  int64_t ld;                  // elements from one stored row to the next
  bool is_transposed = false;  // the operand is the transpose of what is stored
};

// c[m, n] = a[m, k] * b[k, n] + (accumulate ? c : 0), on the calling thread if it is inside
// ParallelFor, else on its OpenMP team.
void Gemm(int64_t m, int64_t n, int64_t k, Matrix a, Matrix b, float* c, int64_t ldc,
          bool accumulate = false);

// The same product without accumulation, b and c dense, shared by `threads` by rows of c; of a
// dense a, products with one row, one column or k = 1 go to one-pass loops of our own.
void ParallelGemm(const SimdKernels& simd, int threads, int64_t m, int64_t n, int64_t k, Matrix a,
                  Matrix b, float* c);

// Rows of c that are worth computing at a time: as many as fit in half a mebibyte of L2 at `widest`
// columns, but 128 to 256 (every chunk packs b anew), and no thread idle. Whole tiles of so many
// rows, unless these leave fewer chunks than threads.
int64_t RowsPerChunk(int64_t rows, int64_t widest, int threads, int64_t tile = 1);

}  // namespace shoal::cpu

#endif  // SHOAL_ML_KERNELS_CPU_GEMM_H_

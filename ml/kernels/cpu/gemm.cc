#include "ml/kernels/cpu/gemm.h"

#include <dnnl.h>

#include <algorithm>

#include "ml/kernels/cpu/parallel.h"

namespace shoal::cpu {
namespace {

// Computes products in which m, n or k is 1 with simple loops, because memory limits their speed.
// Returns false for others. a and b must be dense.
bool TryVectorProduct(const SimdKernels& simd, int64_t m, int64_t n, int64_t k, Matrix a, Matrix b,
                      float* c) {
  if (n == 1) {
    if (a.is_transposed) {
      simd.vector_matrix(a.data, b.data, c, k, m);
    } else {
      simd.matrix_vector(a.data, b.data, c, m, k);
    }
    return true;
  }
  if (m == 1) {
    if (b.is_transposed) {
      simd.matrix_vector(b.data, a.data, c, n, k);
    } else {
      simd.vector_matrix(b.data, a.data, c, k, n);
    }
    return true;
  }
  if (k == 1) {
    simd.outer(a.data, b.data, c, m, n);
    return true;
  }
  return false;
}

// Computes c = a * b for a matrix a that is stored transposed and has a large k: all rows for a few
// hundred values of k at a time, so that the data that oneDNN packs stay in the cache.
void DeepGemm(int64_t m, int64_t n, int64_t k, Matrix a, Matrix b, float* c) {
  constexpr int64_t kMostDepth = 700;
  const int64_t chunks = (k + kMostDepth - 1) / kMostDepth;
  const int64_t depth = (k + chunks - 1) / chunks;
  for (int64_t i = 0; i < k; i += depth) {
    Gemm(m, n, std::min(depth, k - i), {a.data + i * a.ld, a.ld, true}, {b.data + i * b.ld, b.ld},
         c, n, i > 0);
  }
}

}  // namespace

void Gemm(int64_t m, int64_t n, int64_t k, Matrix a, Matrix b, float* c, int64_t ldc,
          bool accumulate) {
  dnnl_sgemm(a.is_transposed ? 'T' : 'N', b.is_transposed ? 'T' : 'N', m, n, k, 1.0f, a.data, a.ld,
             b.data, b.ld, accumulate ? 1.0f : 0.0f, c, ldc);
}

void ParallelGemm(const SimdKernels& simd, int threads, int64_t m, int64_t n, int64_t k, Matrix a,
                  Matrix b, float* c) {
  if (m == 0 || n == 0) return;
  if (k == 0) {
    std::fill_n(c, m * n, 0.0f);
    return;
  }
  const bool is_dense = a.ld == (a.is_transposed ? m : k);
  if (is_dense && TryVectorProduct(simd, m, n, k, a, b, c)) return;
  OmpThreadsScope scope(threads);
  // A column of chunks when a is read by rows; a transposed a is read whole by every chunk, so that
  // there are as many chunks as threads.
  const int64_t chunk = a.is_transposed ? (m + threads - 1) / threads : RowsPerChunk(m, n, threads);
  const int64_t chunks = (m + chunk - 1) / chunk;
  ParallelFor(threads, chunks, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = i * chunk;
      const int64_t rows = std::min(chunk, m - row);
      if (a.is_transposed && !b.is_transposed) {
        DeepGemm(rows, n, k, {a.data + row, a.ld, true}, b, c + row * n);
        continue;
      }
      const Matrix part{a.data + (a.is_transposed ? row : row * a.ld), a.ld, a.is_transposed};
      Gemm(rows, n, k, part, b, c + row * n, n);
    }
  });
}

int64_t RowsPerChunk(int64_t rows, int64_t widest, int threads, int64_t tile) {
  const int64_t fitting = (int64_t{1} << 17) / std::max<int64_t>(widest, 1);
  const int64_t most = std::clamp<int64_t>(fitting, 128, 256);
  int64_t chunks = (rows + most - 1) / most;
  if (threads > 1) chunks = (chunks + threads - 1) / threads * threads;
  chunks = std::max<int64_t>(chunks, 1);
  const int64_t chunk = std::max<int64_t>((rows + chunks - 1) / chunks, 1);
  const int64_t whole = (chunk + tile - 1) / tile * tile;
  return (rows + whole - 1) / whole < threads ? chunk : whole;
}

}  // namespace shoal::cpu

// Runs loops on a GPU; see loops.h. Only .cu files include it.
#ifndef SHOAL_ML_KERNELS_CUDA_DEVICE_LOOPS_CUH_
#define SHOAL_ML_KERNELS_CUDA_DEVICE_LOOPS_CUH_

#include <cuda_runtime.h>

#include <cstring>

#include "ml/kernels/cuda/cuda_queue.h"
#include "ml/kernels/cuda/loops.h"

#define SHOAL_LOOPS on_device
#define LOOP_FUNCTION __device__ __forceinline__

namespace shoal::cuda::SHOAL_LOOPS {

template <typename F>
__global__ void ForEachKernel(int count, F f) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) f(i);
}

// Calls f(i) for all i in [0, count).
template <typename F>
void ForEach(void* stream, int count, F f) {
  constexpr int kThreads = 256;
  if (count == 0) return;
  auto& queue = *static_cast<CudaQueue*>(stream);
  ForEachKernel<<<(count - 1) / kThreads + 1, kThreads, 0, queue.stream>>>(count, f);
  queue.Note(cudaGetLastError());
}

// Block (row, part) sums one part of a row: each thread adds every blockDim.x-th term, then the
// block adds the sums of its threads in a tree. The sums go to `partial` or, if a row has only one
// part, to f.Store.
template <typename F>
__global__ void SumKernel(int length, int terms_per_part, typename F::Sum* partial, F f) {
  using Sum = typename F::Sum;
  __shared__ Sum sums[256];
  const int row = blockIdx.x, part = blockIdx.y, thread = threadIdx.x;
  const int end = min(length, (part + 1) * terms_per_part);
  Sum sum = F::Zero();
  for (int k = part * terms_per_part + thread; k < end; k += blockDim.x) {
    F::Add(&sum, f.Load(row, k));
  }
  sums[thread] = sum;
  for (int half = blockDim.x / 2; half > 0; half /= 2) {
    __syncthreads();
    if (thread < half) F::Add(&sums[thread], sums[thread + half]);
  }
  if (thread > 0) return;
  if (partial == nullptr) {
    f.Store(row, sums[0]);
  } else {
    partial[row * gridDim.y + part] = sums[0];
  }
}

template <typename F>
__global__ void SumPartsKernel(int rows, int parts, const typename F::Sum* partial, F f) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  typename F::Sum sum = partial[row * parts];
  for (int part = 1; part < parts; ++part) F::Add(&sum, partial[row * parts + part]);
  f.Store(row, sum);
}

// Calls f.Store(row, sum of f.Load(row, k) for k in [0, length)) for each row. The order of
// additions depends only on the sizes. `workspace` has SumWorkspace<F>(rows, length) bytes.
template <typename F>
void SumRows(void* stream, int rows, int length, void* workspace, F f) {
  if (rows == 0) return;
  auto& queue = *static_cast<CudaQueue*>(stream);
  const int parts = PartsOfReduction(rows, length);
  const int terms_per_part = (length + parts - 1) / parts;
  auto* partial = static_cast<typename F::Sum*>(parts > 1 ? workspace : nullptr);
  SumKernel<<<dim3(rows, parts), ThreadsOfReduction(terms_per_part), 0, queue.stream>>>(
      length, terms_per_part, partial, f);
  queue.Note(cudaGetLastError());
  if (parts == 1) return;
  constexpr int kThreads = 64;
  SumPartsKernel<<<(rows - 1) / kThreads + 1, kThreads, 0, queue.stream>>>(rows, parts, partial, f);
  queue.Note(cudaGetLastError());
}

}  // namespace shoal::cuda::SHOAL_LOOPS

#endif  // SHOAL_ML_KERNELS_CUDA_DEVICE_LOOPS_CUH_

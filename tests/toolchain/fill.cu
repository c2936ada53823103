#include "tests/toolchain/fill.h"

namespace shoal {
namespace {

__global__ void FillKernel(float* data, int size, float value) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < size) data[i] = value;
}

}  // namespace

cudaError_t Fill(float* data, int size, float value, cudaStream_t stream) {
  constexpr int kThreads = 256;
  FillKernel<<<(size + kThreads - 1) / kThreads, kThreads, 0, stream>>>(data, size, value);
  return cudaGetLastError();
}

}  // namespace shoal

// The object that KernelContext::stream points at on a GPU.
#ifndef SHOAL_ML_KERNELS_CUDA_CUDA_QUEUE_H_
#define SHOAL_ML_KERNELS_CUDA_CUDA_QUEUE_H_

#include <cuda_runtime_api.h>

#include <atomic>

namespace shoal::cuda {

struct CudaQueue {
  cudaStream_t stream = nullptr;
  // The first error of work that was enqueued here; CudaDevice::status() returns it.
  std::atomic<cudaError_t> error{cudaSuccess};

  void Note(cudaError_t result) {
    cudaError_t none = cudaSuccess;
    if (result != cudaSuccess) error.compare_exchange_strong(none, result);
  }
};

}  // namespace shoal::cuda

#endif  // SHOAL_ML_KERNELS_CUDA_CUDA_QUEUE_H_

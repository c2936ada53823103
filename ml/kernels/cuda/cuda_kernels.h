// The kernels of NVIDIA GPUs: products by cuBLASLt, convolutions by cuDNN, all else by loops of our
// own. float32 without TF32, NCHW; no sum depends on the order in which threads come, so that the
// same inputs give the same bytes on the same kind of GPU and libraries.
#ifndef SHOAL_ML_KERNELS_CUDA_CUDA_KERNELS_H_
#define SHOAL_ML_KERNELS_CUDA_CUDA_KERNELS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "ml/device/kernel.h"

namespace shoal {

// Devices "/gpu:0", ... in the driver's order. Unavailable without a usable GPU, and in a build
// without --config=cuda.
absl::StatusOr<KernelBackend> CudaKernelBackend();

// Names of all ops with a CUDA kernel, sorted; none in a build without.
std::vector<std::string> CudaKernelOps();

}  // namespace shoal

#endif  // SHOAL_ML_KERNELS_CUDA_CUDA_KERNELS_H_

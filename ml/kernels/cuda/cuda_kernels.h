// The kernels of NVIDIA GPUs. Matrix products use cuBLASLt, convolutions cuDNN, and all other ops
// the loops of this folder. They compute in float32 without TF32, on NCHW images. No sum depends on
// the timing of threads, so the same inputs give the same bytes on the same model of GPU with the
// same libraries.
#ifndef SHOAL_ML_KERNELS_CUDA_CUDA_KERNELS_H_
#define SHOAL_ML_KERNELS_CUDA_CUDA_KERNELS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "ml/device/kernel.h"

namespace shoal {

// Returns the backend with the devices "/gpu:0", ... in the driver's order. Returns Unavailable if
// there is no usable GPU, or in a build without --config=cuda.
absl::StatusOr<KernelBackend> CudaKernelBackend();

// Returns the sorted names of all ops that have a CUDA kernel; none in a build without
// --config=cuda.
std::vector<std::string> CudaKernelOps();

}  // namespace shoal

#endif  // SHOAL_ML_KERNELS_CUDA_CUDA_KERNELS_H_

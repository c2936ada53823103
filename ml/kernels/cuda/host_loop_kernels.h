// Runs the loops of the GPU backend on the host, so that they can be tested without a GPU. Only for
// tests.
#ifndef SHOAL_ML_KERNELS_CUDA_HOST_LOOP_KERNELS_H_
#define SHOAL_ML_KERNELS_CUDA_HOST_LOOP_KERNELS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "ml/device/kernel.h"

namespace shoal::cuda {

// Returns NotFound for ops that are not loops (products and convolutions).
absl::StatusOr<std::unique_ptr<Kernel>> CreateHostLoop(const KernelRequest& request);
std::vector<std::string> HostLoopOps();

}  // namespace shoal::cuda

#endif  // SHOAL_ML_KERNELS_CUDA_HOST_LOOP_KERNELS_H_

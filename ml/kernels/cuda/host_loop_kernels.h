// The loops of the GPU backend run on the host: what can be tested of it without a GPU. Testonly.
#ifndef SHOAL_ML_KERNELS_CUDA_HOST_LOOP_KERNELS_H_
#define SHOAL_ML_KERNELS_CUDA_HOST_LOOP_KERNELS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "ml/device/kernel.h"

namespace shoal::cuda {

// NotFound for ops that are not loops.
absl::StatusOr<std::unique_ptr<Kernel>> CreateHostLoop(const KernelRequest& request);
std::vector<std::string> HostLoopOps();

}  // namespace shoal::cuda

#endif  // SHOAL_ML_KERNELS_CUDA_HOST_LOOP_KERNELS_H_

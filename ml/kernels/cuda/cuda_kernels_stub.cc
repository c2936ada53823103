#include "absl/status/status.h"

#include "ml/kernels/cuda/cuda_kernels.h"

namespace shoal {

absl::StatusOr<KernelBackend> CudaKernelBackend() {
  return absl::UnavailableError("built without --config=cuda");
}

std::vector<std::string> CudaKernelOps() { return {}; }

}  // namespace shoal

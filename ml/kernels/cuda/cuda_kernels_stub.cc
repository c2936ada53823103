#include "absl/status/status.h"

#include "ml/kernels/cuda/cuda_kernels.h"

namespace shoal {

absl::StatusOr<KernelBackend> CudaKernelBackend() {
  return absl::UnavailableError("this program was built without CUDA; build it with --config=cuda");
}

std::vector<std::string> CudaKernelOps() { return {}; }

}  // namespace shoal

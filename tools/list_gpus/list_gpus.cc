// Prints a line for each GPU that this build and machine can use, "/gpu:0 NVIDIA H100 sm_90, ...".
// Exit code 3, and one line that says why, if there is none.
#include <cstdio>
#include <memory>

#include "absl/status/statusor.h"

#include "ml/kernels/cuda/cuda_kernels.h"

int main() {
  const absl::StatusOr<shoal::KernelBackend> backend = shoal::CudaKernelBackend();
  if (!backend.ok()) {
    std::fprintf(stderr, "no GPU: %s\n", std::string(backend.status().message()).c_str());
    return 3;
  }
  for (int i = 0; i < backend->num_devices; ++i) {
    std::printf("/gpu:%d %s\n", i, i == 0 ? backend->libraries.c_str() : "");
  }
  return 0;
}

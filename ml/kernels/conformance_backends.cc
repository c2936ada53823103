#include "ml/kernels/conformance_backends.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "base/log.h"
#include "ml/kernels/cpu/cpu_kernels.h"
#include "ml/kernels/cpu/simd/cpu_features.h"
#include "ml/kernels/cuda/cuda_kernels.h"
#include "ml/kernels/cuda/host_loop_kernels.h"

namespace shoal {

std::vector<ConformanceBackend> ConformanceBackends() {
  std::vector<ConformanceBackend> backends;
  for (cpu::CpuIsa isa : {cpu::CpuIsa::kGeneric, cpu::CpuIsa::kAvx2, cpu::CpuIsa::kAvx512}) {
    if (isa > cpu::DetectCpuIsa()) continue;
    backends.push_back(
        {absl::StrCat("cpu", static_cast<int>(isa)),
         [isa](const KernelRequest& request) { return CreateCpuKernel(request, isa); },
         CpuKernelOps(), CpuKernelSupportsLayout, nullptr});
  }
  backends.push_back(
      {"gpu_loops_on_host", cuda::CreateHostLoop, cuda::HostLoopOps(), nullptr, nullptr});
  absl::StatusOr<KernelBackend> gpu = CudaKernelBackend();
  if (!gpu.ok()) {
    LOG(INFO) << "no GPU: " << gpu.status().message();
    return backends;
  }
  absl::StatusOr<std::shared_ptr<Device>> device = gpu->open_device(0);
  CHECK(device.ok()) << device.status();
  backends.push_back({"gpu", gpu->create_kernel, CudaKernelOps(), nullptr, *std::move(device)});
  return backends;
}

}  // namespace shoal

#include "ml/kernels/conformance_backends.h"

#include <algorithm>
#include <cstdlib>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "base/log.h"
#include "ml/kernels/cpu/cpu_kernels.h"
#include "ml/kernels/cpu/simd/cpu_features.h"
#include "ml/kernels/cuda/cuda_kernels.h"
#include "ml/kernels/cuda/host_loop_kernels.h"

namespace shoal {

namespace {

std::vector<ConformanceBackend> AllBackends() {
  std::vector<ConformanceBackend> backends;
  for (cpu::CpuIsa isa : {cpu::CpuIsa::kGeneric, cpu::CpuIsa::kAvx2, cpu::CpuIsa::kAvx512}) {
    if (isa > cpu::DetectCpuIsa()) continue;
    backends.push_back(
        {absl::StrCat("cpu", static_cast<int>(isa)),
         [isa](const KernelRequest& request) { return CreateCpuKernel(request, isa); },
         CpuKernelOps(), CpuKernelSupportsLayout, nullptr, nullptr});
  }
  backends.push_back(
      {"gpu_loops_on_host", cuda::CreateHostLoop, cuda::HostLoopOps(), nullptr, nullptr, nullptr});
  absl::StatusOr<KernelBackend> gpu = CudaKernelBackend();
  if (!gpu.ok()) {
    LOG(INFO) << "no GPU: " << gpu.status().message();
    return backends;
  }
  const auto open_device = [open = gpu->open_device] { return open(0); };
  absl::StatusOr<std::shared_ptr<Device>> device = open_device();
  CHECK(device.ok()) << device.status();
  backends.push_back(
      {"gpu", gpu->create_kernel, CudaKernelOps(), nullptr, *std::move(device), open_device});
  return backends;
}

}  // namespace

std::vector<ConformanceBackend> ConformanceBackends() {
  std::vector<ConformanceBackend> backends = AllBackends();
  const char* names = std::getenv("SHOAL_CONFORMANCE_BACKENDS");
  if (names == nullptr) return backends;
  const std::set<std::string> wanted = absl::StrSplit(names, ',');
  backends.erase(
      std::remove_if(backends.begin(), backends.end(),
                     [&](const ConformanceBackend& b) { return wanted.count(b.name) == 0; }),
      backends.end());
  CHECK(!backends.empty()) << "SHOAL_CONFORMANCE_BACKENDS=" << names
                           << " names no backend of this machine";
  return backends;
}

}  // namespace shoal

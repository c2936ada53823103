#include "worker/replica/compute_backends.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "ml/kernels/cpu/cpu_kernels.h"
#include "ml/kernels/cpu/simd/cpu_features.h"
#include "ml/kernels/cuda/cuda_kernels.h"

namespace shoal {
namespace {

bool MayUseGpus(const v1::DeploymentOptions& deployment) {
  if (deployment.devices().empty()) return !deployment.clone_on_cpu();
  return absl::StrContains(absl::AsciiStrToLower(deployment.devices()), "gpu");
}

}  // namespace

std::vector<KernelBackend> AcceleratorsFor(const v1::DeploymentOptions& deployment) {
  if (!MayUseGpus(deployment)) return {};
  // Without GPUs the run goes on CPUs, or says so if it may not: missing_devices().
  absl::StatusOr<KernelBackend> gpus = CudaKernelBackend();
  if (!gpus.ok()) return {};
  return {*std::move(gpus)};
}

void SetBackends(GraphProgram::Options* options) {
  options->backend = CpuKernelBackend();
  options->compute_name = absl::StrCat("cpu ", cpu::CpuIsaName());
  options->accelerators = AcceleratorsFor(options->run.deployment());
}

}  // namespace shoal

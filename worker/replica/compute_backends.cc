#include "worker/replica/compute_backends.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

#include "base/log.h"
#include "ml/kernels/cpu/cpu_kernels.h"
#include "ml/kernels/cpu/simd/cpu_features.h"
#include "ml/kernels/cuda/cuda_kernels.h"
#include "worker/replica/device_selection.h"

namespace shoal {
namespace {

bool NamesGpu(absl::string_view devices) {
  return absl::StrContains(absl::AsciiStrToLower(devices), "gpu");
}

std::vector<KernelBackend> Gpus() {
  // The run uses CPUs if there is no GPU, or fails if it may not: missing_devices().
  absl::StatusOr<KernelBackend> gpus = CudaKernelBackend();
  if (!gpus.ok()) return {};
  return {*std::move(gpus)};
}

bool MayUseGpus(const v1::DeploymentOptions& deployment) {
  return deployment.devices().empty() ? !deployment.clone_on_cpu() : NamesGpu(deployment.devices());
}

}  // namespace

std::vector<KernelBackend> AcceleratorsFor(const v1::DeploymentOptions& deployment) {
  return MayUseGpus(deployment) ? Gpus() : std::vector<KernelBackend>();
}

void LogMissingDevices(const std::vector<std::string>& devices,
                       const std::vector<KernelBackend>& accelerators) {
  for (const std::string& device : MissingDevices(devices, accelerators)) {
    LOG(WARNING) << "there is no " << device << ", for which soft placement uses a CPU ("
                 << DescribeGpus() << ")";
  }
}

std::string DescribeGpus() {
  const absl::StatusOr<KernelBackend> gpus = CudaKernelBackend();
  if (!gpus.ok()) return absl::StrCat("GPUs: none; ", gpus.status().message());
  return absl::StrCat("GPUs: ", gpus->description);
}

uint32_t CountGpus() {
  const absl::StatusOr<KernelBackend> gpus = CudaKernelBackend();
  return gpus.ok() ? static_cast<uint32_t>(gpus->num_devices) : 0;
}

std::string DescribeGpusFor(const v1::DeploymentOptions& deployment) {
  if (!MayUseGpus(deployment)) {
    return absl::StrCat("GPUs: not used; ",
                        deployment.devices().empty()
                            ? std::string("clone_on_cpu is set")
                            : absl::StrCat("devices are ", deployment.devices()));
  }
  std::string text = DescribeGpus();
  if (Gpus().empty()) absl::StrAppend(&text, "; the CPUs are used");
  return text;
}

std::vector<KernelBackend> AcceleratorsFor(const std::vector<std::string>& devices) {
  return std::any_of(devices.begin(), devices.end(), NamesGpu) ? Gpus()
                                                               : std::vector<KernelBackend>();
}

void SetBackends(GraphProgram::Options* options) {
  options->backend = CpuKernelBackend();
  options->compute_name = absl::StrCat("cpu ", cpu::CpuIsaName());
  options->accelerators = AcceleratorsFor(options->run.deployment());
}

}  // namespace shoal

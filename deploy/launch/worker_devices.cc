#include "deploy/launch/worker_devices.h"

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

#include "ml/tensor/device_spec.h"
#include "runtime/config/rule.h"

namespace shoal {
namespace {

// The run's devices; without a list TF-Slim's, a GPU for each clone.
std::vector<std::string> WantedDevices(const v1::DeploymentOptions& deployment) {
  std::vector<std::string> names;
  for (const absl::string_view name :
       absl::StrSplit(deployment.devices(), ',', absl::SkipWhitespace())) {
    names.emplace_back(absl::StripAsciiWhitespace(name));
  }
  for (uint32_t i = 0; i < deployment.num_clones() && deployment.devices().empty(); ++i) {
    names.push_back(absl::StrCat(deployment.clone_on_cpu() ? "/cpu:" : "/gpu:", i));
  }
  return names;
}

bool IsGpu(const absl::StatusOr<DeviceSpec>& device) {
  return device.ok() && device->device_type == "GPU";
}

}  // namespace

absl::StatusOr<std::string> DevicesOfWorker(const v1::DeploymentOptions& deployment,
                                            uint32_t worker, uint32_t num_gpus) {
  if (num_gpus == 0 || deployment.num_replicas() < 2) return std::string();
  std::vector<std::string> names = WantedDevices(deployment);
  std::vector<int> gpus;
  for (const std::string& name : names) {
    const absl::StatusOr<DeviceSpec> device = DeviceSpec::Parse(name);
    if (IsGpu(device)) gpus.push_back(device->device_index.value_or(0));
  }
  if (gpus.empty()) return std::string();
  const auto [first, last] = std::minmax_element(gpus.begin(), gpus.end());
  const int taken = *last - *first + 1;  // By each worker.
  for (std::string& name : names) {
    const absl::StatusOr<DeviceSpec> device = DeviceSpec::Parse(name);
    if (!IsGpu(device)) continue;
    const int index = device->device_index.value_or(0) + static_cast<int>(worker) * taken;
    name = absl::StrCat("/gpu:", index);
    if (index < static_cast<int>(num_gpus)) continue;
    return Broken(
        "num_replicas",
        absl::StrCat("each worker takes GPUs of its own, and worker ", worker, " would take ", name,
                     " of a machine with ", num_gpus, num_gpus == 1 ? " GPU" : " GPUs",
                     "; give fewer workers or clones, or --clone_on_cpu"));
  }
  return absl::StrJoin(names, ",");
}

}  // namespace shoal

#include "worker/replica/worker_devices.h"

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

// Returns the run's devices; without a list those of TF-Slim, one GPU for each clone.
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
                                            const LocalWorker& worker, uint32_t num_gpus) {
  if (worker.index == 0 || worker.has_own_gpus || num_gpus == 0 || deployment.num_replicas() < 2) {
    return std::string();
  }
  // Parts of one mpirun may list devices of their own.
  if (!worker.is_exact && !deployment.devices().empty()) return std::string();
  std::vector<std::string> names = WantedDevices(deployment);
  std::vector<uint32_t> gpus;
  for (const std::string& name : names) {
    const absl::StatusOr<DeviceSpec> device = DeviceSpec::Parse(name);
    if (IsGpu(device)) gpus.push_back(static_cast<uint32_t>(device->device_index.value_or(0)));
  }
  if (gpus.empty()) return std::string();
  const auto [first, last] = std::minmax_element(gpus.begin(), gpus.end());
  const uint32_t taken = *last - *first + 1;  // By each worker.
  // Somebody has chosen GPUs for this task alone, or one GPU for all.
  if (worker.gpus_were_chosen && num_gpus <= *last + 1) return std::string();
  // The number of workers for which there are enough GPUs.
  const uint32_t workers = num_gpus > *first ? (num_gpus - *first) / taken : 0;
  if (!worker.is_exact && workers == 0) return std::string();
  const uint32_t place = worker.is_exact ? worker.index : worker.index % workers;
  if (place >= workers) {
    return InvalidField("num_replicas",
                        absl::StrCat(worker.index + 1, " workers of this host take ", taken,
                                     taken == 1 ? " GPU" : " GPUs", " each",
                                     *first > 0 ? absl::StrCat(", from /gpu:", *first, " on") : "",
                                     ", and it has ", num_gpus,
                                     "; start fewer workers on it, or give fewer --num_clones, or "
                                     "--clone_on_cpu"));
  }
  for (std::string& name : names) {
    const absl::StatusOr<DeviceSpec> device = DeviceSpec::Parse(name);
    if (!IsGpu(device)) continue;
    const auto index = static_cast<uint32_t>(device->device_index.value_or(0));
    name = absl::StrCat("/gpu:", index + place * taken);
  }
  return absl::StrJoin(names, ",");
}

}  // namespace shoal

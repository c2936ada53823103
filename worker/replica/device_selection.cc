#include "worker/replica/device_selection.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "ml/device/kernel.h"
#include "ml/tensor/device_spec.h"
#include "proto/v1/run_config.pb.h"

namespace shoal {
namespace {

bool IsAvailable(const DeviceSpec& device, const std::vector<KernelBackend>& accelerators) {
  if (device.device_type == "CPU") return true;
  return std::any_of(accelerators.begin(), accelerators.end(), [&](const KernelBackend& backend) {
    return backend.device_type == device.device_type &&
           device.device_index.value_or(0) < backend.num_devices;
  });
}

bool IsCpu(const std::string& name) {
  const absl::StatusOr<DeviceSpec> device = DeviceSpec::Parse(name);
  return device.ok() && device->device_type == "CPU";
}

// Returns one device with this prefix for each clone: "/gpu:0", "/gpu:1".
std::vector<std::string> OnePerClone(absl::string_view prefix,
                                     const v1::DeploymentOptions& deployment) {
  std::vector<std::string> names;
  for (uint32_t i = 0; i < deployment.num_clones(); ++i) names.push_back(absl::StrCat(prefix, i));
  return names;
}

void AddOnce(std::string name, std::vector<std::string>* names) {
  if (std::find(names->begin(), names->end(), name) == names->end()) {
    names->push_back(std::move(name));
  }
}

}  // namespace

std::vector<std::string> MissingDevices(const std::vector<std::string>& listed,
                                        const std::vector<KernelBackend>& accelerators) {
  std::vector<std::string> missing;
  for (const std::string& name : listed) {
    const absl::StatusOr<DeviceSpec> device = DeviceSpec::Parse(name);
    if (device.ok() && !IsAvailable(*device, accelerators)) missing.push_back(name);
  }
  return missing;
}

std::vector<std::string> PresentDevices(const std::vector<std::string>& listed,
                                        const std::vector<KernelBackend>& accelerators) {
  std::vector<std::string> present;
  for (const std::string& name : listed) {
    const absl::StatusOr<DeviceSpec> device = DeviceSpec::Parse(name);
    if (!device.ok()) continue;  // an error where clones are made
    AddOnce(IsAvailable(*device, accelerators)
                ? name
                : absl::StrCat("/cpu:", device->device_index.value_or(0)),
            &present);
  }
  AddOnce("/cpu:0", &present);
  return present;
}

std::vector<std::string> ListedDevices(const v1::DeploymentOptions& deployment) {
  if (deployment.devices().empty()) return {};
  std::vector<std::string> names;
  for (absl::string_view name : absl::StrSplit(deployment.devices(), ',')) {
    names.emplace_back(absl::StripAsciiWhitespace(name));
  }
  return names;
}

std::vector<std::string> DevicesOfClones(const v1::DeploymentOptions& deployment) {
  if (!deployment.devices().empty()) return ListedDevices(deployment);
  return OnePerClone(deployment.clone_on_cpu() ? "/cpu:" : "/gpu:", deployment);
}

std::vector<std::string> MissingDevicesOfClones(const v1::DeploymentOptions& deployment,
                                                const std::vector<KernelBackend>& accelerators) {
  if (deployment.devices().empty() && accelerators.empty()) return {};
  return MissingDevices(DevicesOfClones(deployment), accelerators);
}

std::vector<std::string> DevicesOfPredictions(const v1::DeploymentOptions& deployment,
                                              const std::vector<KernelBackend>& accelerators) {
  if (deployment.devices().empty() && accelerators.empty()) return OnePerClone("/cpu:", deployment);
  return DevicesOfClones(deployment);
}

std::vector<std::string> DevicesOfRun(const v1::RunConfig& run,
                                      const std::vector<KernelBackend>& accelerators) {
  const v1::DeploymentOptions& deployment = run.deployment();
  if (!deployment.devices().empty()) return PresentDevices(ListedDevices(deployment), accelerators);
  std::vector<std::string> names;
  const uint32_t cpus = deployment.clone_on_cpu() ? 1 : deployment.num_clones();
  for (uint32_t i = 0; i < cpus; ++i) {
    names.push_back(absl::StrCat("/cpu:", i));
    const std::string gpu = absl::StrCat("/gpu:", i);
    if (!deployment.clone_on_cpu() && MissingDevices({gpu}, accelerators).empty()) {
      names.push_back(gpu);
    }
  }
  return names;
}

std::vector<std::string> CloneDeviceTypes(const v1::RunConfig& run,
                                          const std::vector<KernelBackend>& accelerators) {
  std::vector<std::string> types;
  for (const std::string& name : DevicesOfClones(run.deployment())) {
    const absl::StatusOr<DeviceSpec> device = DeviceSpec::Parse(name);
    types.push_back(device.ok() && IsAvailable(*device, accelerators) ? device->device_type
                                                                      : "CPU");
  }
  return types;
}

absl::StatusOr<DeploymentConfig> DeploymentOfRun(const v1::RunConfig& run,
                                                 const std::vector<KernelBackend>& accelerators) {
  const v1::DeploymentOptions& deployment = run.deployment();
  DeploymentConfigOptions options;
  options.num_clones = static_cast<int>(deployment.num_clones());
  options.clone_on_cpu = deployment.clone_on_cpu();
  options.replica_id = static_cast<int>(deployment.replica_id());
  options.num_replicas = static_cast<int>(deployment.num_replicas());
  options.num_ps_tasks = static_cast<int>(deployment.num_ps_tasks());
  options.worker_job_name = deployment.worker_job_name();
  options.ps_job_name = deployment.ps_job_name();
  if (!deployment.devices().empty()) options.clone_devices = ListedDevices(deployment);
  if (deployment.variables() == "first_device") options.variables_on = VariablesOn::kFirstDevice;
  if (deployment.variables() == "mirrored") options.variables_on = VariablesOn::kMirrored;
  const std::vector<std::string> devices = DevicesOfRun(run, accelerators);
  options.reduce_on_clones = std::all_of(devices.begin(), devices.end(), IsCpu);
  return DeploymentConfig::Create(std::move(options));
}

}  // namespace shoal

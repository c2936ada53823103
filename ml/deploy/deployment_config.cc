#include "ml/deploy/deployment_config.h"

#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "ml/tensor/device_spec.h"

namespace shoal {
namespace {

absl::Status CheckAsSlim(const DeploymentConfigOptions& options) {
  if (options.num_replicas > 1 && options.num_ps_tasks < 1) {
    return absl::InvalidArgumentError("When using replicas num_ps_tasks must be positive");
  }
  if (options.num_replicas > 1 || options.num_ps_tasks > 0) {
    if (options.worker_job_name.empty()) {
      return absl::InvalidArgumentError("Must specify worker_job_name when using replicas");
    }
    if (options.ps_job_name.empty()) {
      return absl::InvalidArgumentError("Must specify ps_job_name when using parameter server");
    }
  }
  if (options.replica_id >= options.num_replicas) {
    return absl::InvalidArgumentError("replica_id must be less than num_replicas");
  }
  return absl::OkStatus();
}

absl::Status CheckBeyondSlim(const DeploymentConfigOptions& options) {
  if (options.num_clones < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("num_clones must be positive, is ", options.num_clones));
  }
  if (options.replica_id < 0) {
    return absl::InvalidArgumentError("replica_id must not be negative");
  }
  if (options.num_ps_tasks < 0) {
    return absl::InvalidArgumentError("num_ps_tasks must not be negative");
  }
  if (!options.clone_devices.empty() &&
      static_cast<int>(options.clone_devices.size()) != options.num_clones) {
    return absl::InvalidArgumentError(absl::StrCat("devices names ", options.clone_devices.size(),
                                                   " devices, num_clones is ", options.num_clones,
                                                   "; give one per clone"));
  }
  if (options.num_ps_tasks > 0 && options.variables_on != VariablesOn::kCpu) {
    return absl::InvalidArgumentError(
        "variables_on is for num_ps_tasks=0; with ps the variables are theirs");
  }
  for (const std::string& device : options.clone_devices) {
    RETURN_IF_ERROR(DeviceSpec::Parse(device).status());
  }
  return absl::OkStatus();
}

absl::Status CheckIndex(int clone_index, int num_clones) {
  if (clone_index >= 0 && clone_index < num_clones) return absl::OkStatus();
  return absl::InvalidArgumentError("clone_index must be less than num_clones");
}

}  // namespace

absl::StatusOr<DeploymentConfig> DeploymentConfig::Create(DeploymentConfigOptions options) {
  RETURN_IF_ERROR(CheckAsSlim(options));
  RETURN_IF_ERROR(CheckBeyondSlim(options));
  return DeploymentConfig(std::move(options));
}

std::string DeploymentConfig::ps_device() const {
  return num_ps_tasks() > 0 ? absl::StrCat("/job:", ps_job_name()) : "";
}

std::string DeploymentConfig::worker_device() const {
  return num_ps_tasks() > 0 ? absl::StrCat("/job:", worker_job_name()) : "";
}

DeviceFunction DeploymentConfig::variables_device() const {
  if (num_ps_tasks() == 0) {
    const absl::StatusOr<DeviceSpec> place = DeviceSpec::Parse(variable_devices()[0]);
    return [place](absl::string_view, const std::string& device) {
      const absl::StatusOr<DeviceSpec> own = DeviceSpec::Parse(device);
      return own.ok() && place.ok() ? place->MergedWith(*own).ToString() : device;
    };
  }
  const auto next_task = std::make_shared<int>(0);  // shared by the copies of this chooser
  return [next_task, num_tasks = num_ps_tasks(), ps = absl::StrCat(ps_device(), "/device:CPU:0")](
             absl::string_view op, const std::string& device) {
    if (!device.empty() || !absl::StartsWith(op, "Variable")) return device;
    const int task = *next_task;
    *next_task = (task + 1) % num_tasks;
    return absl::StrCat(ps, "/task:", task);
  };
}

std::string DeploymentConfig::inputs_device() const {
  return absl::StrCat(worker_device(), "/device:CPU:0");
}

std::string DeploymentConfig::optimizer_device() const {
  return absl::StrCat(worker_device(), "/device:CPU:0");
}

std::optional<DeviceFunction> DeploymentConfig::caching_device() const {
  if (num_ps_tasks() == 0) return std::nullopt;
  return [](absl::string_view, const std::string& device) { return device; };
}

absl::StatusOr<std::string> DeploymentConfig::clone_device(int clone_index) const {
  RETURN_IF_ERROR(CheckIndex(clone_index, num_clones()));
  if (!options_.clone_devices.empty()) {
    ASSIGN_OR_RETURN(const DeviceSpec device,
                     DeviceSpec::Parse(options_.clone_devices[clone_index]));
    return absl::StrCat(worker_device(), device.ToString());
  }
  if (clone_on_cpu()) return absl::StrCat(worker_device(), "/device:CPU:0");
  return absl::StrCat(worker_device(), "/device:GPU:", clone_index);
}

std::vector<std::string> DeploymentConfig::clone_devices() const {
  std::vector<std::string> devices;
  for (int i = 0; i < num_clones(); ++i) {
    const absl::StatusOr<std::string> device = clone_device(i);
    if (device.ok() && (devices.empty() || devices.back() != *device)) devices.push_back(*device);
  }
  return devices;
}

std::vector<std::string> DeploymentConfig::variable_devices() const {
  if (options_.variables_on == VariablesOn::kCpu) return {"/device:CPU:0"};
  std::vector<std::string> devices = clone_devices();
  if (options_.variables_on == VariablesOn::kFirstDevice) devices.resize(1);
  return devices;
}

std::vector<std::string> DeploymentConfig::reduce_devices() const {
  if (options_.reduce_on_clones) return clone_devices();
  if (num_ps_tasks() > 0 || options_.variables_on == VariablesOn::kCpu) return {};
  return variable_devices();
}

absl::StatusOr<std::string> DeploymentConfig::clone_scope(int clone_index) const {
  RETURN_IF_ERROR(CheckIndex(clone_index, num_clones()));
  return num_clones() > 1 ? absl::StrCat("clone_", clone_index) : std::string();
}

}  // namespace shoal

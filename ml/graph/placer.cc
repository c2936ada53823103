#include "ml/graph/placer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "base/status_macros.h"

namespace shoal {
namespace {

// Returns whether the device matches the request; fields that are not set match every device.
bool Satisfies(const DeviceSpec& device, const DeviceSpec& asked) {
  return (asked.job.empty() || asked.job == device.job) &&
         (!asked.replica.has_value() || asked.replica == device.replica.value_or(0)) &&
         (!asked.task.has_value() || asked.task == device.task) &&
         (asked.device_type.empty() || asked.device_type == device.device_type) &&
         (!asked.device_index.has_value() || asked.device_index == device.device_index);
}

class Placer {
 public:
  explicit Placer(const PlacerOptions& options) : options_(options) {}

  absl::StatusOr<int> Place(const Node& node) const;

 private:
  bool HasKernel(absl::string_view device_type, const Node& node) const {
    return !options_.has_kernel || options_.has_kernel(device_type, node);
  }
  // The first device of the type that satisfies what is asked; -1 if there is none.
  int Find(const DeviceSpec& asked, absl::string_view type, const Node& node) const;
  int SoftChoice(const DeviceSpec& asked, const Node& node) const;
  absl::Status Impossible(const Node& node, absl::string_view reason) const;
  std::string WithKernels(const Node& node) const;

  const PlacerOptions& options_;
};

int Placer::Find(const DeviceSpec& asked, absl::string_view type, const Node& node) const {
  for (size_t i = 0; i < options_.devices.size(); ++i) {
    const DeviceSpec& device = options_.devices[i];
    if (device.device_type == type && Satisfies(device, asked) && HasKernel(type, node)) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

int Placer::SoftChoice(const DeviceSpec& asked, const Node& node) const {
  DeviceSpec cpu;
  cpu.device_index = asked.device_index;
  const int same_index = Find(cpu, "CPU", node);
  return same_index >= 0 ? same_index : Find(DeviceSpec(), "CPU", node);
}

std::string Placer::WithKernels(const Node& node) const {
  std::vector<std::string> names;
  for (const DeviceSpec& device : options_.devices) {
    if (HasKernel(device.device_type, node)) names.push_back(device.ToString());
  }
  return names.empty() ? "none" : absl::StrJoin(names, ", ");
}

absl::Status Placer::Impossible(const Node& node, absl::string_view reason) const {
  return absl::InvalidArgumentError(
      absl::StrCat("Cannot assign a device for operation '", node.name, "' (", node.op,
                   "): Could not satisfy explicit device specification '", node.device.ToString(),
                   "' because ", reason, "; devices with a kernel for it: ", WithKernels(node),
                   ". Name one of these, or leave out --noallow_soft_placement"));
}

absl::StatusOr<int> Placer::Place(const Node& node) const {
  const std::string& type = node.device.device_type;
  for (const char* candidate : {"GPU", "CPU"}) {
    if (!type.empty() && type != candidate) continue;
    const int device = Find(node.device, candidate, node);
    if (device >= 0) return device;
  }
  // A variable lives with its owner; here it is only read.
  if (absl::StartsWith(node.op, "Variable") && !node.device.job.empty() &&
      node.device.job != options_.devices[0].job) {
    return -1;
  }
  if (options_.allow_soft_placement) {
    const int device = SoftChoice(node.device, node);
    if (device >= 0) return device;
  }
  const bool is_there =
      std::any_of(options_.devices.begin(), options_.devices.end(),
                  [&](const DeviceSpec& device) { return device.device_type == type; });
  if (is_there && !HasKernel(type, node)) {
    return Impossible(node,
                      absl::StrCat("no supported kernel for ", type, " devices is available"));
  }
  return Impossible(node, "no devices matching that specification are in this process");
}

}  // namespace

absl::StatusOr<std::vector<DeviceSpec>> LocalDevices(absl::string_view job, int task,
                                                     const std::vector<std::string>& names) {
  std::vector<DeviceSpec> devices;
  DeviceSpec local;
  local.job = std::string(job);
  local.task = task;
  for (const std::string& name : names) {
    ASSIGN_OR_RETURN(const DeviceSpec named, DeviceSpec::Parse(name));
    if (named.device_type.empty() || !named.device_index.has_value()) {
      return absl::InvalidArgumentError(
          absl::StrCat("devices: '", name, "' must name a type and an index, as /cpu:0"));
    }
    devices.push_back(local.MergedWith(named));
  }
  return devices;
}

absl::StatusOr<std::vector<int>> PlaceNodes(const Graph& graph, const PlacerOptions& options) {
  if (options.devices.empty()) {
    return absl::InvalidArgumentError("devices: none is named; name at least /cpu:0");
  }
  const Placer placer(options);
  std::vector<int> placement;
  for (const auto& node : graph.nodes()) {
    ASSIGN_OR_RETURN(const int device, placer.Place(*node));
    placement.push_back(device);
    if (!options.log) continue;
    const DeviceSpec& shown = device < 0 ? node->device : options.devices[device];
    options.log(absl::StrCat(node->name, ": (", node->op, "): ", shown.ToString()));
  }
  return placement;
}

}  // namespace shoal

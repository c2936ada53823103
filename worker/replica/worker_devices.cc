#include "worker/replica/worker_devices.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "ml/tensor/device_spec.h"
#include "runtime/config/rule.h"
#include "worker/replica/device_selection.h"

namespace shoal {
namespace {

bool IsGpu(const absl::StatusOr<DeviceSpec>& device) {
  return device.ok() && device->device_type == "GPU";
}

// The GPUs that the workers of a host take.
struct Shares {
  uint32_t taken = 0;    // GPUs of each worker.
  uint32_t workers = 0;  // Workers for which there are enough GPUs.
};

// Returns what the user can do about a worker whose GPUs do not exist.
std::string Remedies(const v1::DeploymentOptions& deployment, const LocalWorker& worker,
                     const Shares& shares) {
  // Otherwise the run has workers on other hosts, or workers behind this one.
  const bool all_are_here = worker.index + 1 == deployment.num_replicas();
  std::vector<std::string> flags;
  std::string text = "give ";
  if (shares.workers > 0 && all_are_here) {
    flags.push_back(absl::StrCat("--num_replicas=", shares.workers));
  } else if (shares.workers > 0) {
    text = absl::StrCat("start at most ", shares.workers,
                        shares.workers == 1 ? " worker" : " workers", " on it, or give ");
  }
  if (!deployment.devices().empty()) {
    flags.emplace_back("other devices in --devices");
  } else {
    if (shares.taken > 1) flags.emplace_back("fewer --num_clones");
    flags.emplace_back("--clone_on_cpu to compute on CPUs");
  }
  return absl::StrCat(text, absl::StrJoin(flags, ", or "));
}

}  // namespace

absl::StatusOr<std::string> DevicesOfWorker(const v1::DeploymentOptions& deployment,
                                            const LocalWorker& worker, uint32_t num_gpus) {
  if (worker.index == 0 || worker.has_own_gpus || num_gpus == 0 || deployment.num_replicas() < 2) {
    return std::string();
  }
  // Parts of one mpirun may list devices of their own.
  if (!worker.is_exact && !deployment.devices().empty()) return std::string();
  std::vector<std::string> names = DevicesOfClones(deployment);
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
    return InvalidField(
        "num_replicas",
        absl::StrCat(worker.index + 1, " workers of this host take ", taken,
                     taken == 1 ? " GPU" : " GPUs", " each",
                     *first > 0 ? absl::StrCat(", from /gpu:", *first, " on") : "", ", and it has ",
                     num_gpus, "; ", Remedies(deployment, worker, {taken, workers})));
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

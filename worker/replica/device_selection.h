// Chooses the devices on which this process computes: those that a run or a caller lists and that
// exist.
#ifndef SHOAL_WORKER_REPLICA_DEVICE_SELECTION_H_
#define SHOAL_WORKER_REPLICA_DEVICE_SELECTION_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "ml/deploy/deployment_config.h"

namespace shoal {

struct KernelBackend;

namespace v1 {
class DeploymentOptions;
class RunConfig;
}  // namespace v1

// Returns the listed devices ("/gpu:0", "/cpu:2") that do not exist: an accelerator has num_devices
// of them, CPUs always exist. Texts that are not device names are ignored.
std::vector<std::string> MissingDevices(const std::vector<std::string>& listed,
                                        const std::vector<KernelBackend>& accelerators);

// Returns the listed devices, each once, and "/cpu:0", which is always needed. A missing device is
// replaced by the CPU of the same index, as soft placement does.
std::vector<std::string> PresentDevices(const std::vector<std::string>& listed,
                                        const std::vector<KernelBackend>& accelerators);

// Returns deployment.devices as a list.
std::vector<std::string> ListedDevices(const v1::DeploymentOptions& deployment);

// Returns the device for which each clone asks, whether it exists or not: those of the list;
// without a list those of TF-Slim, which are one GPU for each clone, or CPUs with clone_on_cpu.
std::vector<std::string> DevicesOfClones(const v1::DeploymentOptions& deployment);

// Returns those of DevicesOfClones that do not exist. Without a list none is missing on a machine
// that has no accelerator, because such a run is for CPUs too.
std::vector<std::string> MissingDevicesOfClones(const v1::DeploymentOptions& deployment,
                                                const std::vector<KernelBackend>& accelerators);

// Returns the devices that predict: DevicesOfClones. Without a list they are CPUs on a machine that
// has no accelerator.
std::vector<std::string> DevicesOfPredictions(const v1::DeploymentOptions& deployment,
                                              const std::vector<KernelBackend>& accelerators);

// Returns the devices of this process that the run uses, which is resolved: those of its list that
// exist. Without a list a replica has one CPU device for each clone, and the GPU of the clone's
// index if it exists.
std::vector<std::string> DevicesOfRun(const v1::RunConfig& run,
                                      const std::vector<KernelBackend>& accelerators);

// Returns "CPU" or "GPU" for each clone: the type of the device that computes it. Clones on devices
// of the same types give the same bytes, whatever the devices' numbers are.
std::vector<std::string> CloneDeviceTypes(const v1::RunConfig& run,
                                          const std::vector<KernelBackend>& accelerators);

// Returns the run's deployment. Gradients are summed on all of its devices if all are CPUs, which
// share one memory; otherwise where deployment.variables places the variables.
absl::StatusOr<DeploymentConfig> DeploymentOfRun(const v1::RunConfig& run,
                                                 const std::vector<KernelBackend>& accelerators);

}  // namespace shoal

#endif  // SHOAL_WORKER_REPLICA_DEVICE_SELECTION_H_

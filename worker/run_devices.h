// Chooses the devices of this process that compute: those that a run or a caller lists and that
// exist.
#ifndef SHOAL_WORKER_RUN_DEVICES_H_
#define SHOAL_WORKER_RUN_DEVICES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "ml/deploy/deployment_config.h"

namespace shoal {

struct KernelBackend;

namespace v1 {
class RunConfig;
}

// Returns the listed devices ("/gpu:0", "/cpu:2") that no backend has: an accelerator has as many
// as its num_devices, CPUs are always there. What is no device's name is left out.
std::vector<std::string> MissingDevices(const std::vector<std::string>& listed,
                                        const std::vector<KernelBackend>& accelerators);

// The listed devices, each once, with the CPU of the same index in place of one that is missing,
// which is what soft placement takes; and "/cpu:0", which is always needed.
std::vector<std::string> PresentDevices(const std::vector<std::string>& listed,
                                        const std::vector<KernelBackend>& accelerators);

// deployment.devices as a list.
std::vector<std::string> ListedDevices(const v1::RunConfig& run);

// The devices of this process that the run uses: the present ones of its list. Without a list a
// replica has one CPU device for each clone, and the GPU of the clone's index where there is one.
std::vector<std::string> DevicesOfRun(const v1::RunConfig& run,
                                      const std::vector<KernelBackend>& accelerators);

// The run's deployment. Gradients are summed on all of its devices if these are all CPUs, which
// share one memory; else where its variables are said to be.
absl::StatusOr<DeploymentConfig> DeploymentOfRun(const v1::RunConfig& run,
                                                 const std::vector<KernelBackend>& accelerators);

}  // namespace shoal

#endif  // SHOAL_WORKER_RUN_DEVICES_H_

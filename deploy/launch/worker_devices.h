#ifndef SHOAL_DEPLOY_LAUNCH_WORKER_DEVICES_H_
#define SHOAL_DEPLOY_LAUNCH_WORKER_DEVICES_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

#include "proto/v1/run_config.pb.h"

namespace shoal {

// Returns the --devices of a worker that shares a machine of `num_gpus` GPUs with the run's other
// workers, so that no two workers take the same GPU: those of the run, or one GPU for each clone,
// moved up by as many GPUs as the workers before it take. Returns "" where the run's own devices
// stand: it has one worker, uses no GPUs, or the machine has none. InvalidArgument if the machine
// has too few GPUs.
absl::StatusOr<std::string> DevicesOfWorker(const v1::DeploymentOptions& deployment,
                                            uint32_t worker, uint32_t num_gpus);

}  // namespace shoal

#endif  // SHOAL_DEPLOY_LAUNCH_WORKER_DEVICES_H_

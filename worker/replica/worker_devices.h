#ifndef SHOAL_WORKER_REPLICA_WORKER_DEVICES_H_
#define SHOAL_WORKER_REPLICA_WORKER_DEVICES_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

#include "proto/v1/run_config.pb.h"
#include "runtime/cluster/local_worker.h"

namespace shoal {

// Returns the --devices of a worker that sees `num_gpus` GPUs and shares them with the other
// workers of its host, so that no two of them use the same GPU. The first worker of a host uses the
// run's devices, or one GPU for each clone; each further worker uses the next GPUs. Returns "" if
// the run's own devices need no change: the worker is the first of its host or the only one of the
// run, it uses or sees no GPUs, or it sees only its own. InvalidArgument if the host has too few
// GPUs.
absl::StatusOr<std::string> DevicesOfWorker(const v1::DeploymentOptions& deployment,
                                            const LocalWorker& worker, uint32_t num_gpus);

}  // namespace shoal

#endif  // SHOAL_WORKER_REPLICA_WORKER_DEVICES_H_

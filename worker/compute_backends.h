#ifndef SHOAL_WORKER_COMPUTE_BACKENDS_H_
#define SHOAL_WORKER_COMPUTE_BACKENDS_H_

#include <vector>

#include "ml/device/kernel.h"
#include "proto/v1/run_config.pb.h"
#include "worker/graph_program.h"

namespace shoal {

// The GPUs' backend where the run may place clones on GPUs, the build has CUDA and the machine a
// GPU.
std::vector<KernelBackend> AcceleratorsFor(const v1::DeploymentOptions& deployment);

// Sets the backends of a program, whose run is set: the CPU's, and the GPUs' where the run may
// place clones there, the build has CUDA and the machine a GPU.
void SetBackends(GraphProgram::Options* options);

}  // namespace shoal

#endif  // SHOAL_WORKER_COMPUTE_BACKENDS_H_

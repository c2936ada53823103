#ifndef SHOAL_WORKER_REPLICA_COMPUTE_BACKENDS_H_
#define SHOAL_WORKER_REPLICA_COMPUTE_BACKENDS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "ml/device/kernel.h"
#include "proto/v1/run_config.pb.h"
#include "worker/replica/graph_program.h"

namespace shoal {

// Returns the GPU backend if the run may place clones on GPUs, the build has CUDA and the machine
// has a GPU; otherwise nothing.
std::vector<KernelBackend> AcceleratorsFor(const v1::DeploymentOptions& deployment);

// The same for the devices that a program lists ("/gpu:0", "/cpu:1").
std::vector<KernelBackend> AcceleratorsFor(const std::vector<std::string>& devices);

// Logs a warning for each listed device that `accelerators` does not have: why it is missing, and
// that soft placement uses a CPU instead.
void LogMissingDevices(const std::vector<std::string>& devices,
                       const std::vector<KernelBackend>& accelerators);

// Describes the GPUs of this machine in one line, "GPUs: 1 x NVIDIA H100 sm_90, CUDA 13.0, …", or
// says why there are none that this program can use: "GPUs: none; this program was built without
// CUDA; build it with --config=cuda". deploy/local/train reads the numbers.
std::string DescribeGpus();

// Returns how many GPUs this program can use here.
uint32_t CountGpus();

// Describes the GPUs that a run with this deployment can use here, and whether it uses CPUs
// instead.
std::string DescribeGpusFor(const v1::DeploymentOptions& deployment);

// Sets the backends of a program whose `run` is set: the CPU backend and those of AcceleratorsFor.
void SetBackends(GraphProgram::Options* options);

}  // namespace shoal

#endif  // SHOAL_WORKER_REPLICA_COMPUTE_BACKENDS_H_

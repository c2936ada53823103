// Chooses the GPUs that the compute program of a worker sees.
#ifndef SHOAL_WORKER_PROGRAM_PROGRAM_GPUS_H_
#define SHOAL_WORKER_PROGRAM_PROGRAM_GPUS_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"

#include "proto/v1/run_config.pb.h"
#include "runtime/cluster/local_worker.h"

namespace shoal {

class FileSystem;

// The environment variable that CUDA reads.
extern const char kVisibleGpus[];

// Returns the GPUs that CUDA would use in this process, as kVisibleGpus names them: `visible`, the
// value of that variable, or, where it is null, all of this machine, which are the files nvidia0,
// nvidia1, … in `devices`. It does not ask the driver, so it works without the CUDA backend.
std::vector<std::string> GpusHere(const FileSystem& file_system, const char* visible,
                                  const std::string& devices = "/dev");

// Returns the value of kVisibleGpus for the program of a worker that sees `gpus`. The workers of a
// host take one each; if there are fewer GPUs than workers, several workers get the same one.
// Nullopt if the program sees what its worker sees: the worker is the run's only one
// (`num_workers`; 0: unknown), its launcher does not number the workers of a host or shows each of
// them its own GPUs, or there is no choice. With clone_on_cpu no program sees a GPU.
std::optional<std::string> GpusOfProgram(const v1::DeploymentOptions& deployment,
                                         const std::optional<LocalWorker>& worker,
                                         uint32_t num_workers, absl::Span<const std::string> gpus);

}  // namespace shoal

#endif  // SHOAL_WORKER_PROGRAM_PROGRAM_GPUS_H_

#ifndef SHOAL_RUNTIME_CLUSTER_LOCAL_WORKER_H_
#define SHOAL_RUNTIME_CLUSTER_LOCAL_WORKER_H_

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"

#include "runtime/cluster/environment.h"

namespace shoal {

// The number of a worker among the workers of its host, and how its launcher assigns GPUs to them.
struct LocalWorker {
  uint32_t index = 0;  // Counted from 0.
  // False: the launcher numbers all tasks of the host, and tasks of other jobs may come before the
  // workers. The workers' numbers still follow one another.
  bool is_exact = true;
  bool has_own_gpus = false;      // The launcher shows each task only the task's own GPUs.
  bool gpus_were_chosen = false;  // CUDA_VISIBLE_DEVICES is set.
};

// Returns the number that Open MPI, torchrun or Slurm has set for this worker; nothing if no
// launcher numbers the tasks of a host. `is_numbered_by_rank` is true if the launcher's rank
// decides the task's job, so that the first tasks of every host are its workers. InvalidArgument
// names a variable that is not a number.
absl::StatusOr<std::optional<LocalWorker>> FindLocalWorker(const Environment& environment,
                                                           bool is_numbered_by_rank);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_CLUSTER_LOCAL_WORKER_H_

#include "runtime/cluster/local_worker.h"

#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

#include "base/status_macros.h"

namespace shoal {
namespace {

constexpr char kVisible[] = "CUDA_VISIBLE_DEVICES";

// Returns whether Slurm shows each task of the step only its own GPUs: they are bound to tasks, or
// this task sees fewer than the step has on the node.
bool SlurmBindsGpus(const Environment& environment) {
  const absl::string_view binding = GetValue(environment, "SLURM_GPU_BIND");
  if (!binding.empty()) return !absl::StrContains(binding, "none");
  if (IsSet(environment, "SLURM_GPUS_PER_TASK") ||
      absl::StrContains(GetValue(environment, "SLURM_TRES_PER_TASK"), "gpu")) {
    return true;
  }
  uint32_t on_node = 0;
  if (!IsSet(environment, kVisible) ||
      !absl::SimpleAtoi(GetValue(environment, "SLURM_GPUS_ON_NODE"), &on_node)) {
    return false;
  }
  const std::vector<absl::string_view> visible =
      absl::StrSplit(GetValue(environment, kVisible), ',', absl::SkipEmpty());
  return visible.size() < on_node;
}

}  // namespace

absl::StatusOr<std::optional<LocalWorker>> FindLocalWorker(const Environment& environment,
                                                           bool is_numbered_by_rank) {
  LocalWorker worker;
  worker.gpus_were_chosen = IsSet(environment, kVisible);
  if (IsSet(environment, "OMPI_COMM_WORLD_LOCAL_RANK")) {
    ASSIGN_OR_RETURN(worker.index, NumberVariable(environment, "OMPI_COMM_WORLD_LOCAL_RANK"));
    const absl::string_view programs = GetValue(environment, "OMPI_NUM_APP_CTX");
    worker.is_exact = is_numbered_by_rank || programs.empty() || programs == "1";
    return std::make_optional(worker);
  }
  if (IsSet(environment, "LOCAL_RANK")) {  // torchrun, which starts one program.
    ASSIGN_OR_RETURN(worker.index, NumberVariable(environment, "LOCAL_RANK"));
    return std::make_optional(worker);
  }
  if (IsSet(environment, "SLURM_LOCALID")) {
    ASSIGN_OR_RETURN(worker.index, NumberVariable(environment, "SLURM_LOCALID"));
    worker.is_exact = is_numbered_by_rank;
    worker.has_own_gpus = SlurmBindsGpus(environment);
    return std::make_optional(worker);
  }
  return std::optional<LocalWorker>();
}

}  // namespace shoal

#ifndef SHOAL_CHIEF_SESSION_RUN_PLAN_H_
#define SHOAL_CHIEF_SESSION_RUN_PLAN_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "proto/v1/chief_service.pb.h"
#include "runtime/plan/slice_table.h"
#include "runtime/plan/step_plan.h"

namespace shoal {

// The plan of a run follows from the run file, the first worker's declaration and, in a resumed
// run, the manifest. It says how variables are divided and placed, which batches make a step, and
// where the run ends.
struct RunPlan {
  std::vector<v1::VariableSpec> variables;
  SliceTable table;
  v1::ShardMap shard_map;
  StepPlan steps;
  uint64_t last_step = 0;  // UINT64_MAX: the run has none.
  VersionSchedule cuts;
  VersionSchedule evaluations;
  uint64_t evaluation_blocks = 0;
  // Set if the run resumes at an epoch's start with another seed or batch size: from this epoch on,
  // batches contain other examples than before, so what the manifest says about them is void.
  std::optional<uint32_t> other_batches_from;
};

// Returns R, the number of batches that a step aggregates: that of the run file or, if it has none,
// that of the checkpoint or, at a first start (`manifest` is null), one for each replica. `run` is
// resolved.
uint32_t ReplicasToAggregate(const v1::RunConfig& run, const v1::Manifest* manifest);

// `run` is resolved. `manifest` is null at a first start. `num_ps_tasks` is at least 1 (LOCAL: 1).
// Errors name the fields that do not fit: another model or data set than the checkpoint's, another
// batch size or R in the middle of an epoch, other slice_bytes.
absl::StatusOr<std::unique_ptr<RunPlan>> PlanRun(const v1::RunConfig& run, uint32_t num_ps_tasks,
                                                 const v1::ModelDeclaration& model,
                                                 const v1::Manifest* manifest);

// Checks that a worker's model and data are those that the run's checkpoint was made with.
// FAILED_PRECONDITION names the difference.
absl::Status CheckSameAsCheckpoint(const v1::RunConfig& run, const v1::ModelDeclaration& model,
                                   const v1::Manifest& manifest);

// Returns the first difference in model or data between two declarations of the same run,
// FAILED_PRECONDITION, or OK.
absl::Status CheckSameModel(const v1::ModelDeclaration& first, const v1::ModelDeclaration& other);

// Returns a hash of the variables' names, shapes, types and updates. Manifests contain it.
uint64_t ModelFingerprint(const std::vector<v1::VariableSpec>& variables);

}  // namespace shoal

#endif  // SHOAL_CHIEF_SESSION_RUN_PLAN_H_

#include "chief/session/rollout.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "base/status_macros.h"
#include "chief/session/async_mode.h"
#include "chief/session/sync_mode.h"
#include "runtime/config/run_config.h"

namespace shoal {
namespace {

absl::StatusOr<std::unique_ptr<TrainingMode>> MakeMode(SessionContext* context,
                                                       BadBatches* bad_batches) {
  if (!IsSynchronous(context->options.run)) return AsyncMode::Create(context, bad_batches);
  return std::make_unique<SyncMode>(context, bad_batches);
}

std::vector<CutLedger::Part> ListParts(const RunPlan& plan, uint32_t num_ps) {
  std::vector<CutLedger::Part> parts(num_ps, {false, false});
  for (uint32_t slice = 0; slice < plan.table.size(); ++slice) {
    CutLedger::Part& part = parts[plan.shard_map.owner(static_cast<int>(slice))];
    part.has_slices = true;
    part.has_versions = part.has_versions || plan.table.slice_is_versioned(slice);
  }
  return parts;
}

}  // namespace

absl::Status Rollout::OnPlan() {
  const RunPlan& plan = *context_.plan;
  bad_batches_.OnPlan();
  context_.cuts.SetParts(ListParts(plan, context_.options.num_ps_tasks));
  context_.evaluations.emplace(plan.evaluation_blocks);
  absl::StatusOr<std::unique_ptr<TrainingMode>> mode = MakeMode(&context_, &bad_batches_);
  if (!mode.ok()) {
    context_.phases.Fail(std::string(mode.status().message()));
    return mode.status();
  }
  context_.SetMode(*std::move(mode));
  bad_batches_.Publish();
  v1::RunState* state = context_.phases.mutable_state();
  plan.steps.ToProto(state->mutable_plan());
  *state->mutable_shard_map() = plan.shard_map;
  for (const v1::VariableSpec& variable : plan.variables) *state->add_variables() = variable;
  *state->mutable_run() = context_.options.run;
  state->set_last_step(plan.last_step);
  state->set_evaluate_every(context_.options.run.eval_every());
  context_.phases.Changed();
  return absl::OkStatus();
}

void Rollout::TrainIfLoaded() {
  if (context_.phases.phase() != v1::RunState::PHASE_PREPARING) return;
  for (const PsState& ps : context_.ps) {
    if (ps.loaded_lineage != context_.phases.lineage()) return;
  }
  if (!context_.mode->reloads().AllServe()) return;
  context_.phases.Set(v1::RunState::PHASE_TRAINING);
  context_.log.Add(TrainingStarts{context_.plan->steps, context_.plan->last_step});
  context_.mode->OnTrainingStarts();
}

bool Rollout::GoBack(const std::string& reason) {
  if (context_.phases.is_over()) return false;
  const uint64_t version = context_.cuts.durable_version();
  ++context_.num_rollbacks;
  context_.last_rollback.set_step(version);
  context_.last_rollback.set_from(context_.mode->newest_step());
  context_.last_rollback.set_reason(reason);
  context_.cuts.OnRollback();
  exports_.OnRollback();
  bad_batches_.OnRollback();
  if (context_.evaluations.has_value()) context_.evaluations->ForgetAbove(version);
  context_.mode->OnRollback(version);
  checkpoints_.OnRollback();
  for (PsState& ps : context_.ps) ps.loaded_lineage = 0;
  context_.phases.GoBack();
  bad_batches_.Publish();
  context_.log.Add(CheckpointsVoid{version});
  context_.log.Add(RolledBack{version, reason});
  context_.log.NoteTrouble(absl::StrFormat(
      "%s, lineage %d: %s",
      context_.has_checkpoint() ? absl::StrCat("back to the checkpoint of step ", version)
                                : "back to the initial values, as there is no checkpoint yet",
      context_.phases.lineage(), reason));
  return true;
}

}  // namespace shoal

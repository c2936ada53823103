#include "deploy/preflight_check.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "base/file_system.h"
#include "base/find_file.h"
#include "base/status_macros.h"
#include "chief/resume_point.h"
#include "chief/session/run_plan.h"
#include "deploy/worker_program.h"
#include "runtime/checkpoint/initial_model.h"
#include "runtime/checkpoint/training_complete.h"
#include "runtime/config/optimizer_groups.h"
#include "runtime/config/run_config.h"
#include "runtime/observability/metrics_file.h"
#include "worker/replica/replica_inputs.h"

namespace shoal {
namespace {

// The most variables to print; longer lists only go to the log.
constexpr int kMaxListed = 40;

// Adds a note for each damaged checkpoint.
absl::StatusOr<std::optional<ResumePoint>> FindIn(const v1::RunConfig& run, FileSystem* file_system,
                                                  Checkpoint::Verify verify,
                                                  std::vector<std::string>* notes) {
  const std::string root = absl::StrCat(run.out(), "/checkpoints");
  ASSIGN_OR_RETURN(const std::optional<FileInfo> directory, FindFile(*file_system, root));
  if (!directory.has_value()) {
    if (run.checkpoint().resume() == "must") return NothingToResume(root);
    return std::optional<ResumePoint>();
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<CheckpointDirectory> checkpoints,
                   CheckpointDirectory::Open(*file_system, root));
  std::vector<std::string> rejected;
  absl::StatusOr<std::optional<ResumePoint>> found =
      FindResumePoint(run, checkpoints.get(), verify, &rejected);
  for (std::string& line : rejected) {
    if (!absl::c_linear_search(*notes, line)) notes->push_back(std::move(line));
  }
  return found;
}

// Returns the model of the run file, or the one that the worker program declares. Adds messages for
// the user to `notes`.
absl::StatusOr<v1::WorkerProgram> DescribeModel(const v1::RunConfig& run, FileSystem* file_system,
                                                const ShutdownNotification& shutdown,
                                                std::vector<std::string>* notes) {
  if (!run.deployment().worker_binary().empty()) {
    return AskWorkerProgram(run, file_system, shutdown);
  }
  ASSIGN_OR_RETURN(const ReplicaInputs inputs, LoadReplicaInputs(run, 0, ModelFromRunFile()));
  notes->insert(notes->end(), inputs.notices.begin(), inputs.notices.end());
  v1::WorkerProgram program;
  *program.mutable_model() = inputs.declaration;
  for (const std::string& device : inputs.missing_devices) program.add_missing_devices(device);
  for (const std::string& line : inputs.placement) program.add_placement(line);
  return program;
}

// Notes the devices of variables and clones, if there is a choice.
void AddPlacement(const v1::RunConfig& run, const v1::WorkerProgram& program,
                  std::vector<std::string>* notes) {
  const v1::DeploymentOptions& deployment = run.deployment();
  const bool has_several = deployment.num_ps_tasks() == 0 && deployment.num_clones() > 1;
  if (!has_several && !deployment.log_device_placement()) return;
  const int num_variables = program.model().variables_size();
  if (num_variables > kMaxListed && !deployment.log_device_placement()) {
    notes->push_back(absl::StrCat(num_variables, " variables on ", deployment.num_clones(),
                                  " devices, see the worker's log or give --log_device_placement"));
    return;
  }
  notes->insert(notes->end(), program.placement().begin(), program.placement().end());
}

// Returns whether a run was started in this directory before.
absl::StatusOr<bool> WasStarted(const v1::RunConfig& run, FileSystem* file_system) {
  ASSIGN_OR_RETURN(const std::optional<FileInfo> cluster,
                   FindFile(*file_system, JoinPath(run.out(), "cluster.textproto")));
  return cluster.has_value();
}

// Returns the note about a run that was started before and has no checkpoint.
absl::StatusOr<std::string> BeginsAgain(const v1::RunConfig& run, FileSystem* file_system) {
  const absl::StatusOr<StepMetrics> last =
      LastMetricsLine(file_system, JoinPath(run.out(), "metrics.jsonl"));
  if (absl::IsUnavailable(last.status())) return last.status();
  return absl::StrCat(
      "no checkpoint in ", run.out(), ": begins at step 0",
      last.ok() ? absl::StrCat(" and removes the ", last->step, " steps in metrics.jsonl") : "");
}

// Checks that init_from, if it is set, has the variables that the model needs.
absl::Status CheckInitialModel(const v1::RunConfig& run, const RunPlan& plan,
                               FileSystem* file_system, std::vector<std::string>* notes) {
  if (run.init_from().empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::unique_ptr<InitialModel> model,
                   InitialModel::Open(*file_system, run, plan.variables, plan.table));
  notes->push_back(absl::StrCat(model->num_given(), " of ", plan.variables.size(),
                                " variables start from ", run.init_from(),
                                run.init_state() ? ", with their state" : ""));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<PreflightCheck> CheckBeforeStart(const v1::RunConfig& run, FileSystem* file_system,
                                                const ShutdownNotification& shutdown,
                                                const v1::WorkerProgram* asked) {
  PreflightCheck check;
  check.run = run;
  ASSIGN_OR_RETURN(std::optional<ResumePoint> from,
                   FindIn(run, file_system,
                          NumPsProcesses(run) == 0 ? Checkpoint::Verify::kEverything
                                                   : Checkpoint::Verify::kIndex,
                          &check.notes));
  v1::WorkerProgram program;
  if (asked != nullptr) {
    program = *asked;
    ASSIGN_OR_RETURN(const OptimizerGroups groups, OptimizerGroups::Create(run.optimizer()));
    for (v1::VariableSpec& spec : *program.mutable_model()->mutable_variables()) {
      groups.Freeze(&spec);
    }
  } else {
    ASSIGN_OR_RETURN(program, DescribeModel(run, file_system, shutdown, &check.notes));
  }
  if (program.missing_devices_size() > 0) {
    check.notes.push_back(absl::StrCat("devices: there is no ",
                                       absl::StrJoin(program.missing_devices(), ", "),
                                       "; CPUs are used instead, see allow_soft_placement"));
  }
  if (program.model().evaluation_blocks() == 0) {
    check.notes.push_back("data: there is no test split, so nothing is evaluated");
  }
  AddPlacement(run, program, &check.notes);
  const v1::Manifest* manifest = from.has_value() ? &from->manifest : nullptr;
  ASSIGN_OR_RETURN(
      const std::unique_ptr<RunPlan> plan,
      PlanRun(run, std::max(1u, run.deployment().num_ps_tasks()), program.model(), manifest));
  if (IsSynchronous(run)) {
    check.run.mutable_sync()->set_replicas_to_aggregate(plan->steps.replicas_to_aggregate());
  }
  check.run.mutable_cluster()->set_slice_bytes(plan->table.slice_bytes());
  if (manifest == nullptr) {
    ASSIGN_OR_RETURN(const bool was_started, WasStarted(run, file_system));
    if (was_started) {
      ASSIGN_OR_RETURN(std::string note, BeginsAgain(run, file_system));
      check.notes.push_back(std::move(note));
    }
    RETURN_IF_ERROR(CheckInitialModel(run, *plan, file_system, &check.notes));
    return check;
  }
  // The chief, which reads all of the checkpoint, reports the one that the run resumes from.
  check.newest_checkpoint = from->path.substr(from->path.rfind('/') + 1);
  ASSIGN_OR_RETURN(check.finished, IsTrainingComplete(run, *manifest));
  if (!check.finished) return check;
  // Only a whole checkpoint is one: the bytes are looked at too.
  ASSIGN_OR_RETURN(from, FindIn(run, file_system, Checkpoint::Verify::kEverything, &check.notes));
  if (from.has_value()) {
    ASSIGN_OR_RETURN(check.finished, IsTrainingComplete(run, from->manifest));
  }
  return check;
}

}  // namespace shoal

#include "chief/session/admission.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "base/status_macros.h"
#include "chief/session/session_records.h"
#include "runtime/config/run_config.h"
#include "runtime/process/program_words.h"
#include "runtime/process/protocol_version.h"
#include "runtime/rpc/receiver_rules.h"
#include "runtime/rpc/run_state.h"
#include "runtime/transport/call_status.h"

namespace shoal {
namespace {

// The shortest time between two reads of the file TERM, which the chief reads after a claim of a
// later term.
constexpr absl::Duration kBetweenDoubts = absl::Seconds(1);

// A user's own program may be older or newer than the chief's.
absl::Status CheckProtocol(TaskId task, const v1::RegisterTaskRequest& request) {
  const uint32_t theirs = std::max(1u, request.protocol());
  if (theirs == kProtocolVersion) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrFormat("%s speaks protocol %d, the chief %d; build both programs from the same "
                      "sources",
                      task.ToString(), theirs, kProtocolVersion));
}

// num_replicas includes the workers beyond replicas_to_aggregate, which repeat what others compute.
absl::Status CheckIndex(TaskId task, uint32_t num_ps_tasks, const v1::DeploymentOptions& run) {
  if (task.job == Job::kPs && task.index >= num_ps_tasks) {
    return absl::FailedPreconditionError(
        absl::StrFormat("%s: this run has num_ps_tasks=%d; use a --task_index below it",
                        task.ToString(), num_ps_tasks));
  }
  if (task.index >= kMaxMemberIndex) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "identity.member: %s; use a --task_index below %d", task.ToString(), kMaxMemberIndex));
  }
  if (task.job == Job::kWorker && task.index >= run.num_replicas()) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "%s: this run has num_replicas=%d; use a --task_index below it, or stop the run and start "
        "it again with more --num_replicas",
        task.ToString(), run.num_replicas()));
  }
  return absl::OkStatus();
}

// A task that was started with other numbers of tasks than the chief belongs to another run.
absl::Status CheckCounts(TaskId task, const v1::RegisterTaskRequest& request,
                         const v1::DeploymentOptions& run) {
  const auto check = [&](const char* field, uint32_t theirs, uint32_t ours) {
    if (theirs == 0 || theirs == ours) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrFormat(
        "%s: %s was started with %d, but the chief's run has %d; drop the flag or make "
        "them agree",
        field, task.ToString(), theirs, ours));
  };
  RETURN_IF_ERROR(check("num_ps_tasks", request.num_ps_tasks(), run.num_ps_tasks()));
  return check("num_replicas", request.num_replicas(), run.num_replicas());
}

absl::Status CheckSharedRun(TaskId task, v1::RunConfig theirs, v1::RunConfig ours,
                            bool has_program) {
  if (has_program && task.job == Job::kPs) {
    // A ps has no program that it could learn the settings from, and gets the run from this chief.
    for (v1::RunConfig* run : {&theirs, &ours}) {
      run->clear_optimizer();
      run->clear_batch_size();
      run->clear_replica_batch_size();
    }
  }
  const std::optional<RunDifference> difference = FirstDifference(ours, theirs);
  if (!difference.has_value()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      difference->field, ": ", difference->second, " at ", task.ToString(), ", but ",
      difference->first, " at the chief; give all tasks the same --run", " and the same flags"));
}

// Returns the kind of device that the fingerprint of a computation names, and whether it is a GPU.
// Programs in PyTorch write "torch 2.1 cuda NVIDIA A100 threads 1", models of run files "devices
// GPU,GPU".
struct Device {
  const char* name = "";
  bool is_gpu = false;
};
Device DeviceIn(absl::string_view computation) {
  if (absl::StrContains(computation, " cuda ")) return {"cuda", true};
  if (absl::StrContains(computation, "devices GPU")) return {"GPU", true};
  if (absl::StrContains(computation, " cpu ")) return {"cpu", false};
  if (absl::StrContains(computation, "devices CPU")) return {"CPU", false};
  return {};
}

// Returns whether the worker computes on a CPU and the first one on a GPU.
bool MayHaveLostItsGpu(absl::string_view theirs, absl::string_view first) {
  const Device now = DeviceIn(theirs);
  return !now.is_gpu && now.name[0] != '\0' && DeviceIn(first).is_gpu;
}

std::string DescribeDifference(TaskId worker, absl::string_view theirs, absl::string_view first) {
  if (!MayHaveLostItsGpu(theirs, first)) {
    return absl::StrFormat("%s computes with [%s], the first worker with [%s]", worker.ToString(),
                           theirs, first);
  }
  return absl::StrFormat(
      "%s computes on %s now, and the run began on %s; its GPU may have failed ([%s] here, [%s] at "
      "the first worker)",
      worker.ToString(), DeviceIn(theirs).name, DeviceIn(first).name, theirs, first);
}

}  // namespace

absl::Status Admission::CheckRun(const v1::Identity& identity) const {
  if (identity.run_id().empty() || identity.run_id() == context_.options.run_id) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrFormat("the task belongs to run %s, but this chief runs %s; check --chief_host",
                      identity.run_id(), context_.options.run_id));
}

absl::Status Admission::CheckIdentity(absl::Time now, const v1::Identity& identity) {
  const SessionOptions& options = context_.options;
  if (identity.run_id() != options.run_id) {
    return absl::FailedPreconditionError(
        absl::StrFormat("the task belongs to run %s, but this chief runs %s; check --chief_host",
                        identity.run_id(), options.run_id));
  }
  if (identity.term() < options.term)
    return absl::AbortedError("fenced term: a newer chief runs here");
  if (identity.term() > options.term) return DoubtTerm(now, identity.term());
  const TaskId task = ToTaskId(identity.member());
  const bool was_live = context_.membership.IsLive(task);
  RETURN_IF_ERROR(context_.membership.Renew(now, task, identity.incarnation()));
  if (!was_live) roster_.OnRevived(task);
  return absl::OkStatus();
}

absl::Status Admission::CheckReport(absl::Time now, const v1::Identity& identity, Job job) {
  const TaskId task = ToTaskId(identity.member());
  if (task.job != job) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "identity.member: %s sends what only a %s may send", task.ToString(), JobName(job)));
  }
  RETURN_IF_ERROR(CheckIdentity(now, identity));
  const uint64_t lineage = context_.phases.lineage();
  if (identity.lineage() == lineage) return absl::OkStatus();
  return absl::AbortedError(
      absl::StrFormat("moved: lineage is %d, not %d", lineage, identity.lineage()));
}

absl::Status Admission::DoubtTerm(absl::Time now, uint64_t claimed) {
  if (now >= term_doubted_ + kBetweenDoubts) {
    term_doubted_ = now;
    context_.log.Add(TermInDoubt());
  }
  // The sender may be right. It asks again, and finds the newer chief when this one has ended.
  return absl::UnavailableError(absl::StrFormat(
      "term %d is not known here: this chief is of term %d and reads the run's file TERM", claimed,
      context_.options.term));
}

absl::Status Admission::Check(const v1::RegisterTaskRequest& request) const {
  const SessionOptions& options = context_.options;
  RETURN_IF_ERROR(CheckRun(request.identity()));
  const TaskId task = ToTaskId(request.identity().member());
  if (task.job != Job::kPs && task.job != Job::kWorker) {
    return absl::InvalidArgumentError(absl::StrCat("identity.member: ", task.ToString(),
                                                   " registers, but only ps and workers do"));
  }
  RETURN_IF_ERROR(CheckProtocol(task, request));
  RETURN_IF_ERROR(CheckCounts(task, request, options.run.deployment()));
  RETURN_IF_ERROR(CheckIndex(task, options.num_ps_tasks, options.run.deployment()));
  if (options.shared_run.has_value()) {
    RETURN_IF_ERROR(CheckSharedRun(task, request.run(), *options.shared_run,
                                   !options.run.program().file().empty()));
  }
  return CheckRunIsAlive();
}

absl::Status Admission::CheckRunIsAlive() const {
  if (context_.phases.phase() != v1::RunState::PHASE_FAILED) return absl::OkStatus();
  const absl::Status why = GetFailure(context_.phases.state());
  // A task that receives UNAVAILABLE asks again. ABORTED ends it with the same exit code: another
  // try of the whole run helps.
  return IsOutcomeUnknown(why) ? absl::AbortedError(why.message()) : why;
}

absl::Status Admission::CheckModelOrPlan(const v1::RegisterTaskRequest& request) {
  const SessionOptions& options = context_.options;
  if (context_.model.has_value()) {
    RETURN_IF_ERROR(CheckSameModel(*context_.model, request.model()));
    return CheckComputation(ToTaskId(request.identity().member()),
                            request.model().compute_fingerprint());
  }
  const v1::Manifest* manifest = options.manifest.has_value() ? &*options.manifest : nullptr;
  if (manifest != nullptr) {
    const absl::Status fits = CheckSameAsCheckpoint(options.run, request.model(), *manifest);
    if (!fits.ok()) return RefuseWorker(request.identity().member().index(), fits);
  }
  absl::StatusOr<std::unique_ptr<RunPlan>> plan =
      PlanRun(options.run, options.num_ps_tasks, request.model(), manifest);
  if (!plan.ok()) {
    context_.phases.Fail(std::string(plan.status().message()));
    return absl::FailedPreconditionError(plan.status().message());
  }
  last_refusal_.clear();
  context_.model = request.model();
  context_.model->clear_initial_values();  // See TakeInitialValues.
  context_.plan = *std::move(plan);
  std::map<std::string, uint32_t> buckets;
  for (const v1::VariableSpec& variable : context_.plan->variables) {
    if (variable.has_table()) buckets[variable.name()] = variable.table().buckets();
  }
  context_.tables.SetBuckets(options.num_ps_tasks, std::move(buckets));
  return absl::OkStatus();
}

absl::Status Admission::CheckComputation(TaskId worker, const std::string& theirs) {
  const v1::RunConfig& run = context_.options.run;
  const std::string& first = context_.model->compute_fingerprint();
  if (theirs == first || run.sync().allow_mixed_compute()) return absl::OkStatus();
  std::string text = DescribeDifference(worker, theirs, first);
  if (!IsSynchronous(run)) {  // Equal bytes are not promised.
    if (differing_computations_.insert(worker.index).second) context_.log.Warn(std::move(text));
    return absl::OkStatus();
  }
  text = absl::StrCat(kOtherComputation, text,
                      "; equal bytes cannot be promised: use equal machines or "
                      "--allow_mixed_compute");
  // The run fits this worker, but its machine has changed: that ends the worker and not the run. An
  // earlier chief may have had the worker, with the GPU that the others still have.
  const bool was_accepted =
      (context_.membership.Find(worker) != nullptr && context_.mode->newest_step() > 0) ||
      (context_.options.manifest.has_value() && MayHaveLostItsGpu(theirs, first));
  if (!was_accepted) return absl::FailedPreconditionError(text);
  if (differing_computations_.insert(worker.index).second) context_.log.Warn(text);
  return absl::AbortedError(text);
}

void Admission::TakeInitialValues(uint32_t worker, uint64_t values) {
  const SessionOptions& options = context_.options;
  const uint64_t in_use = context_.model->initial_values();
  if (in_use == 0) context_.model->set_initial_values(values);
  if (in_use == 0 || values == 0 || values == in_use) return;
  if (options.manifest.has_value() || !options.run.init_from().empty()) return;
  if (!differing_workers_.insert(worker).second) return;
  context_.log.Add(InitialValuesDiffer{worker, values, in_use});
}

absl::Status Admission::RefuseWorker(uint32_t index, const absl::Status& why) {
  refused_workers_.insert(index);
  last_refusal_ = absl::StrCat("worker/", index, " was refused: ", why.message());
  if (refused_workers_.size() >= context_.num_replicas()) {
    context_.phases.Fail(std::string(why.message()));
  }
  return why;
}

absl::StatusOr<Admission::Place> Admission::TakePlace(absl::Time now,
                                                      const v1::RegisterTaskRequest& request) {
  const TaskId task = ToTaskId(request.identity().member());
  const Member* const before = context_.membership.Find(task);
  const uint64_t last_incarnation = before == nullptr ? 0 : before->incarnation;
  // Its end may not have been seen: a new process was faster.
  const bool was_live = before != nullptr && before->live;
  const uint32_t last_process = before == nullptr ? 0 : before->process_id;
  Place place;
  ASSIGN_OR_RETURN(place.incarnation,
                   context_.membership.Register(
                       now, Membership::Application{task, request.nonce(), request.address(),
                                                    request.host(), request.process_id()}));
  issued_.Issue(task, place.incarnation);
  place.is_new = place.incarnation != last_incarnation;
  if (!place.is_new) return place;
  WarnOfAnotherDirectory(task, request.run_directory());
  if (was_live) {
    context_.log.NoteTrouble(
        absl::StrCat(task.ToString(), " is lost: its process ", last_process, " is gone"));
  }
  context_.log.NoteEvent(absl::StrCat(
      task.ToString(), " registered, pid ", request.process_id(), " on ", request.host(),
      request.address().empty() ? "" : ", serves at ", request.address()));
  return place;
}

void Admission::WarnOfAnotherDirectory(TaskId task, const std::string& directory) {
  const std::string& ours = context_.options.run.out();
  if (directory.empty() || ours.empty() || directory == ours) return;
  context_.log.Warn(absl::StrFormat(
      "--out: %s at %s, but %s at the chief; give all tasks the same, unless these are two names "
      "of one directory",
      directory, task.ToString(), ours));
}

}  // namespace shoal

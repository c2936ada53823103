#include "chief/session/session_status.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

#include "runtime/process/protocol_version.h"

namespace shoal {
namespace {

// Heartbeats come at least about every second.
constexpr absl::Duration kSilent = absl::Seconds(3);
// A batch is slow if it takes longer than this time, and longer than this multiple of the worker's
// average.
constexpr absl::Duration kLongBatch = absl::Seconds(2);
constexpr int kTimesTheAverage = 4;
// The first batch is slower, because it also makes kernels and reads data.
constexpr absl::Duration kLongFirstBatch = absl::Seconds(10);
// A shorter time without a step does not count as a wait.
constexpr absl::Duration kLongStep = absl::Seconds(2);

absl::Duration InBatch(absl::Time now, const Member& member) {
  return member.computing ? now - member.computing_since : absl::ZeroDuration();
}

std::string WhySlow(absl::Time now, TaskId task, const Member& member) {
  const absl::Duration silence = now - member.last_contact;
  if (silence > kSilent) {
    return absl::StrFormat("silent for %.1f s", absl::ToDoubleSeconds(silence));
  }
  if (task.job != Job::kWorker || !member.computing) return "";
  const absl::Duration in_batch = InBatch(now, member);
  if (member.computed == 0) {
    return in_batch < kLongFirstBatch
               ? ""
               : absl::StrFormat("its first batch takes %.0f s", absl::ToDoubleSeconds(in_batch));
  }
  const absl::Duration average = (member.computing_since - member.registered) / member.computed;
  if (in_batch < kLongBatch || in_batch < kTimesTheAverage * average) return "";
  return absl::StrFormat("%.1f s in one batch, %.2f s on average", absl::ToDoubleSeconds(in_batch),
                         absl::ToDoubleSeconds(average));
}

}  // namespace

void SessionStatus::DescribeLost(v1::GetRunStatusResponse* response) const {
  const v1::RunState::Phase phase = context_.phases.phase();
  // In a run that ends tasks leave as they please.
  if (context_.phases.is_interrupted() || context_.phases.is_over() ||
      phase == v1::RunState::PHASE_STOPPING) {
    return;
  }
  for (const auto& [task, member] : context_.membership.members()) {
    // A ps is missed even if it was asked to leave: nothing is trained without it.
    if (member.live || (member.asked_to_leave && task.job == Job::kWorker)) continue;
    *response->add_lost() = ToProto(task);
  }
}

void SessionStatus::DescribeTasks(absl::Time now, v1::GetRunStatusResponse* response) const {
  for (const auto& [task, member] : context_.membership.members()) {
    if (!member.live) continue;
    v1::GetRunStatusResponse::Task* status = response->add_tasks();
    *status->mutable_member() = ToProto(task);
    status->set_incarnation(member.incarnation);
    status->set_step(member.step);
    status->set_activity(member.activity);
    status->set_seconds_since_heartbeat(absl::ToDoubleSeconds(now - member.last_contact));
    status->set_host(member.host);
    status->set_process_id(member.process_id);
    status->set_address(member.address);
    status->set_restarts(member.restarts);
    status->set_computed(member.computed);
    status->set_seconds_in_batch(absl::ToDoubleSeconds(InBatch(now, member)));
    status->set_slow(WhySlow(now, task, member));
    const Reachability& reachability = context_.reachability;
    if (task.job != Job::kWorker || reachability.Silent(task.index).empty()) continue;
    std::vector<std::string> silent;
    for (const auto& [ps, since] : reachability.Silent(task.index)) {
      silent.push_back(roster_.PsAndAddress(ps));
    }
    status->set_slow(absl::StrCat("cannot reach ", absl::StrJoin(silent, ", ")));
  }
}

void SessionStatus::DescribeWait(absl::Time now, v1::GetRunStatusResponse* response) const {
  Waits::Current wait = waits_.current(now);
  if (!wait.is_waiting) {
    if (context_.phases.is_interrupted()) {
      response->set_waits_for("the checkpoint with which it stops");
    }
    return;
  }
  if (wait.is_for_progress && wait.waited < kLongStep) return;
  std::vector<std::string> slow;
  for (const v1::GetRunStatusResponse::Task& task : response->tasks()) {
    if (task.slow().empty()) continue;
    slow.push_back(absl::StrCat(ToTaskId(task.member()).ToString(), " (", task.slow(), ")"));
  }
  // The tasks that are known to be slow explain more than a list of all.
  if (wait.is_for_progress && !slow.empty()) wait.whom = absl::StrJoin(slow, ", ");
  response->set_waits_for(absl::StrCat(wait.whom, " ", wait.what));
  response->set_seconds_waiting(absl::ToDoubleSeconds(wait.waited));
}

v1::GetRunStatusResponse SessionStatus::Describe(absl::Time now) const {
  const SessionOptions& options = context_.options;
  v1::GetRunStatusResponse response;
  *response.mutable_state() = context_.phases.state();
  response.set_protocol(kProtocolVersion);
  response.set_run_id(options.run_id);
  response.set_run_name(options.run.name());
  response.set_run_directory(options.run.out());
  response.set_num_ps_tasks(options.num_ps_tasks);
  response.set_num_replicas(context_.num_replicas());
  DescribeTasks(now, &response);
  DescribeLost(&response);
  if (!context_.phases.is_over()) DescribeWait(now, &response);
  response.set_step(context_.mode->newest_step());
  response.set_last_checkpoint(checkpoints_.durable_directory());
  response.set_last_checkpoint_step(checkpoints_.durable_version());
  response.set_skipped_batches(context_.mode->skipped().size());
  response.set_last_skipped(context_.last_skipped);
  response.set_failed_checkpoints(checkpoints_.num_failed());
  response.set_last_failure(checkpoints_.last_failure());
  context_.tables.Describe(&response);
  response.set_rollbacks(context_.num_rollbacks);
  if (context_.num_rollbacks > 0) *response.mutable_last_rollback() = context_.last_rollback;
  if (options.manifest.has_value()) {
    response.set_resumed_from(options.manifest_directory);
    response.set_resumed_step(options.manifest->step());
  }
  return response;
}

}  // namespace shoal

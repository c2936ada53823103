// What the session says of itself to whoever asks.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

#include "chief/training_session.h"
#include "runtime/process/protocol_version.h"

namespace shoal {
namespace {

// Heartbeats come at least about every second.
constexpr absl::Duration kSilent = absl::Seconds(3);
// A batch is slow when it takes longer than this and than so many of the worker's own.
constexpr absl::Duration kLongBatch = absl::Seconds(2);
constexpr int kTimesTheAverage = 4;
// The first batch makes kernels and reads data that later ones find there.
constexpr absl::Duration kLongFirstBatch = absl::Seconds(10);
// Before it says so, a run is not waiting for its next step.
constexpr absl::Duration kLongStep = absl::Seconds(2);

absl::Duration InBatch(absl::Time now, const Member& member) {
  return member.computing ? now - member.computing_since : absl::ZeroDuration();
}

std::string WhySlow(absl::Time now, TaskId task, const Member& member) {
  const absl::Duration silence = now - member.last_heard;
  if (silence > kSilent) {
    return absl::StrFormat("not heard for %.1f s", absl::ToDoubleSeconds(silence));
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

void TrainingSession::DescribeLost(v1::GetRunStatusResponse* response) const {
  const v1::RunState::Phase phase = state_.phase();
  const bool goes_on = phase == v1::RunState::PHASE_WAITING ||
                       phase == v1::RunState::PHASE_PREPARING ||
                       phase == v1::RunState::PHASE_TRAINING;
  if (stopping_ || !goes_on) return;  // Tasks go as they please.
  for (const auto& [task, member] : membership_.members()) {
    // A ps that was told to go is missed all the same: nothing is trained without it.
    if (member.live || (member.told && task.job == Job::kWorker)) continue;
    v1::Member* lost = response->add_lost();
    lost->set_job(static_cast<v1::Job>(task.job));
    lost->set_index(task.index);
  }
}

void TrainingSession::DescribeTasks(absl::Time now, v1::GetRunStatusResponse* response) const {
  for (const auto& [task, member] : membership_.members()) {
    if (!member.live) continue;
    v1::GetRunStatusResponse::Task* status = response->add_tasks();
    status->mutable_member()->set_job(static_cast<v1::Job>(task.job));
    status->mutable_member()->set_index(task.index);
    status->set_incarnation(member.incarnation);
    status->set_step(member.step);
    status->set_activity(member.activity);
    status->set_seconds_since_heartbeat(absl::ToDoubleSeconds(now - member.last_heard));
    status->set_host(member.host);
    status->set_process_id(member.process_id);
    status->set_address(member.address);
    status->set_computed(member.computed);
    status->set_seconds_in_batch(absl::ToDoubleSeconds(InBatch(now, member)));
    status->set_slow(WhySlow(now, task, member));
    if (task.job != Job::kWorker || reachability_.Silent(task.index).empty()) continue;
    std::vector<std::string> silent;
    for (const auto& [ps, since] : reachability_.Silent(task.index)) {
      silent.push_back(PsAndAddress(ps));
    }
    status->set_slow(absl::StrCat("cannot reach ", absl::StrJoin(silent, ", ")));
  }
}

void TrainingSession::DescribeWait(absl::Time now, v1::GetRunStatusResponse* response) const {
  if (wait_kind_ == WaitKind::kNone) {
    const bool writes = stopping_ && state_.phase() != v1::RunState::PHASE_DONE &&
                        state_.phase() != v1::RunState::PHASE_FAILED;
    if (writes) response->set_waits_for("the checkpoint with which it stops");
    return;
  }
  const absl::Duration waited =
      now - (wait_kind_ == WaitKind::kProgress ? std::max(progress_, wait_since_) : wait_since_);
  if (wait_kind_ == WaitKind::kProgress && waited < kLongStep) return;
  WaitText text = Describe(wait_kind_);
  std::vector<std::string> slow;
  for (const v1::GetRunStatusResponse::Task& task : response->tasks()) {
    if (task.slow().empty()) continue;
    slow.push_back(absl::StrCat(
        TaskId{static_cast<Job>(task.member().job()), task.member().index()}.ToString(), " (",
        task.slow(), ")"));
  }
  // Those that are known to hold it up say more than all that might.
  if (wait_kind_ == WaitKind::kProgress && !slow.empty()) text.whom = absl::StrJoin(slow, ", ");
  response->set_waits_for(absl::StrCat(text.whom, " ", text.what));
  response->set_seconds_waiting(absl::ToDoubleSeconds(waited));
}

v1::GetRunStatusResponse TrainingSession::Status(absl::Time now) const {
  v1::GetRunStatusResponse response;
  *response.mutable_state() = state_;
  response.set_protocol(kProtocolVersion);
  response.set_run_id(options_.run_id);
  response.set_run_name(options_.run.name());
  response.set_run_directory(options_.run.out());
  response.set_num_ps_tasks(options_.num_ps_tasks);
  response.set_num_replicas(
      options_.run.deployment().has_num_replicas() ? options_.run.deployment().num_replicas() : 1);
  DescribeTasks(now, &response);
  DescribeLost(&response);
  const bool is_over =
      state_.phase() == v1::RunState::PHASE_DONE || state_.phase() == v1::RunState::PHASE_FAILED;
  if (!is_over) DescribeWait(now, &response);
  response.set_step(newest_step());
  response.set_last_checkpoint(cuts_.durable_directory());
  response.set_last_checkpoint_step(cuts_.durable_version());
  response.set_skipped_batches(skipped().size());
  response.set_failed_checkpoints(failed_cuts_);
  response.set_last_failure(last_failure_);
  return response;
}

}  // namespace shoal

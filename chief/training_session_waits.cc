// Who is there, whom the session waits for, and what ends a wait.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

#include "chief/training_session.h"

namespace shoal {
namespace {

constexpr absl::Duration kShardsWait = absl::Seconds(2);

// More batches than workers have between two steps, or hold in one lease.
constexpr size_t kMostInHand = 4096;

// A duration in whole seconds: what a log line needs.
std::string Seconds(absl::Duration duration) {
  return absl::FormatDuration(absl::Trunc(duration, absl::Seconds(1)));
}

}  // namespace

void TrainingSession::Disconnect(absl::Time now, const v1::Identity& identity) {
  membership_.Disconnect(now, TaskOf(identity.member()), identity.incarnation());
}

std::optional<absl::Time> TrainingSession::LastHeard(TaskId task) const {
  const Member* member = membership_.Find(task);
  if (member == nullptr || !member->live) return std::nullopt;
  return member->last_heard;
}

void TrainingSession::UpdateWaitingFor() {
  std::vector<std::string> missing;
  for (uint32_t i = 0; i < ps_.size(); ++i) {
    if (!membership_.IsLive(TaskId{Job::kPs, i})) missing.push_back(absl::StrCat("ps/", i));
  }
  for (uint32_t i = 0; i < num_replicas(); ++i) {
    if (!membership_.IsLive(TaskId{Job::kWorker, i})) missing.push_back(absl::StrCat("worker/", i));
  }
  if (std::equal(missing.begin(), missing.end(), state_.waiting_for().begin(),
                 state_.waiting_for().end()))
    return;
  state_.mutable_waiting_for()->Assign(missing.begin(), missing.end());
  Changed();
}

void TrainingSession::WentOn(absl::Time now) {
  progress_ = now;
  in_hand_.clear();
}

void TrainingSession::NoteInHand(absl::Time now, const BatchKey& batch) {
  if (plan_ == nullptr || !plan_->steps.Covers(batch) || in_hand_.size() >= kMostInHand) return;
  if (in_hand_.insert(batch).second) progress_ = now;
}

void TrainingSession::ExpireStalled(absl::Time now) {
  for (const uint32_t worker : state_.workers()) {
    const TaskId task{Job::kWorker, worker};
    const Member* member = membership_.Find(task);
    if (!member->live || !member->computing || now - member->computing_since <= options_.stall) {
      continue;
    }
    Note(absl::StrFormat(
        "%s hangs: process %d on %s has computed %s for %s; it loses its place, others get its "
        "work. If it is only slow, raise cluster.stall_seconds",
        task.ToString(), member->process_id, member->host,
        member->has_batch ? ToString(member->batch) : "an evaluation block",
        Seconds(now - member->computing_since)));
    TakePlace(task, "it hangs in one batch");
  }
}

void TrainingSession::TakePlace(TaskId task, const std::string& why) {
  membership_.TakePlace(task, why);
  OnAsyncTaskLost(task, membership_.Find(task)->incarnation);
}

void TrainingSession::ExpireUnreached(absl::Time now) {
  // Who does not serve, or is gone, is no news.
  for (uint32_t ps = 0; ps < ps_.size(); ++ps) {
    if (!membership_.IsLive(TaskId{Job::kPs, ps}) || !Serves(ps)) reachability_.ForgetPs(ps);
  }
  const v1::RunState::Phase phase = state_.phase();
  if (phase != v1::RunState::PHASE_TRAINING && phase != v1::RunState::PHASE_STOPPING) return;
  const std::vector<uint32_t> workers(state_.workers().begin(), state_.workers().end());
  for (const Reachability::Verdict& verdict : reachability_.Judge(now, workers)) {
    const TaskId worker{Job::kWorker, verdict.worker};
    std::string link = absl::StrFormat("%s cannot reach %s for %s", worker.ToString(),
                                       PsAndAddress(verdict.ps), Seconds(verdict.silence));
    if (verdict.is_about_ps) {
      if (verdict.others > 0) {
        absl::StrAppend(&link, ", nor can ", verdict.others, " more of ", workers.size(),
                        " workers");
      }
      Warn(absl::StrCat(link, "; the ps loses its place and has to start again"));
      TakePlace(TaskId{Job::kPs, verdict.ps}, link);
    } else {
      Warn(absl::StrCat(link,
                        ", and others can; it loses its place, others get its work. Its next "
                        "process gets work when it has reached all ps"));
      TakePlace(worker, link);
    }
  }
}

std::string TrainingSession::PsAndAddress(uint32_t ps) const {
  const Member* member = membership_.Find(TaskId{Job::kPs, ps});
  return absl::StrCat("ps/", ps, " at ", member == nullptr ? "" : member->address);
}

std::string TrainingSession::BrokenLinks() const {
  std::vector<std::string> links;
  for (const uint32_t worker : membership_.Live(Job::kWorker)) {
    for (const auto& [ps, since] : reachability_.Silent(worker)) {
      links.push_back(absl::StrCat("worker/", worker, " cannot reach ", PsAndAddress(ps)));
    }
  }
  return absl::StrJoin(links, ", ");
}

uint32_t TrainingSession::num_replicas() const {
  const v1::DeploymentOptions& deployment = options_.run.deployment();
  return deployment.has_num_replicas() ? deployment.num_replicas() : 1;
}

void TrainingSession::WatchCheckpoints(absl::Time now) {
  if (plan_ == nullptr || state_.phase() != v1::RunState::PHASE_TRAINING || stopping_) return;
  if (!watch_.has_value()) {
    CheckpointWatch::Options options;
    options.every_steps = options_.run.checkpoint().save_every();
    if (options.every_steps == 0) {
      options.every_steps =
          async_ == nullptr ? plan_->steps.steps_per_epoch() : plan_->steps.batches_per_epoch();
    }
    if (options_.save_period > absl::ZeroDuration()) options.every = options_.save_period;
    watch_.emplace(options);
    watch_->Restart(now, newest_step());
    checkpoint_since_ = std::min(checkpoint_since_, now);
  }
  if (!watch_->IsOverdue(now, newest_step())) return;
  watch_->Restart(now, newest_step());
  ++failed_cuts_;
  last_failure_ = absl::StrFormat(
      "step %d: %s for %s, twice the time in which one is due; see the logs of the ps and the disk",
      newest_step(),
      has_checkpoint()
          ? absl::StrCat("none has succeeded since that of step ", cuts_.durable_version())
          : "none has succeeded",
      Seconds(now - checkpoint_since_));
  newest_cut_failed_ = true;
  records_.push_back(
      SessionNote{absl::StrCat("no checkpoint at ", last_failure_), /*is_warning=*/true});
}

std::string TrainingSession::AnyWorker() const {
  const uint32_t replicas = num_replicas();
  return replicas <= 1 ? "worker/0" : absl::StrCat("any of worker/0 to worker/", replicas - 1);
}

std::string TrainingSession::PsWithoutVariables() const {
  std::vector<std::string> names;
  for (uint32_t i = 0; i < ps_.size(); ++i) {
    if (!Serves(i)) names.push_back(absl::StrCat("ps/", i));
  }
  return absl::StrJoin(names, ", ");
}

std::string TrainingSession::LoadTroubles() const {
  std::vector<std::string> troubles;
  for (uint32_t i = 0; i < ps_.size(); ++i) {
    if (Serves(i) || ps_[i].load_trouble.empty()) continue;
    troubles.push_back(absl::StrCat("ps/", i, ": ", ps_[i].load_trouble));
  }
  return troubles.empty() ? "" : absl::StrCat(" (", absl::StrJoin(troubles, "; "), ")");
}

bool TrainingSession::Serves(uint32_t ps) const {
  return ps_[ps].loaded_lineage == state_.lineage() &&
         (async_ == nullptr || async_->EpochsToAsk(ps).empty());
}

std::vector<uint32_t> TrainingSession::PsWithoutLastShard() const {
  if (async_ == nullptr) {
    if (newest_step_ != plan_->last_step) return {};
    return cuts_.WithoutShard(newest_step_);
  }
  if (async_->cut() == nullptr || !async_->cut()->is_final) return {};
  return cuts_.WithoutShard(async_->cut()->name);
}

std::vector<std::string> TrainingSession::LostPs() const {
  std::vector<std::string> names;
  for (uint32_t i = 0; i < ps_.size(); ++i) {
    if (ps_[i].missing_since != absl::InfiniteFuture()) names.push_back(absl::StrCat("ps/", i));
  }
  return names;
}

TrainingSession::WaitKind TrainingSession::CurrentWait() const {
  const v1::RunState::Phase phase = state_.phase();
  if (phase == v1::RunState::PHASE_WAITING) return WaitKind::kRegistration;
  // It has a deadline of its own, and nobody gets far without it.
  if (!LostPs().empty()) return WaitKind::kPs;
  if (phase == v1::RunState::PHASE_PREPARING) return WaitKind::kVariables;
  if (stopping_) return WaitKind::kNone;  // stop_deadline_ ends it
  for (uint32_t i = 0; async_ != nullptr && i < ps_.size(); ++i) {
    if (!Serves(i)) return WaitKind::kVariables;
  }
  if (!PsWithoutLastShard().empty()) return WaitKind::kLastCut;
  return state_.workers().empty() ? WaitKind::kWorkers : WaitKind::kProgress;
}

TrainingSession::WaitText TrainingSession::Describe(WaitKind kind) const {
  switch (kind) {
    case WaitKind::kNone:
      break;
    case WaitKind::kRegistration: {
      std::vector<std::string> names;
      for (uint32_t i = 0; i < ps_.size(); ++i) {
        if (!membership_.IsLive(TaskId{Job::kPs, i})) names.push_back(absl::StrCat("ps/", i));
      }
      if (state_.workers().empty()) names.push_back(AnyWorker());
      std::string remedy = "start them with this chief's address";
      if (!last_refusal_.empty()) absl::StrAppend(&remedy, " (", last_refusal_, ")");
      return {absl::StrJoin(names, ", "), "to register", std::move(remedy)};
    }
    case WaitKind::kPs:
      return {absl::StrJoin(LostPs(), ", "), "to come back", "start it with this chief's address"};
    case WaitKind::kVariables:
      return {absl::StrCat(PsWithoutVariables(), LoadTroubles()),
              cuts_.durable_directory().empty()
                  ? "to make the initial values"
                  : absl::StrCat("to load ", cuts_.durable_directory()),
              "see their logs"};
    case WaitKind::kWorkers: {
      const std::string broken = BrokenLinks();
      return {AnyWorker(), broken.empty() ? "to come back" : "to reach all ps",
              broken.empty() ? "start one with this chief's address"
                             : absl::StrCat(broken, ": see to the network between them")};
    }
    case WaitKind::kLastCut: {
      std::vector<std::string> names;
      for (const uint32_t ps : PsWithoutLastShard()) names.push_back(absl::StrCat("ps/", ps));
      return {absl::StrJoin(names, ", "), "to write the last checkpoint",
              "see their logs and the disk"};
    }
    case WaitKind::kProgress: {
      std::vector<std::string> names;
      for (const uint32_t worker : state_.workers()) {
        const Member& member = *membership_.Find(TaskId{Job::kWorker, worker});
        names.push_back(absl::StrCat("worker/", worker, member.activity.empty() ? "" : " (",
                                     member.activity, member.activity.empty() ? "" : ")"));
      }
      const std::string broken = BrokenLinks();
      return {absl::StrJoin(names, ", "), absl::StrCat("to get past step ", newest_step()),
              broken.empty() ? "see their logs and those of the ps"
                             : absl::StrCat(broken, ": see to the network between them")};
    }
  }
  return {};
}

void TrainingSession::CheckPeers(absl::Time now) {
  const WaitKind kind = CurrentWait();
  const bool went_on = kind == WaitKind::kProgress && progress_ > wait_since_;
  if (kind != wait_kind_ || went_on) {
    wait_since_ = kind != wait_kind_ ? now : progress_;
    wait_kind_ = kind;
    wait_note_ = wait_since_ + options_.wait_note;
  }
  if (kind == WaitKind::kNone) return;
  const absl::Duration waited = now - wait_since_;
  // CheckWaits ends the wait for a ps.
  const absl::Duration limit = kind == WaitKind::kPs ? options_.ps_return_wait : options_.peer_wait;
  const bool too_long = kind != WaitKind::kPs && waited > limit;
  if (now < wait_note_ && !too_long) return;
  wait_note_ = now + options_.wait_note;
  const WaitText text = Describe(kind);
  if (too_long) {
    Fail(absl::StrFormat("waited %s for %s %s; %s, or raise cluster.wait_seconds", Seconds(waited),
                         text.whom, text.what, text.remedy),
         absl::StatusCode::kUnavailable);
    return;
  }
  Note(absl::StrFormat("waiting %s for %s %s; the run ends after %s", Seconds(waited), text.whom,
                       text.what, Seconds(limit)));
}

void TrainingSession::CheckWaits(absl::Time now) {
  if (state_.phase() == v1::RunState::PHASE_FAILED || state_.phase() == v1::RunState::PHASE_DONE)
    return;
  for (uint32_t i = 0; i < ps_.size(); ++i) {
    PsState& ps = ps_[i];
    if (membership_.IsLive(TaskId{Job::kPs, i})) {
      ps.missing_since = absl::InfiniteFuture();
    } else if (ps.incarnation != 0) {
      ps.missing_since = std::min(ps.missing_since, now);
      if (now - ps.missing_since > options_.ps_return_wait) {
        Fail(absl::StrFormat("ps/%d is gone and did not come back within %s; %s", i,
                             absl::FormatDuration(options_.ps_return_wait),
                             has_checkpoint()
                                 ? absl::StrCat("resume the run to go on from the checkpoint of "
                                                "step ",
                                                cuts_.durable_version())
                                 : "there is no checkpoint yet: the run begins anew if it is "
                                   "started again"),
             absl::StatusCode::kUnavailable);
        return;
      }
    }
  }
  // With nobody to compute the steps up to the cut, the shards on their way are all there is to
  // wait for.
  if (stopping_ && state_.phase() == v1::RunState::PHASE_TRAINING &&
      membership_.Live(Job::kWorker).empty()) {
    stop_deadline_ = std::min(stop_deadline_, now + kShardsWait);
  }
  if (stopping_ && now > stop_deadline_) {
    Note(has_checkpoint() ? absl::StrFormat("no new checkpoint in time; the one of step %d stands",
                                            cuts_.durable_version())
                          : "no checkpoint in time; there is none");
    SetPhase(v1::RunState::PHASE_DONE);
    return;
  }
  CheckPeers(now);
}

}  // namespace shoal

// What follows from messages and time: phases, rollbacks, cuts, records. Commands to ps are in
// training_session_commands.cc, bad batches in training_session_faults.cc, waits and their ends in
// training_session_waits.cc.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

#include "chief/training_session.h"
#include "runtime/config/run_config.h"

namespace shoal {
namespace {

// How often the same refusal is said, however often somebody asks.
constexpr absl::Duration kSameRefusal = absl::Seconds(10);

}  // namespace

void TrainingSession::SetPhase(v1::RunState::Phase phase) {
  if (state_.phase() == phase) return;
  state_.set_phase(phase);
  if (phase == v1::RunState::PHASE_DONE && stopping_) {
    state_.set_failure_code(static_cast<uint32_t>(absl::StatusCode::kCancelled));
    state_.set_message("stopped on request");
  }
  Changed();
  Note(absl::StrCat(v1::RunState::Phase_Name(phase), ", step ", newest_step(), ", lineage ",
                    state_.lineage()));
  const bool over = phase == v1::RunState::PHASE_DONE || phase == v1::RunState::PHASE_FAILED;
  if (over && async_ != nullptr) {
    async_->lines().Flush();
    TakeAsyncLines();
  }
}

void TrainingSession::Note(std::string text) { records_.push_back(SessionNote{std::move(text)}); }

void TrainingSession::Warn(std::string text) {
  records_.push_back(SessionNote{std::move(text), /*is_warning=*/true});
}

void TrainingSession::NoteRefusal(absl::Time now, const std::string& why) {
  if (why == noted_refusal_ && now < refusal_noted_ + kSameRefusal) return;
  noted_refusal_ = why;
  refusal_noted_ = now;
  Note(why);
}

void TrainingSession::Fail(const std::string& message, absl::StatusCode code) {
  if (state_.phase() == v1::RunState::PHASE_FAILED || state_.phase() == v1::RunState::PHASE_DONE)
    return;
  state_.set_failure_code(static_cast<uint32_t>(code));
  state_.set_message(message);
  SetPhase(v1::RunState::PHASE_FAILED);
  Note(absl::StrCat("failed: ", message));
}

void TrainingSession::Fence(const std::string& why) {
  is_fenced_ = true;
  // The tasks are to start again and find the newer chief; this chief is not.
  Fail(
      absl::StrFormat("%s; this one, of term %d, ends and writes nothing more", why, options_.term),
      absl::StatusCode::kAborted);
}

void TrainingSession::UpdateView() {
  std::vector<uint32_t> live;
  std::vector<uint64_t> incarnations;
  std::vector<uint32_t> waiting;
  std::vector<uint64_t> waiting_incarnations;
  for (const uint32_t index : membership_.Live(Job::kWorker)) {
    const bool works = reachability_.MayWork(index);
    (works ? live : waiting).push_back(index);
    (works ? incarnations : waiting_incarnations)
        .push_back(membership_.Find(TaskId{Job::kWorker, index})->incarnation);
  }
  const auto assign = [](const auto& values, auto* field) {
    const bool same = std::equal(values.begin(), values.end(), field->begin(), field->end());
    field->Assign(values.begin(), values.end());
    return same;
  };
  bool same_incarnations = assign(incarnations, state_.mutable_worker_incarnations());
  same_incarnations &= assign(waiting, state_.mutable_waiting_workers());
  same_incarnations &= assign(waiting_incarnations, state_.mutable_waiting_incarnations());
  if (std::equal(live.begin(), live.end(), state_.workers().begin(), state_.workers().end())) {
    if (!same_incarnations) Changed();  // A worker came back before its place was given up.
    return;
  }
  state_.mutable_workers()->Assign(live.begin(), live.end());
  state_.set_view(state_.view() + 1);
  Changed();
  Note(absl::StrFormat("view %d: workers [%s]", state_.view(), absl::StrJoin(live, ",")));
}

void TrainingSession::UpdatePsAddresses() {
  state_.clear_ps_addresses();
  state_.clear_ps_incarnations();
  for (uint32_t i = 0; i < ps_.size(); ++i) {
    const Member* member = membership_.Find(TaskId{Job::kPs, i});
    state_.add_ps_addresses(member == nullptr ? "" : member->address);
    state_.add_ps_incarnations(ps_[i].incarnation);
  }
  Changed();
}

void TrainingSession::StartIfComplete() {
  if (state_.phase() != v1::RunState::PHASE_WAITING || plan_ == nullptr) return;
  if (membership_.Live(Job::kPs).size() < ps_.size() || membership_.Live(Job::kWorker).empty())
    return;
  SetPhase(v1::RunState::PHASE_PREPARING);
}

void TrainingSession::StartTrainingIfLoaded() {
  if (state_.phase() != v1::RunState::PHASE_PREPARING) return;
  for (const PsState& ps : ps_) {
    if (ps.loaded_lineage != state_.lineage()) return;
  }
  if (async_ != nullptr && !async_->all_serve()) return;
  SetPhase(v1::RunState::PHASE_TRAINING);
  records_.push_back(TrainingStarts{plan_->steps, plan_->last_step});
  if (stopping_ && async_ == nullptr) cuts_.Request(newest_step_ + 2);
}

void TrainingSession::Rollback(absl::Time now, const std::string& reason) {
  if (state_.phase() == v1::RunState::PHASE_FAILED || state_.phase() == v1::RunState::PHASE_DONE)
    return;
  state_.set_lineage(state_.lineage() + 1);
  const uint64_t version = cuts_.durable_version();
  cuts_.OnRollback();
  exports_.OnRollback();
  decisions_.OnRollback();
  if (evaluations_.has_value()) evaluations_->ForgetAbove(version);
  if (norms_.has_value()) norms_->Clear();
  // Lines up to the cut still wait for their evaluations.
  while (!held_lines_.empty() && held_lines_.back().step() > version) held_lines_.pop_back();
  newest_step_ = version;
  saved_step_ = version;
  for (PsState& ps : ps_) ps.loaded_lineage = 0;
  state_.set_phase(v1::RunState::PHASE_PREPARING);
  Changed();
  UpdateDecisions();
  records_.push_back(CheckpointsVoid{version});
  records_.push_back(RolledBack{version, reason});
  Note(absl::StrFormat("%s, lineage %d: %s",
                       has_checkpoint() ? absl::StrCat("back to the checkpoint of step ", version)
                                        : "no checkpoint yet: begins anew",
                       state_.lineage(), reason));
  CheckWaits(now);
}

void TrainingSession::Progress(absl::Time now) {
  if (async_ != nullptr) return ProgressAsync(now);
  FlushLines();
  // A durable cut has all its lines: those of later steps are void if the run goes back to it.
  WriteManifestIfComplete(held_lines_.empty() ? newest_step_ : held_lines_.front().step() - 1);
  FinishIfDurable();
  CheckWaits(now);
  ExportIfComplete(now);
}

void TrainingSession::FlushLines() {
  while (!held_lines_.empty()) {
    StepLine line{held_lines_.front(), std::nullopt};
    line.report.set_classifies(model_->classifies());
    const uint64_t step = line.report.step();
    if (plan_->evaluations.Contains(plan_->steps, step) && evaluations_->num_blocks() > 0) {
      line.evaluation = evaluations_->Total(step);
      // Whoever contributed to a later step had evaluated its blocks before. What is missing now
      // was with a worker that died and whose batch is skipped: it will not come any more.
      if (!line.evaluation.has_value()) {
        const bool last_is_evaluated =
            step + 1 == plan_->last_step && evaluations_->Total(plan_->last_step).has_value();
        if (newest_step_ < step + 2 && !last_is_evaluated) return;
        Note(absl::StrFormat("no evaluation of step %d: a worker died with a part of it", step));
      }
    }
    records_.push_back(std::move(line));
    held_lines_.pop_front();
    if (step > 1) evaluations_->ForgetBelow(std::min(step, cuts_.durable_version()));
  }
}

void TrainingSession::GiveUpSupersededCuts(uint64_t lines_end) {
  for (const auto& [version, directory] : cuts_.Superseded(lines_end)) {
    // Who asked for it is answered by it, or by one that is asked for later.
    if (cuts_.requested() && cuts_.requested_version() == version) continue;
    GiveUpCut(version, directory, "superseded by a later one; the directory is too slow");
  }
}

void TrainingSession::WriteManifestIfComplete(uint64_t lines_end) {
  if (async_ == nullptr && manifests_under_way_ > 0) return GiveUpSupersededCuts(lines_end);
  while (std::optional<CutLedger::Complete> cut = cuts_.TakeComplete(lines_end)) {
    ++manifests_under_way_;
    ManifestToWrite write;
    write.directory = cut->directory;
    v1::Manifest& manifest = write.manifest;
    manifest.set_format_version(1);
    manifest.set_min_reader_version(1);
    manifest.set_run_id(options_.run_id);
    manifest.set_term(options_.term);
    manifest.set_lineage(state_.lineage());
    manifest.set_step(cut->version);
    manifest.set_model_fingerprint(ModelFingerprint(plan_->variables));
    for (const v1::VariableSpec& variable : plan_->variables) *manifest.add_variables() = variable;
    *manifest.mutable_shard_map() = plan_->shard_map;
    plan_->steps.ToProto(manifest.mutable_plan());
    for (const v1::ShardFile& shard : cut->shards) *manifest.add_shards() = shard;
    for (const auto& [batch, reason] : skipped()) {
      v1::SkippedBatch* skip = manifest.add_skipped();
      *skip->mutable_batch() = ToProto(batch);
      skip->set_reason(reason);
    }
    manifest.set_finished(IsFinalCut(cut->version));
    if (async_ != nullptr && async_->cut() != nullptr) manifest.set_ledger(async_->cut()->ledger);
    manifest.set_seed(options_.run.has_seed() ? options_.run.seed() : 1);
    manifest.set_synchronous(state_.synchronous());
    manifest.set_data_fingerprint(model_->data_fingerprint());
    manifest.set_optimizer(OptimizerName(options_.run.optimizer()));
    if (ComputesInBfloat16(options_.run)) manifest.set_compute_dtype("bfloat16");
    // At the end of the run workers still have to evaluate.
    if (stopping_ && cuts_.requested() && cuts_.requested_version() <= cut->version) {
      SetPhase(v1::RunState::PHASE_STOPPING);
    }
    if (async_ != nullptr) async_->OnManifestBegun(cut->version);
    records_.push_back(std::move(write));
    if (async_ == nullptr) return;
  }
}

bool TrainingSession::IsFinalCut(uint64_t version) const {
  if (plan_ == nullptr) return false;
  if (async_ == nullptr) return version == plan_->last_step;
  return async_->cut() != nullptr && async_->cut()->name == version && async_->cut()->is_final;
}

void TrainingSession::GiveUpCut(uint64_t version, const std::string& directory,
                                absl::string_view why) {
  if (cuts_.HasFailed(version)) return;  // another ps has said so
  const bool is_final = IsFinalCut(version);
  ++failed_cuts_;
  last_failure_ = absl::StrCat("step ", version, ": ", why);
  newest_cut_failed_ = true;
  records_.push_back(CutGivenUp{directory, last_failure_});
  cuts_.Fail(version);
  exports_.Forget(version);
  if (async_ != nullptr) async_->OnCutFailed(version);
  if (is_final)
    Fail(absl::StrCat("the final checkpoint could not be written: ", why),
         absl::StatusCode::kInternal);
}

void TrainingSession::OnManifestWritten(absl::Time now, const ManifestToWrite& write,
                                        const absl::Status& status) {
  const uint64_t version = write.manifest.step();
  const bool current = write.manifest.lineage() == state_.lineage();
  if (manifests_under_way_ > 0) --manifests_under_way_;
  if (!status.ok()) {
    Note(absl::StrFormat("no checkpoint at step %d: %s", version, status.message()));
    if (current) {
      GiveUpCut(version, write.directory, status.message());
    } else {
      records_.push_back(CutGivenUp{write.directory, ""});
    }
    return;
  }
  // A manifest of an older lineage is a valid cut of it, but the run went back before it became
  // known: it stays unused.
  if (!current) return;
  newest_cut_failed_ = false;
  save_due_ = now + options_.save_period;
  saved_step_ = std::max(saved_step_, version);
  checkpoint_since_ = now;
  if (watch_.has_value()) watch_->Restart(now, version);
  cuts_.OnDurable(version);
  exports_.ForgetBelow(version);
  if (async_ != nullptr) {
    // Good even if a ps was lost meanwhile, which has made the ledger forget the cut.
    const bool is_first = cuts_.durable_directory().empty();  // it may be of no update yet
    if (is_first || version > cuts_.durable_version()) cuts_.Restore(version, write.directory);
    async_->OnCutDurable(version);
  }
  const bool is_answered = cuts_.requested() && cuts_.requested_version() <= version;
  if (is_answered && (async_ != nullptr || !stopping_)) cuts_.EndRequest();
  Progress(now);
}

bool TrainingSession::CanCut() const {
  const v1::RunState::Phase phase = state_.phase();
  if (phase == v1::RunState::PHASE_TRAINING) return true;
  if (async_ == nullptr) return phase == v1::RunState::PHASE_STOPPING && cuts_.requested();
  return phase == v1::RunState::PHASE_PREPARING || phase == v1::RunState::PHASE_STOPPING;
}

absl::StatusOr<uint64_t> TrainingSession::RequestStop(absl::Time now,
                                                      const v1::RequestStopRequest& request) {
  if (!request.run_id().empty() && request.run_id() != options_.run_id) {
    return absl::FailedPreconditionError(
        absl::StrFormat("run_id is %s, not %s", options_.run_id, request.run_id()));
  }
  if (!request.stop() && !CanCut()) {
    const std::string why = absl::StrFormat(
        "no checkpoint can be made in %s at step %d; %s", v1::RunState::Phase_Name(state_.phase()),
        newest_step(),
        has_checkpoint() ? absl::StrCat("the newest is of step ", cuts_.durable_version())
                         : "there is none yet");
    NoteRefusal(now, why);
    return absl::FailedPreconditionError(why);
  }
  if (request.stop() && !stopping_) {
    stopping_ = true;
    stop_deadline_ = now + options_.stop_wait;
    Note(absl::StrCat("stopping: ", request.reason()));
  }
  if (async_ != nullptr && state_.phase() != v1::RunState::PHASE_WAITING) {
    async_->WantCut();
    const uint64_t name = async_->NextCutName();
    Progress(now);
    return name;
  }
  if (state_.phase() == v1::RunState::PHASE_TRAINING) {
    cuts_.Request(newest_step_ + 2);
    return cuts_.requested_version();
  }
  if (state_.phase() == v1::RunState::PHASE_STOPPING && cuts_.requested()) {
    return cuts_.requested_version();  // On its way.
  }
  if (state_.phase() == v1::RunState::PHASE_PREPARING) return newest_step_ + 2;  // Asked for then.
  if (stopping_ && state_.phase() == v1::RunState::PHASE_WAITING) Progress(now);
  return cuts_.durable_version();
}

bool TrainingSession::RestsOn(absl::string_view directory) const {
  const auto has_loaded = [this](const PsState& ps) {
    return ps.loaded_lineage == state_.lineage();
  };
  return cuts_.durable_directory() == directory && std::all_of(ps_.begin(), ps_.end(), has_loaded);
}

void TrainingSession::FinishIfDurable() {
  if (state_.phase() == v1::RunState::PHASE_FAILED || state_.phase() == v1::RunState::PHASE_DONE)
    return;
  const bool at_end =
      plan_ != nullptr && cuts_.durable_version() == plan_->last_step && held_lines_.empty() &&
      newest_step_ == plan_->last_step &&
      (evaluations_->num_blocks() == 0 || evaluations_->Total(plan_->last_step).has_value());
  const bool stopped =
      stopping_ && (state_.phase() == v1::RunState::PHASE_WAITING ||
                    (cuts_.requested() && cuts_.durable_version() >= cuts_.requested_version()));
  if (at_end) stopping_ = false;
  if (stopped && !at_end) ForgetLinesAbove(cuts_.newest_taken());
  if (at_end || stopped) SetPhase(v1::RunState::PHASE_DONE);
}

void TrainingSession::ForgetLinesAbove(uint64_t version) {
  if (newest_step_ <= version) return;
  newest_step_ = version;
  held_lines_.clear();  // A durable cut has all its lines.
  records_.push_back(RolledBack{version, "stopped", /*lines_only=*/true});
}

void TrainingSession::Tick(absl::Time now) {
  for (TaskId task : membership_.Expire(now)) {
    Note(absl::StrCat(task.ToString(), " is gone: its lease has ended"));
    OnAsyncTaskLost(task, membership_.Find(task)->incarnation);
  }
  ExpireStalled(now);
  ExpireUnreached(now);
  UpdateView();
  UpdateWaitingFor();
  Decide(now);
  SaveIfDue(now);
  Progress(now);
  WatchCheckpoints(now);
}

void TrainingSession::SaveIfDue(absl::Time now) {
  if (options_.save_period <= absl::ZeroDuration()) return;
  if (state_.phase() != v1::RunState::PHASE_TRAINING || stopping_) return;
  if (save_due_ == absl::InfiniteFuture()) save_due_ = now + options_.save_period;
  if (now < save_due_ || cuts_.requested()) return;
  save_due_ = now + options_.save_period;
  const uint64_t step = newest_step();
  if (step <= saved_step_) return;  // Nothing would be lost.
  if (async_ != nullptr) {
    async_->WantCut();
  } else if (step + 2 < plan_->last_step) {
    cuts_.Request(step + 2);
  } else {
    return;  // The last one is near.
  }
  saved_step_ = step;
}

void TrainingSession::OnPause(absl::Time now, absl::Duration pause) {
  membership_.GrantLeases(now);
  Warn(
      absl::StrFormat("this chief stood still for %s (stopped, suspended or short of processors): "
                      "every task has its lease again",
                      absl::FormatDuration(absl::Trunc(pause, absl::Milliseconds(100)))));
}

std::vector<SessionRecord> TrainingSession::TakeRecords() { return std::exchange(records_, {}); }

}  // namespace shoal

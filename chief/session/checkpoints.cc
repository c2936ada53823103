#include "chief/session/checkpoints.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "base/status_macros.h"
#include "runtime/config/run_config.h"

namespace shoal {
namespace {

// While the newest checkpoint is not older than this, one that a later one supersedes is not
// missed.
constexpr absl::Duration kFresh = absl::Minutes(1);

}  // namespace

Checkpoints::Checkpoints(SessionContext* context, ModelExports* exports)
    : context_(*context), exports_(*exports), saved_step_(context->cuts.durable_version()) {}

absl::Status Checkpoints::ReportShard(absl::Time now, const v1::ReportShardRequest& request) {
  RETURN_IF_ERROR(context_.mode->CheckVersion(request.version()));
  const TaskId task = ToTaskId(request.identity().member());
  const bool is_under_way = context_.mode->IsUnderWay(request.version());
  // The shard is of no use, even if it is complete.
  if (context_.cuts.HasFailed(request.version())) {
    context_.log.Add(CutGivenUp{request.directory(), ""});
  }
  if (request.superseded() && IsFresh(now)) {
    if (is_under_way) LeaveOut(request.version(), request.directory(), request.error());
  } else if (!request.error().empty()) {
    context_.log.NoteTrouble(absl::StrFormat("no checkpoint at step %d: %s: %s", request.version(),
                                             task.ToString(), request.error()));
    const bool is_final = context_.mode->IsFinalCut(request.version());
    if (is_under_way) GiveUp(request.version(), request.directory(), request.error());
    if (is_under_way && is_final) OnFinalFailed(now, request.error());
  } else if (is_under_way) {
    context_.progress.OnProgress(now);
    context_.cuts.AddShard(task.index, request.version(), request.directory(), request.file());
    exports_.OnShard(request.version(), context_.phases.is_interrupted() ||
                                            context_.mode->IsFinalCut(request.version()));
    context_.mode->OnShard(task.index, request);
  }
  return absl::OkStatus();
}

void Checkpoints::WriteManifests(absl::Time now, uint64_t newest) {
  const bool one_at_a_time = context_.mode->WritesOneManifest();
  if (one_at_a_time && manifests_under_way_ > 0) return GiveUpSuperseded(now, newest);
  while (const std::optional<CutLedger::Complete> cut = context_.cuts.TakeComplete(newest)) {
    WriteManifest(*cut);
    if (one_at_a_time) return;
  }
}

void Checkpoints::WriteManifest(const CutLedger::Complete& cut) {
  ++manifests_under_way_;
  const RunPlan& plan = *context_.plan;
  const v1::RunConfig& run = context_.options.run;
  ManifestToWrite write;
  write.directory = cut.directory;
  v1::Manifest& manifest = write.manifest;
  manifest.set_format_version(1);
  manifest.set_min_reader_version(1);
  manifest.set_run_id(context_.options.run_id);
  manifest.set_term(context_.options.term);
  manifest.set_lineage(context_.phases.lineage());
  manifest.set_step(cut.version);
  manifest.set_model_fingerprint(ModelFingerprint(plan.variables));
  for (const v1::VariableSpec& variable : plan.variables) *manifest.add_variables() = variable;
  *manifest.mutable_shard_map() = plan.shard_map;
  plan.steps.ToProto(manifest.mutable_plan());
  for (const v1::ShardFile& shard : cut.shards) *manifest.add_shards() = shard;
  for (const auto& [batch, reason] : context_.mode->skipped()) {
    v1::SkippedBatch* skip = manifest.add_skipped();
    *skip->mutable_batch() = ToProto(batch);
    skip->set_reason(reason);
  }
  manifest.set_finished(context_.mode->IsFinalCut(cut.version));
  manifest.set_seed(run.seed());
  manifest.set_synchronous(IsSynchronous(run));
  manifest.set_data_fingerprint(context_.model->data_fingerprint());
  manifest.set_optimizer(OptimizerName(run.optimizer()));
  if (ComputesInBfloat16(run)) manifest.set_compute_dtype("bfloat16");
  if (context_.mode->IsFinalCut(cut.version)) context_.phases.OnTrained();
  // At the end of a run workers still have to evaluate; in a stop they have nothing left to do.
  if (context_.phases.is_interrupted() && context_.cuts.requested() &&
      context_.cuts.requested_version() <= cut.version) {
    context_.phases.Set(v1::RunState::PHASE_STOPPING);
  }
  context_.mode->OnManifestBegun(cut.version, &manifest);
  context_.log.Add(std::move(write));
}

void Checkpoints::GiveUpSuperseded(absl::Time now, uint64_t newest) {
  for (const auto& [version, directory] : context_.cuts.Superseded(newest)) {
    // The user who asked for a version receives it, or one that is requested later.
    if (context_.cuts.requested() && context_.cuts.requested_version() == version) continue;
    const char* why = "superseded by a later one; the directory is too slow";
    if (IsFresh(now)) {
      LeaveOut(version, directory, why);
    } else {
      GiveUp(version, directory, why);
    }
  }
}

bool Checkpoints::IsFresh(absl::Time now) const { return now - checkpoint_since_ <= kFresh; }

void Checkpoints::LeaveOut(uint64_t version, const std::string& directory, absl::string_view why) {
  if (context_.cuts.HasFailed(version)) return;  // Another ps has reported it before.
  context_.log.Note(absl::StrFormat("the checkpoint of step %d is left out: %s", version, why));
  Forget(version, directory, "");
}

void Checkpoints::Forget(uint64_t version, const std::string& directory, const std::string& why) {
  context_.log.Add(CutGivenUp{directory, why});
  context_.cuts.Fail(version);
  exports_.OnCutFailed(version);
  context_.mode->OnCutFailed(version);
}

void Checkpoints::CountFailure(uint64_t step, absl::string_view why) {
  ++num_failed_;
  last_failure_ = absl::StrCat("step ", step, ": ", why);
  newest_has_failed_ = true;
}

void Checkpoints::GiveUp(uint64_t version, const std::string& directory, absl::string_view why) {
  if (context_.cuts.HasFailed(version)) return;  // Another ps has reported it before.
  CountFailure(version, why);
  Forget(version, directory, last_failure_);
}

bool Checkpoints::IsLast(uint64_t version) const {
  const CutLedger& cuts = context_.cuts;
  return context_.mode->IsFinalCut(version) ||
         (context_.phases.phase() == v1::RunState::PHASE_STOPPING && cuts.requested() &&
          cuts.requested_version() <= version);
}

void Checkpoints::OnFinalFailed(absl::Time now, absl::string_view why) {
  context_.progress.OnProgress(now);  // This wait has a deadline of its own.
  final_fails_since_ = std::min(final_fails_since_, now);
  const absl::Duration waited = now - final_fails_since_;
  if (waited < context_.options.peer_wait) return;
  context_.phases.Fail(
      absl::StrFormat("the final checkpoint could not be written for %s: %s; see to the run's "
                      "directory and start the run again, or raise cluster.wait_seconds",
                      absl::FormatDuration(absl::Trunc(waited, absl::Seconds(1))), why),
      absl::StatusCode::kUnavailable);
}

void Checkpoints::RepeatIfDue(absl::Time now) {
  if (!repeated_.has_value() || now < repeat_at_) return;
  ManifestToWrite write = *std::exchange(repeated_, std::nullopt);
  if (context_.phases.is_over()) return;
  ++manifests_under_way_;
  context_.log.Add(std::move(write));
}

bool Checkpoints::OnManifestWritten(absl::Time now, const ManifestToWrite& write,
                                    const absl::Status& status) {
  const uint64_t version = write.manifest.step();
  const bool is_current = write.manifest.lineage() == context_.phases.lineage();
  if (manifests_under_way_ > 0) --manifests_under_way_;
  if (!status.ok()) {
    context_.log.NoteTrouble(
        absl::StrFormat("no checkpoint at step %d: %s", version, status.message()));
    if (is_current && write.manifest.synchronous() && IsLast(version)) {
      // All shards are there, and no later cut will come.
      CountFailure(version, status.message());
      repeated_ = write;
      repeat_at_ = now + kFinalRetry;
      if (context_.mode->IsFinalCut(version)) OnFinalFailed(now, status.message());
    } else if (is_current) {
      const bool is_final = context_.mode->IsFinalCut(version);
      GiveUp(version, write.directory, status.message());
      if (is_final) OnFinalFailed(now, status.message());
    } else {
      context_.log.Add(CutGivenUp{write.directory, ""});
    }
    return false;
  }
  // A manifest of an older lineage is a valid cut of it, but the run went back before it became
  // known: it stays unused.
  if (!is_current) return false;
  newest_has_failed_ = false;
  final_fails_since_ = absl::InfiniteFuture();
  save_due_ = now + context_.options.save_period;
  saved_step_ = std::max(saved_step_, version);
  checkpoint_since_ = now;
  if (watch_.has_value()) watch_->Restart(now, version);
  context_.cuts.OnDurable(version);
  exports_.OnCutDurable(version);
  context_.mode->OnCutDurable(version, write.directory);
  return true;
}

absl::StatusOr<uint64_t> Checkpoints::Request(absl::Time now, bool stop) {
  if (!stop && !context_.mode->CanCut()) {
    const std::string why = absl::StrFormat(
        "no checkpoint can be made in %s at step %d; %s",
        v1::RunState::Phase_Name(context_.phases.phase()), context_.mode->newest_step(),
        context_.has_checkpoint() ? absl::StrCat("the newest is of step ", durable_version())
                                  : "there is none yet");
    context_.log.NoteRefusal(now, why);
    return absl::FailedPreconditionError(why);
  }
  return context_.mode->RequestCut();
}

void Checkpoints::SaveIfDue(absl::Time now) {
  const absl::Duration period = context_.options.save_period;
  if (period <= absl::ZeroDuration()) return;
  if (context_.phases.phase() != v1::RunState::PHASE_TRAINING || context_.phases.is_interrupted()) {
    return;
  }
  if (save_due_ == absl::InfiniteFuture()) save_due_ = now + period;
  if (now < save_due_ || context_.cuts.requested()) return;
  save_due_ = now + period;
  const uint64_t step = context_.mode->newest_step();
  if (step <= saved_step_) return;  // A rollback would lose nothing.
  if (context_.mode->SaveNow()) saved_step_ = step;
}

void Checkpoints::BeginWatch(absl::Time now) {
  CheckpointWatch::Options options;
  options.every_steps = context_.options.run.checkpoint().save_every();
  if (options.every_steps == 0) options.every_steps = context_.mode->StepsPerEpoch();
  if (context_.options.save_period > absl::ZeroDuration()) {
    options.every = context_.options.save_period;
  }
  watch_.emplace(options);
  watch_->Restart(now, context_.mode->newest_step());
  checkpoint_since_ = std::min(checkpoint_since_, now);
}

void Checkpoints::Watch(absl::Time now) {
  if (context_.phases.phase() != v1::RunState::PHASE_TRAINING || context_.phases.is_interrupted()) {
    return;
  }
  if (!watch_.has_value()) BeginWatch(now);
  const uint64_t step = context_.mode->newest_step();
  if (!watch_->IsOverdue(now, step)) return;
  watch_->Restart(now, step);
  CountFailure(
      step,
      absl::StrFormat(
          "%s for %s, twice the time after which one is due; see the logs of the ps, and check "
          "the disk of the run's directory",
          context_.has_checkpoint()
              ? absl::StrCat("none has succeeded since that of step ", durable_version())
              : "none has succeeded",
          absl::FormatDuration(absl::Trunc(now - checkpoint_since_, absl::Seconds(1)))));
  context_.log.Warn(absl::StrCat("no checkpoint at ", last_failure_));
}

void Checkpoints::OnRollback() {
  saved_step_ = durable_version();
  final_fails_since_ = absl::InfiniteFuture();
  if (!repeated_.has_value()) return;
  context_.log.Add(CutGivenUp{repeated_->directory, ""});
  repeated_.reset();
}

bool Checkpoints::RestsOn(absl::string_view directory) const {
  const auto has_loaded = [this](const PsState& ps) {
    return ps.loaded_lineage == context_.phases.lineage();
  };
  return durable_directory() == directory &&
         std::all_of(context_.ps.begin(), context_.ps.end(), has_loaded);
}

}  // namespace shoal

// model.safetensors of checkpoints that are durable: written by the ps, behind the training.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

#include "chief/training_session.h"

namespace shoal {

bool TrainingSession::export_pending() const {
  return options_.export_every.has_value() && state_.phase() == v1::RunState::PHASE_DONE &&
         has_checkpoint() && exported_ != cuts_.durable_directory();
}

absl::Status TrainingSession::ReportExport(absl::Time now, const v1::ReportShardRequest& request) {
  if (request.error().empty()) {
    exports_.AddPart(request.identity().member().index(), request.version());
  } else {
    Note(absl::StrFormat("no model.safetensors of step %d from ps/%d: %s", request.version(),
                         request.identity().member().index(), request.error()));
    exports_.Fail(request.version());
  }
  Progress(now);
  return absl::OkStatus();
}

bool TrainingSession::MayBecomeComplete(absl::Time now,
                                        const std::vector<uint32_t>& missing) const {
  const absl::Duration wait = interrupted() ? options_.export_wait / 2 : options_.peer_wait;
  return exports_.IsWanted(cuts_.durable_version()) && now < done_since_ + wait &&
         std::all_of(missing.begin(), missing.end(), [this](uint32_t ps) {
           return membership_.IsLive(TaskId{Job::kPs, ps});
         });
}

void TrainingSession::ExportIfComplete(absl::Time now) {
  const bool is_done = state_.phase() == v1::RunState::PHASE_DONE;
  if (is_done) done_since_ = std::min(done_since_, now);
  if (!options_.export_every.has_value() || !has_checkpoint() ||
      exported_ == cuts_.durable_directory()) {
    return;
  }
  const uint64_t version = cuts_.durable_version();
  const std::vector<uint32_t> missing = exports_.Missing(version, cuts_.PsWithSlices());
  if (exports_.IsWanted(version) && missing.empty()) {
    exported_ = cuts_.durable_directory();
    records_.push_back(ModelExport{exported_, /*parts_are_written=*/true, absl::InfiniteFuture()});
  } else if (is_done && !MayBecomeComplete(now, missing)) {
    exported_ = cuts_.durable_directory();
    const absl::Time deadline =
        interrupted() ? done_since_ + options_.export_wait : absl::InfiniteFuture();
    records_.push_back(ModelExport{exported_, /*parts_are_written=*/false, deadline});
  }
}

void TrainingSession::OnExported(absl::Time now, const ModelExport& made,
                                 const absl::Status& status) {
  if (status.ok() || !made.parts_are_written || made.directory != exported_) return;
  // At the end of the run it is made of the shards.
  exports_.Fail(cuts_.durable_version());
  exported_.clear();
  ExportIfComplete(now);
}

}  // namespace shoal

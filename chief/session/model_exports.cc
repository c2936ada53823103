#include "chief/session/model_exports.h"

#include <algorithm>

#include "absl/strings/str_format.h"

namespace shoal {

bool ModelExports::IsLastMissing(const std::string& newest) const {
  return context_.options.export_every.has_value() &&
         context_.phases.phase() == v1::RunState::PHASE_DONE && context_.has_checkpoint() &&
         newest != context_.cuts.durable_directory();
}

void ModelExports::OnShard(uint64_t version, bool is_last) {
  if (context_.options.export_every.has_value()) exports_.OnShard(version, is_last);
}

void ModelExports::ReportPart(const v1::ReportShardRequest& request) {
  const uint32_t ps = request.identity().member().index();
  if (request.error().empty()) {
    exports_.AddPart(ps, request.version());
    return;
  }
  context_.log.NoteTrouble(absl::StrFormat("no model.safetensors of step %d from ps/%d: %s",
                                           request.version(), ps, request.error()));
  exports_.Fail(request.version());
}

bool ModelExports::MayBecomeComplete(absl::Time now, const std::vector<uint32_t>& missing) const {
  const absl::Duration wait = context_.phases.is_interrupted() ? context_.options.export_wait / 2
                                                               : context_.options.peer_wait;
  return exports_.IsWanted(context_.cuts.durable_version()) && now < done_since_ + wait &&
         std::all_of(missing.begin(), missing.end(),
                     [this](uint32_t ps) { return context_.IsLivePs(ps); });
}

void ModelExports::Advance(absl::Time now) {
  const bool is_done = context_.phases.phase() == v1::RunState::PHASE_DONE;
  if (is_done) done_since_ = std::min(done_since_, now);
  const std::string& directory = context_.cuts.durable_directory();
  if (!context_.options.export_every.has_value() || !context_.has_checkpoint() ||
      exported_ == directory) {
    return;
  }
  const uint64_t version = context_.cuts.durable_version();
  const std::vector<uint32_t> missing = exports_.Missing(version, context_.cuts.PsWithSlices());
  if (exports_.IsWanted(version) && missing.empty()) {
    exported_ = directory;
    context_.log.Add(ModelExport{exported_, /*parts_are_written=*/true, absl::InfiniteFuture()});
  } else if (is_done && !MayBecomeComplete(now, missing)) {
    exported_ = directory;
    const absl::Time deadline = context_.phases.is_interrupted()
                                    ? done_since_ + context_.options.export_wait
                                    : absl::InfiniteFuture();
    context_.log.Add(ModelExport{exported_, /*parts_are_written=*/false, deadline});
  }
}

bool ModelExports::OnExported(const ModelExport& made, const absl::Status& status) {
  if (status.ok() || !made.parts_are_written || made.directory != exported_) {
    made_ = made.directory;
    return true;
  }
  // At the end of the run the chief makes it from the shards.
  exports_.Fail(context_.cuts.durable_version());
  exported_.clear();
  return false;
}

}  // namespace shoal

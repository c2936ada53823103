#ifndef SHOAL_CHIEF_SESSION_MODEL_EXPORTS_H_
#define SHOAL_CHIEF_SESSION_MODEL_EXPORTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "chief/ledgers/export_ledger.h"
#include "chief/session/session_context.h"
#include "chief/session/session_records.h"
#include "proto/v1/chief_service.pb.h"

namespace shoal {

// Decides which durable checkpoints get a model.safetensors, and requests it. The ps write their
// parts of it while they train; at the end of a run, if a ps does not write its part, the chief
// makes the file from the shards. Not thread-safe.
class ModelExports {
 public:
  // The context is borrowed.
  explicit ModelExports(SessionContext* context)
      : context_(*context), exports_(context->options.export_every.value_or(0)) {}

  // Notes that a ps has written its shard of the cut. `is_last`: the run ends with this cut.
  void OnShard(uint64_t version, bool is_last);
  // Returns whether a ps that has written its shard of this cut writes its part of the export, too.
  bool IsWanted(uint64_t version) const { return exports_.IsWanted(version); }
  // Takes the report that a ps has written its part, or cannot.
  void ReportPart(const v1::ReportShardRequest& request);
  void OnPsLost(uint32_t ps) { exports_.OnPsLost(ps); }
  void OnCutFailed(uint64_t version) { exports_.Forget(version); }
  void OnCutDurable(uint64_t version) { exports_.ForgetBelow(version); }
  void OnRollback() { exports_.OnRollback(); }

  // Requests the export of the durable cut once all its parts are written, or once a part can no
  // longer be written.
  void Advance(absl::Time now);
  // Takes the result of a ModelExport from the driver. Returns false if the export has to be
  // requested again.
  bool OnExported(const ModelExport& made, const absl::Status& status);
  // Returns whether the run is done and the export of its last checkpoint is not requested yet.
  bool is_pending() const { return IsLastMissing(exported_); }
  // Returns whether the run is done and the driver has neither made that export nor failed to.
  bool is_under_way() const { return IsLastMissing(made_); }

 private:
  // Returns whether the run is done, exports models, and `newest` is not the directory of its last
  // checkpoint.
  bool IsLastMissing(const std::string& newest) const;
  bool MayBecomeComplete(absl::Time now, const std::vector<uint32_t>& missing) const;

  SessionContext& context_;
  ExportLedger exports_;
  std::string exported_;  // The directory of the last export that was handed out.
  std::string made_;      // The directory of the last one that the driver has ended with.
  absl::Time done_since_ = absl::InfiniteFuture();
};

}  // namespace shoal

#endif  // SHOAL_CHIEF_SESSION_MODEL_EXPORTS_H_

#ifndef SHOAL_DEPLOY_PREFLIGHT_CHECK_H_
#define SHOAL_DEPLOY_PREFLIGHT_CHECK_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "proto/v1/chief_service.pb.h"
#include "proto/v1/run_config.pb.h"

namespace shoal {

class FileSystem;
class ShutdownNotification;

// The facts about a run that are known before any task starts and any file is written.
struct PreflightCheck {
  // The run with the fields that the checkpoint, or the first start, decides:
  // replicas_to_aggregate, slice_bytes.
  v1::RunConfig run;
  std::vector<std::string> notes;  // Messages for the user, one line each.
  bool finished = false;           // The checkpoint in its directory is at the end of the run.
  // The newest checkpoint in its directory whose index is valid; empty: there is none.
  std::string newest_checkpoint;
};

// Reads the data, builds the model, and compares it with the newest checkpoint in the run's
// directory; writes nothing. Errors name the field or file: missing or damaged data, a model that
// does not fit its data or loss, a worker_binary that is not a worker program, a --resume that is
// impossible, a checkpoint of another run. Cancelled: shutdown was requested while a worker_binary
// was running. `asked` is what the run's compute program declared; null: the run has none.
absl::StatusOr<PreflightCheck> CheckBeforeStart(const v1::RunConfig& run, FileSystem* file_system,
                                                const ShutdownNotification& shutdown,
                                                const v1::WorkerProgram* asked = nullptr);

}  // namespace shoal

#endif  // SHOAL_DEPLOY_PREFLIGHT_CHECK_H_

#ifndef SHOAL_CHIEF_RESUME_POINT_H_
#define SHOAL_CHIEF_RESUME_POINT_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "proto/v1/checkpoint.pb.h"
#include "proto/v1/run_config.pb.h"
#include "runtime/checkpoint/checkpoint_directory.h"

namespace shoal {

// The checkpoint that a run resumes from.
struct ResumePoint {
  v1::Manifest manifest;
  std::string path;  // The path of the checkpoint's directory.
};

// Returns the newest valid checkpoint if checkpoint.resume and the kind of training allow the run
// to resume from it; none if the run has no checkpoint. Adds to `rejected` a line for each damaged
// checkpoint that is newer. Errors are those of CheckpointDirectory::OpenLatestValid, such as
// DataLoss if all checkpoints are damaged or FailedPrecondition, here with the remedy, if
// somebody has removed them, and
//   NotFound            --resume=must, and there is no checkpoint;
//   AlreadyExists       --resume=never, and there is a checkpoint;
//   FailedPrecondition  the checkpoint is of the other kind of training, synchronous or not.
absl::StatusOr<std::optional<ResumePoint>> FindResumePoint(const v1::RunConfig& run,
                                                           CheckpointDirectory* checkpoints,
                                                           Checkpoint::Verify verify,
                                                           std::vector<std::string>* rejected);

// Returns the error of --resume=must for a run without a checkpoint.
absl::Status NothingToResume(const std::string& checkpoint_root);

}  // namespace shoal

#endif  // SHOAL_CHIEF_RESUME_POINT_H_

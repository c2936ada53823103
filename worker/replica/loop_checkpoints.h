// The checkpoints of a TrainingLoop, in the format of a run's checkpoints
// (docs/checkpoint_format.md).
#ifndef SHOAL_WORKER_REPLICA_LOOP_CHECKPOINTS_H_
#define SHOAL_WORKER_REPLICA_LOOP_CHECKPOINTS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "base/file_system.h"
#include "proto/v1/checkpoint.pb.h"
#include "runtime/checkpoint/checkpoint_directory.h"
#include "runtime/plan/slice_table.h"
#include "runtime/variables/owned_variables.h"

namespace shoal {

// Restores a loop's variables from its newest checkpoint, and writes new ones. Not thread-safe.
class LoopCheckpoints {
 public:
  // Opens the directory, which is created if it is absent. `loop` has what every manifest says of
  // the loop: its variables, plan, seed and optimizer. The file system must outlive the object.
  // InvalidArgument: `keep` is below 1. Other errors are those of the disk and name the path.
  static absl::StatusOr<std::unique_ptr<LoopCheckpoints>> Open(FileSystem& file_system,
                                                               const std::string& directory,
                                                               v1::Manifest loop, int keep);

  // Sets variables, slots and step to those of the newest undamaged checkpoint. Logs and deletes
  // the damaged checkpoints of later steps. Without any checkpoint, the variables stay as they are.
  // FailedPrecondition names a variable or a setting that differs from the checkpoint's, with the
  // remedy; DataLoss: all checkpoints are damaged. After an error the variables must not be used.
  absl::Status Restore(OwnedVariables* variables);

  // Writes and publishes a checkpoint, which says that it was made `now`, and deletes all but the
  // newest ones. After an error, the checkpoints before it are still there.
  absl::Status Save(const OwnedVariables& variables, absl::Time now);

 private:
  LoopCheckpoints(FileSystem& file_system, std::unique_ptr<CheckpointDirectory> directory,
                  v1::Manifest loop, SliceTable slices, int keep);

  absl::Status CheckSettings(const Checkpoint& checkpoint) const;
  absl::StatusOr<v1::ShardFile> WriteShard(const std::string& directory,
                                           const OwnedVariables& variables) const;

  FileSystem& file_system_;
  const std::unique_ptr<CheckpointDirectory> directory_;
  const v1::Manifest loop_;
  const SliceTable slices_;
  const int keep_;
};

}  // namespace shoal

#endif  // SHOAL_WORKER_REPLICA_LOOP_CHECKPOINTS_H_

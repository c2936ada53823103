#ifndef SHOAL_RUNTIME_CHECKPOINT_CHECKPOINT_DIRECTORY_H_
#define SHOAL_RUNTIME_CHECKPOINT_CHECKPOINT_DIRECTORY_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "base/file_system.h"
#include "runtime/checkpoint/checkpoint.h"

namespace shoal {

// The name of a checkpoint's directory, "ckpt-<step>-<term>-<lineage>", in checkpoints/.
struct CheckpointName {
  uint64_t step = 0;
  uint64_t term = 0;
  // Part of the name so that a second attempt at the step never finds files of the first one.
  uint64_t lineage = 0;

  std::string ToString() const;
  // Parses a name. Returns false if it is not the name of a checkpoint.
  static bool Parse(absl::string_view text, CheckpointName* name);

  // Orders older checkpoints first. Those of a later chief are newer, whatever their step.
  friend bool operator<(const CheckpointName& a, const CheckpointName& b) {
    return std::tie(a.term, a.step, a.lineage) < std::tie(b.term, b.step, b.lineage);
  }
};

// Returns the error for a --step without a checkpoint. It lists the steps that have one.
absl::Status NoCheckpointOfStep(uint64_t step, const std::vector<CheckpointName>& names);

// All checkpoints of a run, in one directory. The chief uses this class; ps only write into the
// directories that Begin has made. Not thread-safe, and a directory has one writer.
//
//   Begin -> every ps writes its shard (ShardWriter) -> Publish -> Prune
//
// A checkpoint exists once Publish has linked its MANIFEST. A directory without one was left by a
// crash and is ignored.
class CheckpointDirectory {
 public:
  // The file system must outlive the object. Creates `root` if it is absent.
  static absl::StatusOr<std::unique_ptr<CheckpointDirectory>> Open(FileSystem& file_system,
                                                                   const std::string& root);

  const std::string& root() const { return root_; }
  std::string GetPath(absl::string_view name) const;

  // Creates, durably, the empty directory of a new checkpoint.
  absl::Status Begin(const CheckpointName& name);

  // Publishes the checkpoint. Opens and indexes its shards first, and returns DataLoss if they do
  // not match the manifest. Then updates the hint LATEST; failing to write that is not an error.
  absl::Status Publish(const CheckpointName& name, const v1::Manifest& manifest);

  // Deletes the checkpoints of later steps durably: they do not exist any more even after a crash.
  // If no checkpoint remains, deletes LATEST before them, so that they do not count as lost. After
  // an error some of them may remain; Publish and Prune then delete them first, and fail if they
  // cannot. If `may_discard` is not null, it is called before anything is deleted; if it
  // returns an error, Publish and Prune delete these checkpoints later.
  absl::Status DiscardAbove(uint64_t step,
                            const std::function<absl::Status()>& may_discard = nullptr);

  // Removes the files of a checkpoint that could not be completed.
  absl::Status Discard(const CheckpointName& name) { return RemoveCheckpoint(name); }

  // Returns the names that have a MANIFEST, newest first, without opening them.
  absl::StatusOr<std::vector<CheckpointName>> List() const;

  // Returns the names like List if there are any. Returns NotFound if LATEST says that there was
  // never a checkpoint, and FailedPrecondition if it names one, which somebody has removed; the
  // caller adds the remedy.
  absl::StatusOr<std::vector<CheckpointName>> ListSome() const;

  // Opens the newest undamaged checkpoint. Adds to `rejected` a line, with the reason, for each
  // newer damaged one, which the caller must log. Returns NotFound if there was never a checkpoint,
  // FailedPrecondition if LATEST names one and none is left (see ListSome), DataLoss if all are
  // damaged, and the error itself (Unavailable, say) if a newer one cannot be read now: an older
  // one must not take its place, since the steps between them would be lost.
  absl::StatusOr<std::unique_ptr<Checkpoint>> OpenLatestValid(Checkpoint::Verify verify,
                                                              std::vector<std::string>* rejected);

  // Removes checkpoints older than the `keep` newest valid ones, old exports (see
  // RemoveOldExports), and incomplete checkpoints older than the newest valid one. Removes nothing
  // if no valid one would remain. If a kept checkpoint needs rows from the shards of an old one
  // (Checkpoint::bases), only the manifest of the old one is removed.
  absl::Status Prune(int keep);

  // Removes complete and partial model.safetensors from checkpoints older than the newest one that
  // has a complete file, also from those of which only the shards are kept. The newest checkpoint
  // may have none, if its export is pending or was skipped.
  absl::Status RemoveOldExports();

 private:
  CheckpointDirectory(FileSystem& file_system, const std::string& root);
  absl::StatusOr<std::vector<CheckpointName>> AllNames() const;
  // Opens a checkpoint. Returns null if it is damaged.
  absl::StatusOr<std::unique_ptr<Checkpoint>> OpenIfValid(const CheckpointName& name);
  // Removes LATEST durably if all checkpoints are void.
  absl::Status RemoveVoidLatest();
  // Removes the manifest durably, if it exists.
  absl::Status RemoveManifest(const CheckpointName& name);
  absl::Status RemoveVoid();
  absl::Status RemoveCheckpoint(const CheckpointName& name);

  FileSystem& file_system_;
  const std::string root_;
  // Checkpoints above this step are to be deleted but not listed in void_ yet.
  std::optional<uint64_t> void_above_;
  std::set<CheckpointName> void_;  // Deleted checkpoints whose manifests may still exist.
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_CHECKPOINT_CHECKPOINT_DIRECTORY_H_

#ifndef SHOAL_RUNTIME_CHECKPOINT_CHECKPOINT_DIRECTORY_H_
#define SHOAL_RUNTIME_CHECKPOINT_CHECKPOINT_DIRECTORY_H_

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

#include "base/file_system.h"
#include "runtime/checkpoint/checkpoint.h"

namespace shoal {

// A checkpoint's place: "ckpt-<step>-<term>-<lineage>" under checkpoints/.
struct CheckpointName {
  uint64_t step = 0;
  uint64_t term = 0;
  uint64_t lineage = 0;  // a second attempt at the step never meets the first one's files

  std::string ToString() const;
  // False for the name of anything else.
  static bool Parse(absl::string_view text, CheckpointName* name);

  // Older first: a later chief's checkpoints are newer, whatever their step.
  friend bool operator<(const CheckpointName& a, const CheckpointName& b) {
    return std::tie(a.term, a.step, a.lineage) < std::tie(b.term, b.step, b.lineage);
  }
};

// All checkpoints of a run, under one directory. The chief's; ps only write into what Begin made.
// One thread at a time, one writer for a directory.
//
//   Begin -> every ps writes its shard (ShardWriter) -> Publish -> Prune
//
// A checkpoint exists from the moment Publish has linked its MANIFEST; what has none is rubbish of
// a crash and is never looked at.
class CheckpointDirectory {
 public:
  // The file system must outlive the object. `root` is made if it is absent.
  static absl::StatusOr<std::unique_ptr<CheckpointDirectory>> Open(FileSystem& file_system,
                                                                   const std::string& root);

  const std::string& root() const { return root_; }
  std::string PathOf(absl::string_view name) const;

  // Makes the durable, empty directory of a new checkpoint.
  absl::Status Begin(const CheckpointName& name);

  // Makes the checkpoint exist. Its shards are opened and indexed first: DataLoss if they are not
  // what the manifest says. The hint LATEST follows; failing to write it is no error.
  absl::Status Publish(const CheckpointName& name, const v1::Manifest& manifest);

  // Checkpoints above the step are void: from now on they do not exist, also after a crash. After
  // an error some still may; Publish and Prune see to them first, and fail if they cannot.
  absl::Status DiscardAbove(uint64_t step);

  // Removes a checkpoint that could not be made, with what its writers have left.
  absl::Status Discard(const CheckpointName& name) { return RemoveCheckpoint(name); }

  // Names with a MANIFEST, newest first; none is looked into.
  absl::StatusOr<std::vector<CheckpointName>> List() const;

  // Opens the newest checkpoint that is whole. `rejected` gets a line for each newer one that is
  // not, with the reason: the caller must say so. NotFound if there is none; DataLoss if there are
  // only damaged ones.
  absl::StatusOr<std::unique_ptr<Checkpoint>> OpenLatestValid(Checkpoint::Verify verify,
                                                              std::vector<std::string>* rejected);

  // Removes checkpoints older than the `keep` newest valid ones, exports as RemoveOldExports does,
  // and what crashes have left that is older than the newest valid one. Removes nothing where no
  // valid one would stay.
  absl::Status Prune(int keep);

  // Removes model.safetensors, whole or in part, of checkpoints that are older than the newest that
  // has one. The newest checkpoint may have none: it comes later, or was left out.
  absl::Status RemoveOldExports();

 private:
  CheckpointDirectory(FileSystem& file_system, const std::string& root);
  absl::StatusOr<std::vector<CheckpointName>> AllNames() const;
  bool IsValid(const CheckpointName& name);
  // Durably, if it is there.
  absl::Status RemoveManifest(const CheckpointName& name);
  absl::Status RemoveVoid();
  absl::Status RemoveCheckpoint(const CheckpointName& name);

  FileSystem& file_system_;
  const std::string root_;
  absl::optional<uint64_t> void_above_;  // Those above the step are not in void_ yet.
  std::set<CheckpointName> void_;        // Their manifests may still be there.
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_CHECKPOINT_CHECKPOINT_DIRECTORY_H_

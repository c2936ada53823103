#include "runtime/checkpoint/checkpoint_directory.h"

#include <algorithm>
#include <optional>

#include "absl/memory/memory.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

#include "base/find_file.h"
#include "base/status_macros.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/checkpoint/model_export.h"

namespace shoal {
namespace {

constexpr char kLatestFile[] = "LATEST";

// Returns whether a checkpoint could not be opened because of what it holds or lacks, so that it
// cannot be opened later either. Other errors, such as those of the disk, of rights, or of too many
// open files, say nothing about the checkpoint.
bool IsDamage(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kDataLoss:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kUnimplemented:  // a newer format
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kFailedPrecondition:  // a directory in the place of a file
    case absl::StatusCode::kOutOfRange:
      return true;
    default:
      return false;
  }
}

}  // namespace

std::string CheckpointName::ToString() const {
  return absl::StrFormat("ckpt-%d-%d-%016x", step, term, lineage);
}

bool CheckpointName::Parse(absl::string_view text, CheckpointName* name) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, '-');
  return parts.size() == 4 && parts[0] == "ckpt" && absl::SimpleAtoi(parts[1], &name->step) &&
         absl::SimpleAtoi(parts[2], &name->term) && parts[3].size() == 16 &&
         absl::SimpleHexAtoi(parts[3], &name->lineage) && name->ToString() == text;
}

absl::StatusOr<std::unique_ptr<CheckpointDirectory>> CheckpointDirectory::Open(
    FileSystem& file_system, const std::string& root) {
  // The names of directories that are created here must survive a crash, too.
  std::vector<std::string> parents = {ParentDirectory(root)};
  while (ParentDirectory(parents.back()) != parents.back()) {
    ASSIGN_OR_RETURN(const std::optional<FileInfo> found, FindFile(file_system, parents.back()));
    if (found.has_value()) break;
    parents.push_back(ParentDirectory(parents.back()));
  }
  RETURN_IF_ERROR(file_system.MakeDirectory(root));
  for (const std::string& parent : parents) RETURN_IF_ERROR(file_system.SyncDirectory(parent));
  return absl::WrapUnique(new CheckpointDirectory(file_system, root));
}

CheckpointDirectory::CheckpointDirectory(FileSystem& file_system, const std::string& root)
    : file_system_(file_system), root_(root) {}

std::string CheckpointDirectory::GetPath(absl::string_view name) const {
  return JoinPath(root_, name);
}

absl::Status CheckpointDirectory::Begin(const CheckpointName& name) {
  const std::string path = GetPath(name.ToString());
  ASSIGN_OR_RETURN(const std::optional<FileInfo> found, FindFile(file_system_, path));
  if (found.has_value()) {
    return absl::AlreadyExistsError(
        absl::StrCat(path, " exists already: the checkpoint of this step was begun before"));
  }
  RETURN_IF_ERROR(file_system_.MakeDirectory(path));
  return file_system_.SyncDirectory(root_);
}

absl::Status CheckpointDirectory::Publish(const CheckpointName& name,
                                          const v1::Manifest& manifest) {
  RETURN_IF_ERROR(RemoveVoid());
  const std::string path = GetPath(name.ToString());
  RETURN_IF_ERROR(Checkpoint::CheckShards(file_system_, path, manifest));
  // An attempt that failed after the manifest had its name left the same one with an earlier time.
  v1::Manifest stamped = manifest;
  const absl::StatusOr<v1::Manifest> earlier = ReadManifest(file_system_, path);
  if (!earlier.ok() && !IsDamage(earlier.status())) {
    return earlier.status();
  }
  if (earlier.ok()) stamped.set_created_unix_seconds(earlier->created_unix_seconds());
  RETURN_IF_ERROR(WriteManifest(file_system_, path, stamped));
  RETURN_IF_ERROR(file_system_.SyncDirectory(root_));
  WriteAtomically(file_system_, GetPath(kLatestFile), absl::StrCat(name.ToString(), "\n"))
      .IgnoreError();  // a hint: recovery looks at the manifests
  return absl::OkStatus();
}

absl::StatusOr<std::vector<CheckpointName>> CheckpointDirectory::AllNames() const {
  ASSIGN_OR_RETURN(const std::vector<std::string> entries, file_system_.List(root_));
  std::vector<CheckpointName> names;
  for (const std::string& entry : entries) {
    CheckpointName name;
    if (CheckpointName::Parse(entry, &name)) names.push_back(name);
  }
  std::sort(names.rbegin(), names.rend());
  return names;
}

absl::StatusOr<std::vector<CheckpointName>> CheckpointDirectory::List() const {
  ASSIGN_OR_RETURN(const std::vector<CheckpointName> all, AllNames());
  std::vector<CheckpointName> complete;
  for (const CheckpointName& name : all) {
    const absl::Status manifest =
        file_system_.GetInfo(JoinPath(GetPath(name.ToString()), kManifestFile)).status();
    if (manifest.ok()) complete.push_back(name);
    if (!manifest.ok() && !absl::IsNotFound(manifest)) return manifest;
  }
  return complete;
}

absl::StatusOr<std::unique_ptr<Checkpoint>> CheckpointDirectory::OpenLatestValid(
    Checkpoint::Verify verify, std::vector<std::string>* rejected) {
  ASSIGN_OR_RETURN(const std::vector<CheckpointName> names, ListSome());
  for (const CheckpointName& name : names) {
    const std::string path = GetPath(name.ToString());
    auto checkpoint = Checkpoint::Open(file_system_, path, verify);
    if (checkpoint.ok() || !IsDamage(checkpoint.status())) return checkpoint;
    absl::string_view why = checkpoint.status().message();
    absl::ConsumePrefix(&why, absl::StrCat(path, "/"));
    rejected->push_back(absl::StrCat("checkpoint ", name.ToString(), " is not used: ", why));
  }
  return absl::DataLossError(
      absl::StrCat(root_, " has no valid checkpoint: ", absl::StrJoin(*rejected, "; "),
                   "; bring back a good copy, or start anew with another --out"));
}

// LATEST is written after a manifest is durable, and removed before the last manifest is removed on
// purpose. So after any crash a checkpoint that it names exists, or a newer one.
absl::StatusOr<std::vector<CheckpointName>> CheckpointDirectory::ListSome() const {
  ASSIGN_OR_RETURN(std::vector<CheckpointName> names, List());
  if (!names.empty()) return names;
  const std::string path = GetPath(kLatestFile);
  const absl::StatusOr<std::string> latest = ReadFile(file_system_, path);
  if (absl::IsNotFound(latest.status())) {
    return absl::NotFoundError(absl::StrCat(root_, " has no checkpoint"));
  }
  RETURN_IF_ERROR(latest.status());
  // The run's chief may have published its first checkpoint meanwhile.
  ASSIGN_OR_RETURN(names, List());
  if (!names.empty()) return names;
  return absl::FailedPreconditionError(absl::StrCat(path, ": names ",
                                                    absl::StripAsciiWhitespace(*latest),
                                                    ", but no checkpoint is there any more"));
}

absl::StatusOr<std::unique_ptr<Checkpoint>> CheckpointDirectory::OpenIfValid(
    const CheckpointName& name) {
  absl::StatusOr<std::unique_ptr<Checkpoint>> opened =
      Checkpoint::Open(file_system_, GetPath(name.ToString()), Checkpoint::Verify::kIndex);
  if (!opened.ok() && IsDamage(opened.status())) return std::unique_ptr<Checkpoint>();
  return opened;
}

absl::Status CheckpointDirectory::DiscardAbove(uint64_t step,
                                               const std::function<absl::Status()>& may_discard) {
  void_above_ = std::min(step, void_above_.value_or(step));
  if (may_discard != nullptr) RETURN_IF_ERROR(may_discard());
  return RemoveVoid();
}

absl::Status CheckpointDirectory::RemoveVoid() {
  if (void_above_.has_value()) {
    ASSIGN_OR_RETURN(const std::vector<CheckpointName> names, List());
    for (const CheckpointName& name : names) {
      if (name.step > *void_above_) void_.insert(name);
    }
    void_above_.reset();
  }
  if (!void_.empty()) RETURN_IF_ERROR(RemoveVoidLatest());
  while (!void_.empty()) {
    RETURN_IF_ERROR(RemoveManifest(*void_.begin()));
    void_.erase(void_.begin());
  }
  return absl::OkStatus();
}

absl::Status CheckpointDirectory::RemoveVoidLatest() {
  ASSIGN_OR_RETURN(const std::vector<CheckpointName> names, List());
  for (const CheckpointName& name : names) {
    if (void_.count(name) == 0) return absl::OkStatus();
  }
  const absl::Status removed = file_system_.Remove(GetPath(kLatestFile));
  if (!removed.ok() && !absl::IsNotFound(removed)) return removed;
  return file_system_.SyncDirectory(root_);
}

absl::Status CheckpointDirectory::Prune(int keep) {
  RETURN_IF_ERROR(RemoveVoid());
  ASSIGN_OR_RETURN(const std::vector<CheckpointName> names, AllNames());
  int valid = 0;
  std::set<std::string> needed;  // Bases are older than the checkpoints that need them.
  for (const CheckpointName& name : names) {
    std::unique_ptr<Checkpoint> checkpoint;
    if (valid < std::max(keep, 1)) {
      ASSIGN_OR_RETURN(checkpoint, OpenIfValid(name));
    }
    if (checkpoint != nullptr) {
      ++valid;
      needed.insert(checkpoint->bases().begin(), checkpoint->bases().end());
    } else if (needed.count(name.ToString()) > 0) {
      RETURN_IF_ERROR(RemoveManifest(name));
    } else if (valid > 0) {
      // Those newer than the newest valid one are being written, or are evidence of damage.
      RETURN_IF_ERROR(RemoveCheckpoint(name));
    }
  }
  RETURN_IF_ERROR(RemoveOldExports());
  return file_system_.SyncDirectory(root_);
}

absl::Status CheckpointDirectory::RemoveOldExports() {
  ASSIGN_OR_RETURN(const std::vector<CheckpointName> names, AllNames());
  bool newer_has_one = false;
  for (const CheckpointName& name : names) {
    const std::string path = GetPath(name.ToString());
    if (newer_has_one) RETURN_IF_ERROR(RemoveModelExport(file_system_, path));
    newer_has_one = newer_has_one || (FileExists(file_system_, JoinPath(path, kManifestFile)) &&
                                      FileExists(file_system_, JoinPath(path, kModelExportFile)));
  }
  return absl::OkStatus();
}

absl::Status CheckpointDirectory::RemoveManifest(const CheckpointName& name) {
  const std::string path = GetPath(name.ToString());
  const absl::Status removed = file_system_.Remove(JoinPath(path, kManifestFile));
  if (!removed.ok() && !absl::IsNotFound(removed)) return removed;
  // Also where there is none: it may have been removed and the name not synced.
  const absl::Status synced = file_system_.SyncDirectory(path);
  // Somebody made room by hand.
  return absl::IsNotFound(synced) ? file_system_.SyncDirectory(root_) : synced;
}

// The manifest is removed first, durably, so that files left by a crash are not a checkpoint.
absl::Status CheckpointDirectory::RemoveCheckpoint(const CheckpointName& name) {
  RETURN_IF_ERROR(RemoveManifest(name));
  return RemoveTree(file_system_, GetPath(name.ToString()));
}

absl::Status NoCheckpointOfStep(uint64_t step, const std::vector<CheckpointName>& names) {
  const std::string steps = absl::StrJoin(
      names, ", ",
      [](std::string* out, const CheckpointName& name) { absl::StrAppend(out, name.step); });
  return absl::NotFoundError(
      absl::StrCat("--step: there is no checkpoint of step ", step,
                   names.empty() ? "; there are none" : "; there are those of ", steps));
}

}  // namespace shoal

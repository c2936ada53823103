#include "ps/restored_slices.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

#include "base/status_macros.h"
#include "proto/v1/parameter_service.pb.h"
#include "runtime/checkpoint/checkpoint_directory.h"

namespace shoal {
namespace {

constexpr char kTokenFile[] = "TOKEN";
constexpr uint64_t kMaxTokenBytes = 4096;

// Opens the directories above the path, beginning with the highest. A client of NFS remembers for
// up to a minute that a name was missing, but opening a directory makes it ask whether that
// changed.
void OpenDirectoriesAbove(FileSystem* file_system, const std::string& path) {
  const std::string parent = ParentDirectory(path);
  if (parent == path) return;
  OpenDirectoriesAbove(file_system, parent);
  file_system->SyncDirectory(parent).IgnoreError();  // Only the look at the file counts.
}

}  // namespace

absl::StatusOr<std::unique_ptr<RestoredSlices>> RestoredSlices::Open(
    FileSystem* file_system, const v1::LoadSlicesRequest& request, const PartitionedStore& store) {
  CheckpointName name;
  if (!CheckpointName::Parse(request.checkpoint(), &name)) {
    return absl::InvalidArgumentError(
        absl::StrCat("checkpoint: \"", request.checkpoint(), "\" is not a checkpoint's name"));
  }
  const std::string directory = JoinPath(request.checkpoint_root(), request.checkpoint());
  ASSIGN_OR_RETURN(std::unique_ptr<Checkpoint> checkpoint,
                   Checkpoint::Open(*file_system, directory, Checkpoint::Verify::kIndex));
  const std::vector<v1::VariableSpec> variables(request.variables().begin(),
                                                request.variables().end());
  ASSIGN_OR_RETURN(
      CheckpointSliceSource source,
      CheckpointSliceSource::Create(*checkpoint, variables, store.table(),
                                    [&store](uint32_t slice) { return store.slot_names(slice); }));
  return std::unique_ptr<RestoredSlices>(
      new RestoredSlices(std::move(checkpoint), std::move(source)));
}

absl::Status CheckRootIsShared(FileSystem* file_system, const v1::LoadSlicesRequest& request) {
  if (request.checkpoint_root().empty() || request.token().empty()) return absl::OkStatus();
  const std::string path = JoinPath(request.checkpoint_root(), kTokenFile);
  absl::StatusOr<std::string> token = ReadFile(*file_system, path, kMaxTokenBytes);
  if (absl::IsNotFound(token.status())) {
    OpenDirectoriesAbove(file_system, path);
    token = ReadFile(*file_system, path, kMaxTokenBytes);
  }
  if (token.ok() && absl::StripSuffix(*token, "\n") == absl::StripSuffix(request.token(), "\n")) {
    return absl::OkStatus();
  }
  if (!token.ok() && !absl::IsNotFound(token.status())) return token.status();
  return absl::FailedPreconditionError(
      absl::StrCat(path,
                   ": this is not the directory that the chief sees; put `out` on storage that all "
                   "tasks share"));
}

}  // namespace shoal

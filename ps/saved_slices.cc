#include "ps/saved_slices.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

#include "base/status_macros.h"
#include "proto/v1/parameter_service.pb.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/checkpoint_directory.h"
#include "runtime/checkpoint/checkpoint_slice_source.h"

namespace shoal {
namespace {

constexpr char kTokenFile[] = "TOKEN";
constexpr uint64_t kMaxTokenBytes = 4096;

}  // namespace

class SavedSlices::Core {
 public:
  Core(std::unique_ptr<Checkpoint> checkpoint, CheckpointSliceSource source)
      : checkpoint_(std::move(checkpoint)), source_(std::move(source)) {}

  uint64_t version() const { return checkpoint_->manifest().step(); }
  absl::Status Fill(uint32_t slice, Contents* contents) { return source_.Fill(slice, contents); }

 private:
  const std::unique_ptr<Checkpoint> checkpoint_;
  CheckpointSliceSource source_;
};

absl::StatusOr<std::unique_ptr<SavedSlices>> SavedSlices::Open(FileSystem* file_system,
                                                               const v1::LoadSlicesRequest& request,
                                                               const PartitionedStore& store) {
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
  return std::unique_ptr<SavedSlices>(
      new SavedSlices(std::make_unique<Core>(std::move(checkpoint), std::move(source))));
}

SavedSlices::SavedSlices(std::unique_ptr<Core> core) : core_(std::move(core)) {}
SavedSlices::~SavedSlices() = default;

uint64_t SavedSlices::version() const { return core_->version(); }

absl::Status SavedSlices::Fill(uint32_t slice, Contents* contents) {
  return core_->Fill(slice, contents);
}

absl::Status CheckRootIsShared(FileSystem* file_system, const v1::LoadSlicesRequest& request) {
  if (request.checkpoint_root().empty() || request.token().empty()) return absl::OkStatus();
  const std::string path = JoinPath(request.checkpoint_root(), kTokenFile);
  const absl::StatusOr<std::string> token = ReadFile(*file_system, path, kMaxTokenBytes);
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

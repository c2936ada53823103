#include "chief/resume_point.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "base/status_macros.h"
#include "runtime/config/run_config.h"

namespace shoal {

absl::Status NothingToResume(const std::string& checkpoint_root) {
  return absl::NotFoundError(
      absl::StrCat("--resume=must: there is no checkpoint in ", checkpoint_root,
                   "; name the run's directory with --out, or leave out --resume"));
}

absl::StatusOr<std::optional<ResumePoint>> FindResumePoint(const v1::RunConfig& run,
                                                           CheckpointDirectory* checkpoints,
                                                           Checkpoint::Verify verify,
                                                           std::vector<std::string>* rejected) {
  const std::string& resume = run.checkpoint().resume();
  absl::StatusOr<std::unique_ptr<Checkpoint>> found =
      checkpoints->OpenLatestValid(verify, rejected);
  if (absl::IsNotFound(found.status())) {
    if (resume == "must") return NothingToResume(checkpoints->root());
    return std::optional<ResumePoint>();
  }
  if (absl::IsFailedPrecondition(found.status())) {
    const std::string& root = checkpoints->root();
    return absl::FailedPreconditionError(
        absl::StrCat(found.status().message(), "; bring it back to ", root,
                     ". To start anew, name another --out, or call `rm ", root,
                     "/LATEST`: the next start then removes the steps in metrics.jsonl"));
  }
  RETURN_IF_ERROR(found.status());
  if (resume == "never") {
    return absl::AlreadyExistsError(
        absl::StrCat("--resume=never: ", run.out(),
                     " has a checkpoint; name another directory with --out, or resume"));
  }
  const v1::Manifest& manifest = (*found)->manifest();
  if (manifest.synchronous() != IsSynchronous(run)) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "--sync_replicas: the run in %s is %s; keep it, or name another directory with --out",
        run.out(), manifest.synchronous() ? "synchronous" : "asynchronous"));
  }
  return std::make_optional(ResumePoint{manifest, (*found)->directory()});
}

}  // namespace shoal

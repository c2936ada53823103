#include "deploy/launch/held_run_directory.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

#include "base/file_system.h"
#include "base/status_macros.h"
#include "runtime/config/run_config.h"

namespace shoal {
namespace {

// The longest time for a chief whose launcher was killed to end.
constexpr absl::Duration kChiefEnds = absl::Seconds(2);

}  // namespace

absl::Status HeldRunDirectory::Hold() {
  RETURN_IF_ERROR(Take(RunLock::AcquireIfExists(path_, RunLock::Holder::kLauncher)));
  // A chief may run without a launcher, or may have outlived its launcher.
  const absl::Status chief =
      RunLock::AcquireIfExists(path_, RunLock::Holder::kChief, kChiefEnds).status();
  return chief.ok() || absl::IsNotFound(chief) ? absl::OkStatus() : Because(chief);
}

absl::Status HeldRunDirectory::Prepare(const v1::RunConfig& run) {
  absl::Status status = file_system_->MakeDirectory(absl::StrCat(path_, "/logs"));
  if (!status.ok()) return Because(status);
  if (!lock_.has_value()) {
    RETURN_IF_ERROR(Take(RunLock::Acquire(path_, RunLock::Holder::kLauncher)));
  }
  status =
      WriteAtomically(*file_system_, absl::StrCat(path_, "/run.textproto"), PrintRunConfig(run));
  return status.ok() ? status : Because(status);
}

absl::Status HeldRunDirectory::Take(absl::StatusOr<RunLock> lock) {
  if (absl::IsNotFound(lock.status())) return absl::OkStatus();
  if (!lock.ok()) return Because(lock.status());
  lock_ = *std::move(lock);
  return absl::OkStatus();
}

absl::Status HeldRunDirectory::Because(const absl::Status& status) const {
  if (absl::IsAlreadyExists(status)) return status;
  return absl::Status(status.code(), absl::StrCat("--out: cannot use ", path_, ": ",
                                                  status.message(), "; name another directory"));
}

}  // namespace shoal

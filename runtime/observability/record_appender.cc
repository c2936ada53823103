#include "runtime/observability/record_appender.h"

#include "base/status_macros.h"

namespace shoal {

absl::Status RecordAppender::Open(const std::string& path, uint64_t size) {
  file_.reset();
  ASSIGN_OR_RETURN(file_, file_system_->OpenForAppend(path));
  path_ = path;
  size_ = size;
  is_torn_ = false;
  return absl::OkStatus();
}

absl::Status RecordAppender::Flush() {
  if (waiting_.empty()) return absl::OkStatus();
  if (file_ == nullptr) return absl::FailedPreconditionError("no file is open to append to");
  if (is_torn_) RETURN_IF_ERROR(file_system_->Truncate(path_, size_));
  is_torn_ = false;
  const absl::Status status = file_->Append(waiting_);
  if (!status.ok()) {
    // A part may be there; readers meanwhile see only whole records.
    is_torn_ = !file_system_->Truncate(path_, size_).ok();
    return status;
  }
  size_ += waiting_.size();
  waiting_.clear();
  return absl::OkStatus();
}

}  // namespace shoal

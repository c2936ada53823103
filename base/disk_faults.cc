#include "base/disk_faults.h"

#include <utility>

#include "base/log.h"

namespace shoal {

int DiskFaults::num_changes() const {
  MutexLock lock(&mutex_);
  return num_changes_;
}

void DiskFaults::FailAt(int change, absl::Status status) {
  CHECK(!status.ok());
  MutexLock lock(&mutex_);
  failures_[change] = std::move(status);
}

void DiskFaults::FailFrom(int change, absl::Status status) {
  CHECK(!status.ok());
  MutexLock lock(&mutex_);
  fail_from_ = change;
  fail_from_status_ = std::move(status);
}

int DiskFaults::num_reads() const {
  MutexLock lock(&mutex_);
  return num_reads_;
}

void DiskFaults::FailReadAt(int read, absl::Status status) {
  CHECK(!status.ok());
  MutexLock lock(&mutex_);
  read_failures_[read] = std::move(status);
}

void DiskFaults::StopFailing() {
  MutexLock lock(&mutex_);
  failures_.clear();
  read_failures_.clear();
  fail_from_ = -1;
}

absl::Status DiskFaults::OnChange() {
  MutexLock lock(&mutex_);
  const int change = num_changes_++;
  if (fail_from_ >= 0 && change >= fail_from_) return fail_from_status_;
  const auto it = failures_.find(change);
  return it == failures_.end() ? absl::OkStatus() : it->second;
}

absl::Status DiskFaults::OnRead() {
  MutexLock lock(&mutex_);
  const auto it = read_failures_.find(num_reads_++);
  return it == read_failures_.end() ? absl::OkStatus() : it->second;
}

}  // namespace shoal

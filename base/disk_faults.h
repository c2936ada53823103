// (testonly) Which changes and reads of a FaultyFileSystem fail.
#ifndef SHOAL_BASE_DISK_FAULTS_H_
#define SHOAL_BASE_DISK_FAULTS_H_

#include <map>

#include "absl/status/status.h"

#include "base/mutex.h"

namespace shoal {

// Counts the changes and the reads of a disk, and makes chosen ones fail. Thread-safe.
class DiskFaults {
 public:
  // Changes are counted from 0: every call that creates, writes, syncs, renames, links, removes,
  // truncates, makes or syncs a directory.
  int num_changes() const ABSL_LOCKS_EXCLUDED(mutex_);

  // Makes change number `change` fail with `status`, which is an error, without an effect.
  void FailAt(int change, absl::Status status) ABSL_LOCKS_EXCLUDED(mutex_);
  // The same for this and every later change.
  void FailFrom(int change, absl::Status status) ABSL_LOCKS_EXCLUDED(mutex_);

  // Reads are counted from 0: every call that opens a file for reading, reads from it or asks for
  // its size, lists a directory or asks for the information of a path.
  int num_reads() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Makes read number `read` fail with `status`, which is an error.
  void FailReadAt(int read, absl::Status status) ABSL_LOCKS_EXCLUDED(mutex_);

  // Lets all later changes and reads succeed. The counts continue.
  void StopFailing() ABSL_LOCKS_EXCLUDED(mutex_);

  // The disk calls these for each change and each read; an error is its result.
  absl::Status OnChange() ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status OnRead() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  mutable Mutex mutex_;
  int num_changes_ ABSL_GUARDED_BY(mutex_) = 0;
  int num_reads_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<int, absl::Status> failures_ ABSL_GUARDED_BY(mutex_);
  std::map<int, absl::Status> read_failures_ ABSL_GUARDED_BY(mutex_);
  int fail_from_ ABSL_GUARDED_BY(mutex_) = -1;
  absl::Status fail_from_status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace shoal

#endif  // SHOAL_BASE_DISK_FAULTS_H_

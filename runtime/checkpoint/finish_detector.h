#ifndef SHOAL_RUNTIME_CHECKPOINT_FINISH_DETECTOR_H_
#define SHOAL_RUNTIME_CHECKPOINT_FINISH_DETECTOR_H_

#include <string>
#include <utility>

#include "absl/time/time.h"

#include "base/clock.h"
#include "proto/v1/run_config.pb.h"

namespace shoal {

class FileSystem;

// Detects from the files in the run's directory that the run has finished, for a task whose chief
// does not answer. Not thread-safe.
class FinishDetector {
 public:
  // Reads the directory's current summary, which may be that of an earlier start of the run.
  // `lease` is the chief's (cluster.lease_seconds). All but `run` are borrowed.
  FinishDetector(FileSystem* file_system, const Clock* clock, v1::RunConfig run,
                 absl::Duration lease);

  // Replaces the run, whose length was not known yet.
  void set_run(v1::RunConfig run) { run_ = std::move(run); }

  // Call it whenever the chief did not answer. Returns true once a new summary.json reports that
  // the run has finished, or if the chief has not answered for three leases and the newest
  // checkpoint is at the last step that this run file asks for, because then nobody needs to start
  // a chief again.
  bool IsOver();

 private:
  // Returns the content of summary.json; "" unless it says that the run has finished.
  std::string FinishedSummary() const;
  bool NothingIsLeft() const;

  FileSystem* const file_system_;
  const Clock* const clock_;
  v1::RunConfig run_;
  const absl::Duration patience_;
  const std::string before_;
  absl::Time unanswered_since_ = absl::InfiniteFuture();
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_CHECKPOINT_FINISH_DETECTOR_H_

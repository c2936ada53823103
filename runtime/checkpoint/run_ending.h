#ifndef SHOAL_RUNTIME_CHECKPOINT_RUN_ENDING_H_
#define SHOAL_RUNTIME_CHECKPOINT_RUN_ENDING_H_

#include <string>

#include "absl/time/time.h"

#include "base/clock.h"
#include "proto/v1/run_config.pb.h"

namespace shoal {

class FileSystem;

// Tells a task that hears of no chief whether its run is over, from what the run's directory
// says. Not thread-safe.
class RunEnding {
 public:
  // Notes what the directory says now: it may be of an earlier start that this one goes on from.
  // `lease`: the chief's (cluster.lease_seconds). All but `run` are borrowed.
  RunEnding(FileSystem* file_system, const Clock* clock, v1::RunConfig run, absl::Duration lease);

  // Ask whenever the chief did not answer. True once a summary.json has come that says that the run
  // has finished; after three leases without an answer also if the newest checkpoint is where this
  // run file ends: then there is nothing left to start a chief for.
  bool IsOver();

 private:
  // summary.json; "" unless it says that the run has finished.
  std::string FinishedSummary() const;
  bool NothingIsLeft() const;

  FileSystem* const file_system_;
  const Clock* const clock_;
  const v1::RunConfig run_;
  const absl::Duration patience_;
  const std::string before_;
  absl::Time unanswered_since_ = absl::InfiniteFuture();
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_CHECKPOINT_RUN_ENDING_H_

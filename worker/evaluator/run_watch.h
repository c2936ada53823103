// Decides how long an evaluator waits for a run, and when it logs that it waits.
#ifndef SHOAL_WORKER_EVALUATOR_RUN_WATCH_H_
#define SHOAL_WORKER_EVALUATOR_RUN_WATCH_H_

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace shoal {

class FileSystem;

// Returns a text that changes whenever the run in the directory starts, trains, makes a checkpoint
// or ends, and "" if no run has begun there.
std::string SignOfRun(FileSystem* file_system, const std::string& directory);

// Not thread-safe.
class RunWatch {
 public:
  // A wait ends when `patience` has passed without a sign of the run, unless a process holds the
  // run's directory then. `is_held` returns whether one does; it is called only at such times.
  RunWatch(absl::Time now, absl::Duration patience, std::function<bool()> is_held);

  // Called again and again while the evaluator waits for `what`, such as "the first checkpoint of
  // the run in /out". Returns the line to log, or "" if none is due: there is one at the beginning
  // of the wait for each `what`, and others after 30 s, 60 s, 120 s and so on. Returns UNAVAILABLE
  // when the wait is over.
  absl::StatusOr<std::string> Wait(absl::Time now, const std::string& what,
                                   const std::string& sign);

 private:
  const absl::Duration patience_;
  const std::function<bool()> is_held_;
  std::string what_, sign_;
  absl::Time begun_;            // The beginning of the wait for what_.
  absl::Time last_sign_;        // When sign_ was seen first.
  absl::Duration next_repeat_;  // The time from begun_ to the next log line.
};

}  // namespace shoal

#endif  // SHOAL_WORKER_EVALUATOR_RUN_WATCH_H_

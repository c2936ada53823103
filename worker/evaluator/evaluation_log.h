#ifndef SHOAL_WORKER_EVALUATOR_EVALUATION_LOG_H_
#define SHOAL_WORKER_EVALUATOR_EVALUATION_LOG_H_

#include <memory>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "runtime/observability/event_file.h"
#include "runtime/observability/record_appender.h"
#include "worker/evaluator/checkpoint_evaluator.h"

namespace shoal {

class Clock;
class FileSystem;

// Writes the results of an evaluator to NAME.jsonl, and to event files in events/NAME, of a run's
// directory. Not thread-safe, and a directory has one writer. A line has the fields
//
//   {"step": 20, "checkpoint": "ckpt-20-1-0000000000000001", "loss": 0.5, "accuracy": 0.8,
//    "examples": 10000, "seconds": 0.7, "unix_seconds": 1795296470.3}
//
// and "eval_NAME" for each metric that the model has; a value that is not known is null, as
// `accuracy` is for a model that does not classify. Lines are in the order of the evaluations.
class EvaluationLog {
 public:
  // Both pointers are borrowed. `name` is "evaluator", or that of a log of its own. Appends to the
  // lines of an earlier evaluator and removes an incomplete last line.
  static absl::StatusOr<std::unique_ptr<EvaluationLog>> Open(FileSystem* file_system,
                                                             const Clock* clock,
                                                             const std::string& run_directory,
                                                             const std::string& name);

  // Returns whether the log has a line for this checkpoint.
  bool Has(const std::string& checkpoint) const { return known_.count(checkpoint) > 0; }

  // Writes a line, and points of loss, accuracy and metrics to the event file. After an error, such
  // as a full disk, they wait and are written with the next evaluation; Has returns true at once.
  absl::Status Add(const std::string& checkpoint, const Evaluation& evaluation,
                   absl::Duration took);

 private:
  EvaluationLog(FileSystem* file_system, const Clock* clock, const std::string& events);
  absl::Status OpenLines(const std::string& path);

  FileSystem* const file_system_;
  const Clock* const clock_;
  RecordAppender lines_;
  EventFile events_;
  std::set<std::string> known_;
};

}  // namespace shoal

#endif  // SHOAL_WORKER_EVALUATOR_EVALUATION_LOG_H_

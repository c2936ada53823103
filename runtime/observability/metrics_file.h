// metrics.jsonl: one line of JSON per applied step, for machines. Documented and stable:
//
//   step                 applied updates, from 1; strictly increasing
//   epoch                from 0
//   loss                 example-weighted mean data loss + regularization, before the update
//   accuracy             correct / examples; null where the model does not classify
//   examples             of this step
//   examples_per_second  over the last seconds
//   learning_rate        of this update
//   staleness            asynchronous only: of the contribution
//   eval_loss, eval_accuracy, eval_examples   only in lines of evaluated steps
//
// Numbers that are not finite become null.
#ifndef SHOAL_RUNTIME_OBSERVABILITY_METRICS_FILE_H_
#define SHOAL_RUNTIME_OBSERVABILITY_METRICS_FILE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

#include "runtime/observability/record_appender.h"

namespace shoal {

class FileSystem;
class WritableFile;

struct StepMetrics {
  uint64_t step = 0;
  uint32_t epoch = 0;
  double loss = 0;
  absl::optional<double> accuracy;
  uint64_t examples = 0;
  double examples_per_second = 0;
  double learning_rate = 0;
  absl::optional<uint64_t> staleness;
  absl::optional<double> eval_loss;
  absl::optional<double> eval_accuracy;
  absl::optional<uint64_t> eval_examples;
};

// The line, with its newline.
std::string MetricsLine(const StepMetrics& metrics);

// Reads a line back; InvalidArgument for anything else. Unknown fields are ignored.
absl::StatusOr<StepMetrics> ParseMetricsLine(absl::string_view line);

// The last line of the file that is whole; NotFound if there is none.
absl::StatusOr<StepMetrics> LastMetricsLine(FileSystem* file_system, const std::string& path);

// The file while a run writes it. Not thread safe.
class MetricsFile {
 public:
  // Opens the file, or makes it, and cuts it back: lines of steps above `last_step`, and what a
  // crash left of a line, go. The cut replaces the file at once, so a reader sees the old or the
  // new one.
  static absl::StatusOr<std::unique_ptr<MetricsFile>> Open(FileSystem* file_system,
                                                           std::string path, uint64_t last_step);
  ~MetricsFile();
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;

  // One write(2) of one whole line. FailedPrecondition unless the step is above the last one. After
  // another error (a full disk) the line is kept and goes with the next one that can be written; of
  // a line that was written in part nothing stays. ResourceExhausted: too many wait, this one is
  // lost.
  absl::Status Append(const StepMetrics& metrics);
  // Tries again what waits.
  absl::Status Flush();

  // After a rollback: as Open does. From then on lines of steps above `last_step` are taken, also
  // after an error: the file is then cut before the next line is written into it.
  absl::Status CutBackTo(uint64_t last_step);

  uint64_t last_step() const { return last_step_; }

 private:
  MetricsFile(FileSystem* file_system, std::string path);
  // Cuts the file itself, if that is owed.
  absl::Status CutFile();

  FileSystem* const file_system_;
  const std::string path_;
  RecordAppender file_;  // a record is a line
  uint64_t last_step_ = 0;
  absl::optional<uint64_t> owed_cut_;  // The file still has to lose the lines above this step.
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_OBSERVABILITY_METRICS_FILE_H_

// metrics.jsonl has one line of JSON per applied step, for programs. Its fields are documented and
// stable:
//
//   step                 applied updates, from 1; strictly increasing
//   epoch                from 0
//   loss                 example-weighted mean data loss + regularization, before the update
//   accuracy             correct / examples; null where the model does not classify
//   examples             the number of examples in this step
//   examples_per_second  the rate over the last seconds
//   learning_rate        the learning rate of this update
//   staleness            asynchronous only: the updates made since the values were read from which
//                        the contribution was computed
//   NAME                 each metric of the model with another name, sorted by name
//   eval_loss, eval_accuracy, eval_examples, eval_NAME   only in lines of evaluated steps
//   table:TABLE:FIGURE   the figures of tables (table_figures.h), as the ps reported them last; in
//                        lines of evaluated steps, and in a line about every ten seconds
//
// Numbers that are not finite, and metrics that a step does not measure, become null.
#ifndef SHOAL_RUNTIME_OBSERVABILITY_METRICS_FILE_H_
#define SHOAL_RUNTIME_OBSERVABILITY_METRICS_FILE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "runtime/observability/record_appender.h"
#include "runtime/observability/table_figures.h"

namespace shoal {

class FileSystem;
class WritableFile;

// Values by name; a metric has no value where there was nothing to measure.
using MetricValues = std::map<std::string, std::optional<double>>;

struct StepMetrics {
  uint64_t step = 0;
  uint32_t epoch = 0;
  double loss = 0;
  std::optional<double> accuracy;
  uint64_t examples = 0;
  double examples_per_second = 0;
  double learning_rate = 0;
  std::optional<uint64_t> staleness;
  std::optional<double> eval_loss;
  std::optional<double> eval_accuracy;
  std::optional<uint64_t> eval_examples;
  MetricValues named;       // NAME
  MetricValues eval_named;  // eval_NAME
  TablesFigures tables;
};

// The line, with its newline.
std::string MetricsLine(const StepMetrics& metrics);

// Parses a line; returns InvalidArgument for other text. Unknown fields are
// metrics if their values are numbers or null.
absl::StatusOr<StepMetrics> ParseMetricsLine(absl::string_view line);

// Returns the last complete line of the file; NotFound if there is none.
absl::StatusOr<StepMetrics> LastMetricsLine(FileSystem* file_system, const std::string& path);

// Returns the last line of the file whose step was evaluated; NotFound if there is none.
absl::StatusOr<StepMetrics> LastEvaluation(FileSystem* file_system, const std::string& path);

// Writes the file of a run. Not thread-safe.
class MetricsFile {
 public:
  // Opens or creates the file, and removes lines of steps above `last_step` and an incomplete last
  // line. The shortened file replaces the old one atomically, so a reader sees either of them.
  static absl::StatusOr<std::unique_ptr<MetricsFile>> Open(FileSystem* file_system,
                                                           std::string path, uint64_t last_step);
  ~MetricsFile();
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;

  // Writes one line by one write(2). Returns FailedPrecondition unless the step is above the last
  // one. After another error (a full disk) the line waits and is written with a later one; a partly
  // written line is removed. After ResourceExhausted too many lines wait, and this one is lost.
  absl::Status Append(const StepMetrics& metrics);
  // Tries again to write the waiting lines.
  absl::Status Flush();

  // After a rollback: shortens the file like Open. Lines of steps above `last_step` are accepted
  // from then on, also after an error: the file is then shortened before the next line is written.
  absl::Status CutBackTo(uint64_t last_step);

  // Sets a function that is called before lines are removed from the file. If it returns an error,
  // they are removed later, as after an error of the disk.
  void SetMayCut(std::function<absl::Status()> may_cut) { may_cut_ = std::move(may_cut); }

  uint64_t last_step() const { return last_step_; }

 private:
  MetricsFile(FileSystem* file_system, std::string path);
  // Shortens the file if that is pending.
  absl::Status CutFile();

  FileSystem* const file_system_;
  const std::string path_;
  RecordAppender file_;  // a record is a line
  uint64_t last_step_ = 0;
  std::function<absl::Status()> may_cut_;  // Null: it is always permitted.
  // Lines above this step still have to be removed from the file.
  std::optional<uint64_t> owed_cut_;
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_OBSERVABILITY_METRICS_FILE_H_

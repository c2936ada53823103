// A file that TensorBoard reads: scalars and histograms by step.
#ifndef SHOAL_RUNTIME_OBSERVABILITY_EVENT_FILE_H_
#define SHOAL_RUNTIME_OBSERVABILITY_EVENT_FILE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

#include "runtime/observability/record_appender.h"

namespace shoal {

class Clock;
class FileSystem;
class ValueHistogram;
class WritableFile;

namespace tensorboard {
class Event;
}

struct ScalarPoint {
  absl::string_view tag;
  double value = 0;
};

// One event file in a directory that may have others of the same run (TensorBoard reads them in the
// order of their names, so one writer at a time). Nothing is made before there is something to
// write. What cannot be written waits, up to 16 MiB, and goes with what comes next. Not thread
// safe.
class EventFile {
 public:
  // Both borrowed.
  EventFile(FileSystem* file_system, const Clock* clock, std::string directory);
  ~EventFile();
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;

  // All points of a step in one record. Nothing is written before Flush, or before too much waits.
  // ResourceExhausted, or why nothing can be written: these points are lost.
  absl::Status AddScalars(uint64_t step, absl::Span<const ScalarPoint> points);
  absl::Status AddHistogram(uint64_t step, absl::string_view tag, const ValueHistogram& histogram);

  // The next step that is added makes void what this file, and those before it, have of that step
  // and later ones. So does the first of every file.
  void Restart() { restarts_ = true; }

  // Writes what waits, in one write(2). After an error (a full disk) it still waits; of a record
  // that was written in part nothing stays.
  absl::Status Flush();

  const std::string& path() const { return file_.path(); }  // Empty before the first write.

 private:
  absl::Status Add(tensorboard::Event* event);
  void Frame(const tensorboard::Event& event);
  absl::Status Open();

  FileSystem* const file_system_;
  const Clock* const clock_;
  const std::string directory_;
  RecordAppender file_;
  bool restarts_ = true;
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_OBSERVABILITY_EVENT_FILE_H_

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
// order of their names, so only one writer at a time). The file is created with the first write.
// Records that cannot be written wait, up to 16 MiB, and are written with the next ones. Not
// thread-safe.
class EventFile {
 public:
  // Both borrowed.
  EventFile(FileSystem* file_system, const Clock* clock, std::string directory);
  ~EventFile();
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;

  // Adds all points of a step as one record. Nothing is written before Flush, unless too much
  // waits. After ResourceExhausted, or another error of writing, these points are lost.
  absl::Status AddScalars(uint64_t step, absl::Span<const ScalarPoint> points);
  absl::Status AddHistogram(uint64_t step, absl::string_view tag, const ValueHistogram& histogram);

  // The next step that is added invalidates, for TensorBoard, everything that this and earlier
  // files have for that step and later ones. The first step of every file does so too.
  void Restart() { restarts_ = true; }

  // Writes the waiting records in one write(2). After an error (a full disk) they keep waiting, and
  // a partly written record is removed.
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

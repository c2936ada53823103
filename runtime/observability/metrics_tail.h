// Reads metrics.jsonl while another process writes it.
#ifndef SHOAL_RUNTIME_OBSERVABILITY_METRICS_TAIL_H_
#define SHOAL_RUNTIME_OBSERVABILITY_METRICS_TAIL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/observability/metrics_file.h"

namespace shoal {

class FileSystem;
class ReadableFile;

// Not thread-safe.
class MetricsTail {
 public:
  struct News {
    // The file was shortened after a rollback; `last_step` is its last line then.
    bool cut_back = false;
    uint64_t last_step = 0;
    std::vector<StepMetrics> lines;  // The new lines.
  };

  // Starts at the end of the file: lines that it has now are not returned. `file_system` is
  // borrowed.
  MetricsTail(FileSystem* file_system, std::string path);
  ~MetricsTail();

  // Returns the lines that were added since the last call; none for a file that does not exist yet.
  News Read();
  // Returns the step of the last line that was read; 0 if the file has none.
  uint64_t last_step() const { return last_step_; }

 private:
  // Reads whole lines from offset_ to the end.
  std::vector<StepMetrics> ReadOn();
  bool WasReplaced() const;

  FileSystem* const file_system_;
  const std::string path_;
  std::unique_ptr<ReadableFile> file_;
  uint64_t offset_ = 0;
  uint64_t last_step_ = 0;
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_OBSERVABILITY_METRICS_TAIL_H_

#ifndef SHOAL_WORKER_SUMMARY_WRITER_H_
#define SHOAL_WORKER_SUMMARY_WRITER_H_

#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/types/span.h"

#include "base/clock.h"
#include "base/mutex.h"
#include "runtime/observability/event_file.h"
#include "worker/replica_program.h"

namespace shoal {

class FileSystem;

// Writes what the model summarises, histograms and norms of gradients among it, as event files, on
// a thread of its own: a step that is summarised waits for a copy of the values, nothing else. If
// the step before is still being written, the step is left out. Offer is for one thread.
class SummaryWriter {
 public:
  struct Options {
    FileSystem* file_system = nullptr;  // Borrowed, as the clock.
    const Clock* clock = nullptr;
    std::string directory;
    uint64_t every = 1;  // Steps between summaries, > 0.
  };

  explicit SummaryWriter(const Options& options);
  // Writes what was offered.
  ~SummaryWriter();
  SummaryWriter(const SummaryWriter&) = delete;
  SummaryWriter& operator=(const SummaryWriter&) = delete;

  // A batch of the step was computed; `collect` tells what of it is summarised and is called only
  // if the step's turn has come: the first batch of a step that is a multiple of `every`, or that
  // has passed one. Steps that come again make void what was written of them.
  void Offer(uint64_t step, absl::FunctionRef<std::vector<BatchSummary>()> collect)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // Its own copy of what a BatchSummary points to.
  struct Kept {
    std::string scalar, histogram, norm;
    size_t begin = 0, size = 0;  // in values_
  };

  bool IsDue(uint64_t step);
  void Run() ABSL_LOCKS_EXCLUDED(mutex_);
  void Write();
  void Note(const absl::Status& status);

  const Options options_;
  EventFile file_;
  uint64_t last_step_ = 0;  // the last step that was offered; used by the offering thread

  // Used by the offering thread while `busy_` is false, else by the writing one.
  std::vector<Kept> kept_;
  std::vector<float> values_;
  uint64_t step_ = 0;
  bool goes_back_ = false;

  bool is_written_ = true;  // used by the writing thread: the last record
  Mutex mutex_;
  CondVar changed_;
  bool busy_ ABSL_GUARDED_BY(mutex_) = false;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace shoal

#endif  // SHOAL_WORKER_SUMMARY_WRITER_H_

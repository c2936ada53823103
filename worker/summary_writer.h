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
#include "worker/replica/replica_program.h"

namespace shoal {

class FileSystem;

// Writes the model's summaries, including histograms and norms of gradients, to event files. It has
// its own thread, so a step with summaries waits only for a copy of the values. If the previous
// step is still being written, the step is left out. Only one thread may call Offer.
class SummaryWriter {
 public:
  struct Options {
    FileSystem* file_system = nullptr;  // Borrowed, like the clock.
    const Clock* clock = nullptr;
    std::string directory;
    uint64_t every = 1;  // Steps between summaries, > 0.
  };

  explicit SummaryWriter(const Options& options);
  // Writes the step that was offered last, then ends the thread.
  ~SummaryWriter();
  SummaryWriter(const SummaryWriter&) = delete;
  SummaryWriter& operator=(const SummaryWriter&) = delete;

  // Called after each batch of a step. Calls `collect` for the batch's summaries only if they are
  // due: for the first batch of a step that is a multiple of `every`, or of the next step that
  // comes here. Steps that are repeated after a rollback replace what was written for them.
  void Offer(uint64_t step, absl::FunctionRef<std::vector<BatchSummary>()> collect)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // A copy of the data that a BatchSummary points to.
  struct Kept {
    std::string scalar, histogram, norm;
    size_t begin = 0, size = 0;  // the range in values_
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

  bool is_written_ = true;  // true if the last record was written; used by the writing thread
  Mutex mutex_;
  CondVar changed_;
  bool busy_ ABSL_GUARDED_BY(mutex_) = false;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace shoal

#endif  // SHOAL_WORKER_SUMMARY_WRITER_H_

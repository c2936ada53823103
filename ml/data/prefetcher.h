#ifndef SHOAL_ML_DATA_PREFETCHER_H_
#define SHOAL_ML_DATA_PREFETCHER_H_

#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "base/mutex.h"
#include "base/thread_pool.h"
#include "ml/data/batch_plan.h"
#include "ml/data/dataset.h"
#include "ml/tensor/buffer.h"

namespace shoal {

// The examples of one replica batch, in memory. Clone c's part are rows of the fields.
struct LoadedBatch {
  uint32_t epoch = 0;
  int64_t index = 0;
  int64_t num_examples = 0;
  std::vector<void*>
      fields;  // one entry per field of the data set: num_examples rows, the first 64-byte aligned
};

struct PrefetcherOptions {
  int depth = 2;      // batches read ahead
  int max_taken = 2;  // batches that the user holds at the same time
  int threads = 1;    // threads that share the reading of a batch
};

// Reads batches ahead of their use, one after the other, into a fixed set of buffers: no allocation
// per batch. Several threads read rows of one batch, so that it is soon there even when it was not
// known in advance; `depth` bounds what is read too early.
//
// The user knows which batches come next: Schedule names them, Take hands them out in any
// order, and a batch that was never scheduled is simply read on the spot. Thread-safe.
class Prefetcher {
 public:
  // Both borrowed or copied: `dataset` must live longer.
  Prefetcher(const Dataset& dataset, const BatchPlan& plan, const PrefetcherOptions& options);
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  // Asks for a batch ahead of Take. False if as many are waiting as may; true if it is on its way
  // or here.
  bool Schedule(uint32_t epoch, int64_t index) ABSL_LOCKS_EXCLUDED(mutex_);

  // The batch, read if need be. It stays as it is until Release. Errors are the data set's;
  // InvalidArgument past the end of the epoch.
  absl::StatusOr<const LoadedBatch*> Take(uint32_t epoch, int64_t index)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void Release(const LoadedBatch* batch) ABSL_LOCKS_EXCLUDED(mutex_);

  // Drops what was scheduled and not taken: the user's plans have changed.
  void Forget() ABSL_LOCKS_EXCLUDED(mutex_);
  // Drops what was scheduled and not taken of batches before this one, in the order of epochs.
  void ForgetBefore(uint32_t epoch, int64_t index) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  enum class State { kFree, kQueued, kLoading, kReady, kTaken };
  struct Slot {
    LoadedBatch batch;  // its content belongs to the loader in kLoading, to the user in kTaken
    std::vector<Buffer> buffers;
    std::vector<int64_t> indices;
    std::vector<absl::Status> piece_status;  // number of pieces of a batch that threads share
    State state = State::kFree;
    bool forgotten = false;  // becomes free once loaded
    uint64_t order = 0;      // of scheduling
    absl::Status status;     // of loading
  };

  void Run() ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Load(Slot& slot);
  absl::Status LoadRows(const Slot& slot, size_t begin, size_t end) const;
  Slot* Find(uint32_t epoch, int64_t index) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Slot* OldestIn(State state) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Slot& Claim(uint32_t epoch, int64_t index) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Assign(Slot& slot, uint32_t epoch, int64_t index) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Dataset& dataset_;
  const BatchPlan plan_;
  const PrefetcherOptions options_;

  const std::unique_ptr<ThreadPool> pool_;  // null for one thread

  Mutex mutex_;
  CondVar changed_;
  std::vector<Slot> slots_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_order_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace shoal

#endif  // SHOAL_ML_DATA_PREFETCHER_H_

#ifndef SHOAL_ML_DATA_PREFETCHER_H_
#define SHOAL_ML_DATA_PREFETCHER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "base/mutex.h"
#include "base/thread_pool.h"
#include "ml/data/batch_plan.h"
#include "ml/data/dataset.h"
#include "ml/data/ragged_rows.h"
#include "ml/tensor/buffer.h"

namespace shoal {

struct LoadedBatch;

// Something that the user of the batches computes from each batch, such as the keys in it, on the
// thread that reads the batch.
class BatchDigest {
 public:
  virtual ~BatchDigest() = default;

  // Computes the digest of a batch that was just read, and forgets that of the batch before. An
  // error counts as an error of reading.
  virtual absl::Status Update(const LoadedBatch& batch) = 0;
};

// The examples of one replica batch, in memory. Each clone uses a range of rows of every field.
struct LoadedBatch {
  uint32_t epoch = 0;
  int64_t index = 0;
  int64_t num_examples = 0;
  // For each dense field of the data set, num_examples rows, the first of which is 64-byte aligned;
  // for each ragged field a RaggedRows with num_examples examples.
  std::vector<void*> fields;
  const BatchDigest* digest = nullptr;  // null without PrefetcherOptions::make_digest

  // Returns field f, which must be ragged.
  const RaggedRows& ragged(size_t f) const { return RaggedOutput(fields[f]); }
};

struct PrefetcherOptions {
  int depth = 2;      // batches read ahead
  int max_taken = 2;  // batches that the user holds at the same time
  int threads = 1;    // threads that share the reading of a batch
  // Makes a digest, called once for each buffer. Null: batches have no digests.
  std::function<std::unique_ptr<BatchDigest>()> make_digest = nullptr;
};

// Reads batches before they are needed, one after the other, into a fixed set of buffers. It does
// not allocate per batch. Several threads share the rows of one batch, so that Take is quick also
// for a batch that was not scheduled; `depth` limits how many batches are read ahead.
//
// The caller announces the next batches with Schedule and fetches them with Take in any order. Take
// itself reads a batch that was never scheduled. Thread-safe.
class Prefetcher {
 public:
  // `dataset` is borrowed and must outlive the prefetcher; the rest is copied.
  Prefetcher(const Dataset& dataset, const BatchPlan& plan, const PrefetcherOptions& options);
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  // Requests that a batch is read before Take. Returns true if it is queued, being read or read
  // already; false if `depth` batches wait already, all buffers are taken, or the batch is past the
  // end of the epoch.
  bool Schedule(uint32_t epoch, int64_t index) ABSL_LOCKS_EXCLUDED(mutex_);

  // Returns the batch, and reads it first if necessary. The batch is valid and does not change
  // until Release. Errors are those of the data set, or InvalidArgument if the batch is past the
  // end of the epoch. The caller may hold at most `max_taken` batches.
  absl::StatusOr<const LoadedBatch*> Take(uint32_t epoch, int64_t index)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void Release(const LoadedBatch* batch) ABSL_LOCKS_EXCLUDED(mutex_);

  // Drops all batches that were scheduled but not taken.
  void Forget() ABSL_LOCKS_EXCLUDED(mutex_);
  // Drops the batches of earlier epochs, and those before `index` in `epoch`, that were scheduled
  // but not taken.
  void ForgetBefore(uint32_t epoch, int64_t index) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  enum class State { kFree, kQueued, kLoading, kReady, kTaken };
  struct Slot {
    LoadedBatch batch;  // written by the loading thread in kLoading, read by the caller in kTaken
    std::vector<Buffer> buffers;     // the memory of the dense fields
    std::vector<RaggedRows> ragged;  // the ragged fields
    std::vector<int64_t> indices;
    // Indexed by piece of the batch; empty for one thread. piece_ragged has the ragged fields.
    std::vector<absl::Status> piece_status;
    std::vector<std::vector<RaggedRows>> piece_ragged;
    std::unique_ptr<BatchDigest> digest;  // null: none
    State state = State::kFree;
    bool forgotten = false;  // becomes free once loaded
    uint64_t order = 0;      // rises from one scheduled batch to the next
    absl::Status status;     // the result of loading
  };

  void Run() ABSL_LOCKS_EXCLUDED(mutex_);
  void AllocateMemory(Slot& slot) const;
  absl::Status Load(Slot& slot);
  absl::Status LoadFields(Slot& slot, size_t rows);
  absl::Status LoadPieces(Slot& slot, size_t rows);
  absl::Status LoadRows(const Slot& slot, size_t begin, size_t end,
                        std::vector<RaggedRows>* ragged) const;
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

#ifndef SHOAL_WORKER_REPLICA_CHECKPOINT_ROWS_H_
#define SHOAL_WORKER_REPLICA_CHECKPOINT_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "ml/data/batch_plan.h"
#include "ml/data/dataset.h"
#include "ml/data/prefetcher.h"
#include "ml/tensor/buffer.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/tables/table_updater.h"
#include "worker/replica/batch_keys.h"
#include "worker/replica/replica_program.h"

namespace shoal {

// The rows of a checkpoint's tables that a data set reads, for evaluation and prediction without
// parameter servers. Memory grows with the different keys of the data set, not with the tables. Not
// thread-safe.
class CheckpointRows {
 public:
  // `checkpoint` is borrowed. The `table` of each entry of `lookups` is a table among the
  // checkpoint's variables. DataLoss or InvalidArgument names a table with damaged settings.
  static absl::StatusOr<std::unique_ptr<CheckpointRows>> Create(Checkpoint* checkpoint,
                                                                std::vector<TableLookups> lookups);

  // Reads the keys of all batches of the plan, and then the rows of these keys: those that the
  // checkpoint stores, and the initial values of all others. Returns Cancelled as soon as
  // `is_stopped` returns true; other errors are those of the data set and of the checkpoint.
  absl::Status ReadFor(const Dataset& data, const BatchPlan& plan, int threads,
                       const std::function<bool()>& is_stopped);

  // Makes a digest for batches whose rows are wanted; for PrefetcherOptions::make_digest.
  std::unique_ptr<BatchDigest> MakeDigest() const;

  // Returns the rows of a batch of the data set of ReadFor, one entry for each entry of the
  // lookups. They are valid until the next call; `keys` must be as long.
  absl::Span<const TableRows> GetRows(const BatchKeys& keys);

 private:
  struct WantedBucket {
    std::vector<uint64_t> keys;  // the first `num_sorted` rise; all of them after ReadFor
    size_t num_sorted = 0;
    std::vector<float> values;  // indexed as `keys`, after ReadFor
  };
  struct Table {
    std::unique_ptr<TableUpdater> updater;
    uint32_t first_slice = 0;
    std::vector<WantedBucket> buckets;
    Buffer memory;  // has the rows of a batch
    int64_t capacity = 0;
  };

  CheckpointRows(Checkpoint* checkpoint, std::vector<TableLookups> lookups)
      : checkpoint_(*checkpoint), lookups_(std::move(lookups)) {}

  void Want(const BatchKeys& keys);
  absl::Status ReadBucket(uint32_t slice, const TableUpdater& updater, WantedBucket* bucket);

  Checkpoint& checkpoint_;
  const std::vector<TableLookups> lookups_;
  std::vector<Table> tables_;    // indexed as the lookups
  std::vector<TableRows> rows_;  // indexed as the lookups
};

}  // namespace shoal

#endif  // SHOAL_WORKER_REPLICA_CHECKPOINT_ROWS_H_

#ifndef SHOAL_ML_DATA_BATCH_PLAN_H_
#define SHOAL_ML_DATA_BATCH_PLAN_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace shoal {

struct BatchPlanOptions {
  int64_t num_examples = 0;  // the examples of the data set
  int64_t batch_size = 0;    // the examples of one clone's batch
  int64_t num_clones = 1;
  uint64_t seed = 0;
  bool shuffle = true;  // false: batches in the order of the data set, as for evaluation
};

// Decides which examples are in each replica batch. Every epoch has its own permutation of the data
// set; batch `index` consists of the positions [index * n, (index + 1) * n) of it, where n =
// num_clones x batch_size. The last batch of an epoch has the examples that remain. The result
// depends only on the options and the epoch, so any process can compute any batch. Immutable and
// copyable.
class BatchPlan {
 public:
  // InvalidArgument names the field.
  static absl::StatusOr<BatchPlan> Create(const BatchPlanOptions& options);

  // Returns the number of examples in a full replica batch.
  int64_t batch_examples() const { return batch_examples_; }
  int64_t batches_per_epoch() const;

  // Returns the position of the batch's first example in the epoch. It is a part of the seed of the
  // random ops of this batch (RandomKey::first_example).
  int64_t first_example(int64_t index) const { return index * batch_examples_; }
  // Returns the number of examples in the batch: batch_examples(), fewer for the last batch of the
  // epoch, 0 for an index after it.
  int64_t num_examples(int64_t index) const;

  // Writes the data set indices of the batch's examples to `indices`, whose size must be
  // num_examples(index).
  void FillIndices(uint32_t epoch, int64_t index, absl::Span<int64_t> indices) const;

 private:
  explicit BatchPlan(const BatchPlanOptions& options);

  BatchPlanOptions options_;
  int64_t batch_examples_;
};

}  // namespace shoal

#endif  // SHOAL_ML_DATA_BATCH_PLAN_H_

#ifndef SHOAL_ML_DATA_BATCH_PLAN_H_
#define SHOAL_ML_DATA_BATCH_PLAN_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace shoal {

struct BatchPlanOptions {
  int64_t num_examples = 0;  // of the data set
  int64_t batch_size = 0;    // of a clone
  int64_t num_clones = 1;
  uint64_t seed = 0;
  bool shuffle = true;  // false: batches in the order of the data set, as for evaluation
};

// Says which examples each batch has: batch `index` of `epoch` is the index-th run of num_clones x
// batch_size examples of the epoch's permutation; the last batch of an epoch has the examples that
// remain. A pure function of seed and epoch, so any process can compute any batch. Immutable, a
// value.
class BatchPlan {
 public:
  // InvalidArgument names the field.
  static absl::StatusOr<BatchPlan> Create(const BatchPlanOptions& options);

  // Examples of a full replica batch.
  int64_t batch_examples() const { return batch_examples_; }
  int64_t batches_per_epoch() const;

  // Position in the epoch of the batch's first example (RandomKey::first_example).
  int64_t first_example(int64_t index) const { return index * batch_examples_; }
  // batch_examples(), less in the last batch, 0 past the end.
  int64_t num_examples(int64_t index) const;

  // Writes the data set's indices of the batch's examples; indices.size() must be
  // num_examples(index).
  void FillIndices(uint32_t epoch, int64_t index, absl::Span<int64_t> indices) const;

 private:
  explicit BatchPlan(const BatchPlanOptions& options);

  BatchPlanOptions options_;
  int64_t batch_examples_;
};

}  // namespace shoal

#endif  // SHOAL_ML_DATA_BATCH_PLAN_H_

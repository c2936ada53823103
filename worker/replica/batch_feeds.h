#ifndef SHOAL_WORKER_REPLICA_BATCH_FEEDS_H_
#define SHOAL_WORKER_REPLICA_BATCH_FEEDS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ml/data/dataset.h"
#include "ml/data/prefetcher.h"
#include "ml/data/ragged_rows.h"
#include "ml/graph/compiler.h"
#include "ml/nn/model.h"
#include "ml/tensor/buffer.h"

namespace shoal {

// The feeds of a graph that is compiled for one number of examples, and the part of a batch that
// each of them reads. The number of keys of a ragged field differs from batch to batch, but shapes
// are fixed when a graph is compiled; so the feeds of such a field have a capacity, and the values
// after the last key are zero.
class BatchFeeds {
 public:
  // `queue` has the placeholders of the clones; clone c gets the next clone_examples[c] examples of
  // the batch, and no feeds if these are 0. `capacities` has one number for each field, of which
  // those of ragged fields matter.
  BatchFeeds(const InputQueue& queue, const std::vector<int64_t>& clone_examples,
             std::vector<int64_t> capacities);

  const std::vector<CompileRequest::Feed>& feeds() const { return feeds_; }

  const std::vector<int64_t>& capacities() const { return capacities_; }
  // Returns the capacities that a batch needs, at least those of these feeds. A field needs as many
  // as its keys in one clone, rounded up to a power of two.
  std::vector<int64_t> CapacitiesFor(const LoadedBatch& batch) const;
  // Returns whether the batch has no more keys than the capacities allow.
  bool Fits(const LoadedBatch& batch) const;

  // Returns the memory of each feed for a batch that fits. The memory of dense fields is the
  // batch's; that of ragged fields belongs to this object and is valid until the next call.
  const std::vector<const void*>& Bind(const LoadedBatch& batch);

 private:
  struct Source {
    BatchInput input;
    int64_t first_row = 0;  // the clone begins with this row of the batch
    int64_t num_rows = 0;
    size_t row_bytes = 0;  // size of a dense row
    Buffer memory;         // holds a part of a ragged field
  };

  static void Copy(const RaggedRows& rows, Source* source);

  std::vector<int64_t> capacities_;
  std::vector<CompileRequest::Feed> feeds_;
  std::vector<Source> sources_;        // indexed by feed
  std::vector<const void*> pointers_;  // indexed by feed
};

// Returns capacities for a batch that is not known yet: one key in each example.
std::vector<int64_t> FirstCapacities(const std::vector<FieldSpec>& fields,
                                     const std::vector<int64_t>& clone_examples);

}  // namespace shoal

#endif  // SHOAL_WORKER_REPLICA_BATCH_FEEDS_H_

#ifndef SHOAL_RUNTIME_VARIABLES_SLICE_STORE_EVENTS_H_
#define SHOAL_RUNTIME_VARIABLES_SLICE_STORE_EVENTS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/plan/batch_key.h"
#include "runtime/variables/metric_sums.h"
#include "runtime/variables/version_buffer.h"

namespace shoal {

class BucketCut;

// The events since they were last taken, in order. Within a lineage no event is lost or repeated.
struct SliceStoreEvents {
  // A slice has reached a version, so pulls parked for it can be answered.
  struct Advance {
    uint32_t slice = 0;
    uint64_t version = 0;
  };
  // A version was made. Only the store with the report slice emits these, one for each version.
  struct Step {
    uint64_t step = 0;  // the version that was made, starting with 1
    uint32_t epoch = 0;
    double loss_sum = 0;        // summed over the step's examples in the order of positions
    double regularization = 0;  // example-weighted mean over the step's batches
    uint64_t correct = 0;
    uint64_t examples = 0;  // 0: all of the step's batches were skipped
    double learning_rate = 0;
    uint64_t staleness = 0;  // ASYNC
    MetricSums metrics;      // summed like the loss
  };
  // One slice of a cut. The buffers and the rows are immutable while held.
  struct CutPart {
    uint64_t cut = 0;  // the cut's version
    uint32_t slice = 0;
    // The slice's version: that of the cut in SYNC, its own number of updates in ASYNC, or
    // kEveryVersion.
    uint64_t version = 0;
    // The first version that has this value; below `version` if all batches of the steps since were
    // skipped.
    uint64_t value_version = 0;
    VersionBufferRef value;
    // All slots one after another (see VariableUpdater::slot_stride); null if there are none.
    VersionBufferRef slots;
    std::shared_ptr<BucketCut> rows;    // only of a bucket; it has neither value nor slots
    std::vector<EpochBatches> applied;  // ASYNC: the batches that the value contains
    bool completes_cut = false;         // it is the last part of this store
  };
  // SYNC with clipping by global norm: the slice has all contributions of `step` and waits for
  // ApplyScale.
  struct Norm {
    uint64_t step = 0;
    uint32_t slice = 0;
    double squared_norm = 0;  // the square of the mean contribution's L2 norm
  };

  // An update gave numbers that are not finite. The slice keeps the version before it; it takes no
  // contributions and is neither updated nor cut until it is loaded again.
  struct Poisoned {
    uint64_t step = 0;  // the version that would have been made
    uint32_t slice = 0;
    double learning_rate = 0;
  };

  std::vector<Advance> advances;
  std::vector<Step> steps;
  std::vector<CutPart> cuts;
  std::vector<Norm> norms;
  std::vector<Poisoned> poisoned;

  bool empty() const {
    return advances.empty() && steps.empty() && cuts.empty() && norms.empty() && poisoned.empty();
  }
  void Clear() {
    advances.clear();
    steps.clear();
    cuts.clear();
    norms.clear();
    poisoned.clear();
  }
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_VARIABLES_SLICE_STORE_EVENTS_H_

#ifndef SHOAL_RUNTIME_VARIABLES_SLICE_STORE_EVENTS_H_
#define SHOAL_RUNTIME_VARIABLES_SLICE_STORE_EVENTS_H_

#include <cstdint>
#include <vector>

#include "base/interval_set.h"
#include "runtime/variables/version_buffer.h"

namespace shoal {

// What happened since the events were last taken, in order. Nothing in here is lost or repeated
// within a lineage.
struct SliceStoreEvents {
  // Slices that reached a version: parked pulls may be answered now.
  struct Advance {
    uint32_t slice = 0;
    uint64_t version = 0;
  };
  // From the store with the report slice: one for each version made.
  struct Step {
    uint64_t step = 0;  // the version that was made, from 1
    uint32_t epoch = 0;
    double loss_sum = 0;        // over the step's examples, added in the order of positions
    double regularization = 0;  // example-weighted mean over the step's batches
    uint64_t correct = 0;
    uint64_t examples = 0;  // 0: all of the step's batches were skipped
    double learning_rate = 0;
    uint64_t staleness = 0;  // ASYNC
  };
  // One slice of a cut. The buffers are immutable while held.
  struct CutPart {
    uint64_t cut = 0;  // the cut's version
    uint32_t slice = 0;
    uint64_t version =
        0;  // the slice's: the cut's in SYNC, its own count of updates in ASYNC; kEveryVersion
    uint64_t value_version = 0;
    VersionBufferRef value;
    VersionBufferRef slots;  // all slots one after another (see VariableUpdater::slot_stride); null
                             // if there are none
    std::vector<EpochBatches> applied;  // ASYNC: what the value contains
    bool completes_cut = false;         // all slices of this store are through
  };
  // SYNC with clipping by global norm: the slice has all contributions of `step` and waits for
  // ApplyScale.
  struct Norm {
    uint64_t step = 0;
    uint32_t slice = 0;
    double squared_norm = 0;  // of the mean contribution
  };

  // An update gave numbers that are not finite: the slice keeps the version before it and takes,
  // cuts and makes nothing more until it is loaded again.
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

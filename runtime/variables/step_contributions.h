#ifndef SHOAL_RUNTIME_VARIABLES_STEP_CONTRIBUTIONS_H_
#define SHOAL_RUNTIME_VARIABLES_STEP_CONTRIBUTIONS_H_

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"

#include "runtime/variables/contribution.h"
#include "runtime/variables/fold.h"
#include "runtime/variables/slice_values.h"
#include "runtime/variables/staging_pool.h"
#include "runtime/variables/sync_slice.h"

namespace shoal {

// The sum to which the contributions to a slice's next version are added.
class ContributionSum {
 public:
  virtual ~ContributionSum() = default;
  // Computes sum = weight * payload if `is_first`, else sum += weight * payload. The payload fits
  // the slice.
  virtual void Add(const Payload& payload, float weight, bool is_first) = 0;
};

// The sum of a dense slice, as FoldPayload computes it.
class DenseSum : public ContributionSum {
 public:
  // `values` must outlive the object.
  DenseSum(const SliceShape& shape, SliceValues* values) : shape_(shape), values_(*values) {}
  void Add(const Payload& payload, float weight, bool is_first) override {
    FoldPayload(payload, shape_, weight, is_first, values_.sum());
  }

 private:
  const SliceShape shape_;
  SliceValues& values_;
};

// SYNC: the contributions to the next step of one slice, until they are in the slice's sum. The one
// of the lowest missing position is added when it arrives; those of later positions are copied and
// wait. Not thread-safe.
class StepContributions {
 public:
  // `sync` records what has arrived; both must outlive this object.
  StepContributions(SyncSlice* sync, ContributionSum* sum) : sync_(*sync), sum_(*sum) {}

  // Drops what waits. `staging` has the memory for contributions of steps with at most
  // `max_positions` positions.
  void Restart(uint32_t max_positions, StagingPool* staging);

  // Reserves room for the contribution of a position, unless it has room of this size already.
  // Returns false if there is none.
  bool TakeRoom(uint32_t position, uint64_t bytes);
  void ReleaseRoom(uint32_t position);
  // Copies a contribution of a later position. Returns false if there is no room.
  bool Keep(uint32_t position, const Payload& payload, uint32_t examples);

  // Returns whether the payload is the step's only contribution and can be used where it is,
  // without the sum: dense, and aligned as floats.
  bool IsWholeStep(const Payload& payload) const;
  // Adds the contribution of the next position to the sum, times its number of examples; the only
  // contribution of a step has the weight 1.
  void AddNext(const Payload& payload, uint32_t examples);
  // Adds what waited for its turn and passes over skipped positions. Returns true if the step has
  // all of its positions.
  bool AddReady(absl::FunctionRef<bool(uint32_t position)> is_skipped);

  // Returns the factor that makes the sum the mean over the step's examples.
  float MeanScale() const;

 private:
  // A contribution whose turn has not come, or the room that is reserved for it.
  struct Waiting {
    StagingPool::Block block;
    ContributionKind kind = ContributionKind::kDense;
    uint32_t examples = 0;
  };

  SyncSlice& sync_;
  ContributionSum& sum_;
  StagingPool* staging_ = nullptr;
  std::vector<Waiting> waiting_;  // indexed by position
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_VARIABLES_STEP_CONTRIBUTIONS_H_

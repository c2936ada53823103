#ifndef SHOAL_RUNTIME_VARIABLES_SLICE_STORE_H_
#define SHOAL_RUNTIME_VARIABLES_SLICE_STORE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "base/interval_set.h"
#include "runtime/plan/batch_key.h"
#include "runtime/plan/slice_table.h"
#include "runtime/plan/step_plan.h"
#include "runtime/variables/batch_decisions.h"
#include "runtime/variables/contribution.h"
#include "runtime/variables/cut_tracker.h"
#include "runtime/variables/fold.h"
#include "runtime/variables/slice_source.h"
#include "runtime/variables/slice_store_events.h"
#include "runtime/variables/slice_values.h"
#include "runtime/variables/staging_pool.h"
#include "runtime/variables/sync_slice.h"
#include "runtime/variables/variable_updater.h"
#include "runtime/variables/version_buffer.h"

namespace shoal {

namespace v1 {
class VariableSpec;
}

struct SliceStoreOptions {
  bool synchronous = true;
  uint32_t end_epoch = UINT32_MAX;  // batches of this epoch and later ones are of no run: AHEAD
  int64_t max_staleness =
      -1;  // ASYNC: a contribution computed from older values is STALE; -1: none is
  uint64_t staging_bytes = 256u << 20;  // SYNC: the most bytes of contributions out of order
  UpdateSettings update;                // optimizer, schedule, clipping, averaging
  VersionSchedule cuts;  // SYNC: versions at which every slice is cut, besides those asked for
};

// One contribution to one slice. `data` need not be aligned and is copied or consumed before Push
// returns.
struct SlicePush {
  uint32_t slice = 0;  // global index
  ContributionKind kind = ContributionKind::kDense;
  BatchKey batch;
  uint64_t step = 0;            // SYNC
  uint32_t position = 0;        // SYNC
  uint32_t examples = 0;        // of the batch: the contribution's weight
  uint64_t pulled_version = 0;  // ASYNC
  const void* data = nullptr;
  uint64_t bytes = 0;
  const BatchReport* report = nullptr;  // wanted with the table's report_slice() only
};

struct PullAnswer {
  enum State : uint8_t { kValue, kNotYet, kGone };
  State state = kNotYet;
  uint64_t version = 0;        // the slice's newest version
  uint64_t value_version = 0;  // kValue: the version that the value was made in
  VersionBufferRef value;      // kValue: as many floats as the slice has elements
};

struct WithholdAnswer {
  bool ignored = false;  // the number is not above the last decision's
  bool all_have = false;
  bool none_has = false;
};

struct CutAnswer {
  bool passed = false;          // some slice is at or past the version: nothing happens
  uint64_t newest_version = 0;  // of any slice
};

// The state of one ps (or of LOCAL): some of the slices, each with its versions, contributions on
// their way, and what the chief decided about bad batches.
//
// SYNC: a slice applies step s by itself when the contributions of all positions of the step that
// are not skipped are there. They are added in the order of positions: sum(n_p * g_p), then one
// multiplication by 1 / sum(n_p) inside the update (a step planned with one batch is not scaled at
// all). The lowest missing position is added into the slice's one sum on arrival, later ones are
// copied and wait. The previous value is kept until the next version is complete, so whoever
// repeats step s still finds version s everywhere. A step whose batches are all skipped changes the
// number, not the value. ASYNC: a contribution is applied on arrival, once per batch and slice; the
// slice's version is its own count of updates.
//
// A slice whose value or slots are not finite after an update stops at the version before, with an
// event: nothing of it is served as newer, cut or saved, until it is loaded again.
//
// One thread at a time (in processes: behind a mutex). Does not allocate in a steady state. Memory
// that it hands out (VersionBufferRef) may be read and dropped on any thread. The caller has
// checked identities, lineage, that the slice is owned here, and checksums; lengths and finiteness
// are checked here as well.
class SliceStore {
 public:
  // `owned` lists the slices of this store in index order. InvalidArgument: see VariableUpdater.
  static absl::StatusOr<std::unique_ptr<SliceStore>> Create(
      const SliceStoreOptions& options, absl::Span<const v1::VariableSpec> variables,
      const SliceTable& table, absl::Span<const uint32_t> owned);
  ~SliceStore();
  SliceStore(const SliceStore&) = delete;
  SliceStore& operator=(const SliceStore&) = delete;

  struct LoadOptions {
    uint64_t lineage = 0;
    uint64_t version = 0;
    StepPlan plan;
    std::vector<BatchKey> skipped;  // the chief's memory of skips
  };
  // Starts a lineage: forgets contributions, withholds, asked cuts and events, and takes value,
  // slots and applied sets of every slice from `source`. After an error the store must be loaded
  // again before anything else. Cuts are not repeated for the version loaded.
  absl::Status Load(const LoadOptions& options, SliceSource& source);
  bool is_synchronous() const { return options_.synchronous; }
  uint64_t lineage() const;
  const SliceTable& table() const;
  const StepPlan& plan() const { return *plan_; }  // of the lineage that was loaded
  absl::Span<const uint32_t> owned() const;
  bool Owns(uint32_t slice) const;
  std::vector<std::string> slot_names(uint32_t slice) const;

  // Contributions. Never kNone. kCorrupt: the length does not fit the slice, or sparse rows are not
  // in it. kBusy: no room for one more out of order (the lowest missing position is always taken).
  PushOutcome Push(const SlicePush& push);
  // SYNC: false while Push would answer kBusy. True: room is kept for the contribution until it
  // comes or is not needed any more. `data` of `push` is not read.
  bool MakeRoom(const SlicePush& push);
  // Bytes that are free for contributions out of order.
  uint64_t free_staging_bytes() const;

  // SYNC: the value of exactly this version.
  PullAnswer TryPull(uint32_t slice, uint64_t version) const;
  // The newest value (ASYNC), and its version (both).
  PullAnswer PullNewest(uint32_t slice) const;
  uint64_t newest_version(
      uint32_t slice) const;  // kEveryVersion for a slice that nobody contributes to
  // SYNC: positions of the slice's next step that are neither there nor skipped.
  void AppendMissingPositions(uint32_t slice, std::vector<uint32_t>* positions) const;

  // The chief's decisions; see proto/v1/parameter_service.proto.
  WithholdAnswer Withhold(const BatchKey& batch, uint64_t number);
  void Decide(const BatchKey& batch, uint64_t number, bool skip);
  // SYNC: cut every slice as it reaches `version`. ASYNC: cut all slices now under that name, once.
  CutAnswer RequestCut(uint64_t version);
  // ASYNC: batches of the epoch that every slice has.
  IntervalSet Applied(uint32_t epoch) const;
  // ASYNC: a durable checkpoint contains all batches of epochs before this one; their sets are
  // forgotten. Late contributions to them are duplicates.
  void ForgetEpochsBefore(uint32_t epoch);
  // SYNC with clipping by global norm: applies the step where it waits. Repeated or late calls do
  // nothing.
  void ApplyScale(uint64_t step, double scale);

  // Swaps what happened into `events`, whose old contents are dropped (and its memory used again).
  void TakeEvents(SliceStoreEvents* events);

 private:
  // A contribution whose turn has not come, or the room that is kept for it.
  struct Waiting {
    StagingPool::Block block;
    ContributionKind kind = ContributionKind::kDense;
    uint32_t examples = 0;
  };
  struct SliceState {
    SliceState(uint32_t slice, const VariableUpdater& updater, const SliceShape& shape);

    uint32_t slice;  // global index
    const VariableUpdater* updater;
    SliceShape shape;
    SliceValues values;
    bool reports = false;   // the table's report slice
    bool poisoned = false;  // its last update was not finite
    // SYNC
    SyncSlice sync{0};
    std::vector<Waiting> waiting;  // by position
    bool waits_for_scale = false;
    // ASYNC
    uint64_t updates = 0;
    std::map<uint32_t, IntervalSet> applied;  // by epoch
  };

  SliceStore(const SliceStoreOptions& options, const SliceTable& table);
  SliceState& StateOf(uint32_t slice) { return *states_[index_of_[slice]]; }
  const SliceState& StateOf(uint32_t slice) const { return *states_[index_of_[slice]]; }
  bool IsVersioned(const SliceState& state) const {
    return state.updater->kind() != VariableUpdater::Kind::kNone;
  }
  bool HasBatch(const SliceState& state, const BatchKey& batch) const;
  absl::Status LoadSlice(SliceState& state, const LoadOptions& options, SliceSource& source);
  void EmitCutPart(const SliceState& state, uint64_t cut, uint64_t version, bool completes);
  void EmitUnversionedCutParts(uint64_t cut);
  // False: the update was not finite, the slice stops where it is.
  bool ApplyOrPoison(SliceState& state, const SliceValues::Step& update);
  float LearningRateAt(uint64_t step);

  // slice_store_sync.cc
  void ResetSync(SliceState& state, uint64_t version, uint64_t value_version);
  PushOutcome PushSync(SliceState& state, const SlicePush& push);
  PushOutcome KeepForLater(SliceState& state, const SlicePush& push);
  bool TakeRoom(SliceState& state, const SlicePush& push);
  void AddToSum(SliceState& state, const Payload& payload, uint32_t examples);
  bool IsWholeStep(const SliceState& state, const Payload& payload) const;
  void Progress(SliceState& state);
  bool AddWhatIsThere(SliceState& state);
  bool MustWaitForScale(SliceState& state);
  // `contribution`: the sum, or the step's only contribution.
  void FinishStep(SliceState& state, float clip_scale, const float* contribution);
  void EmitStep(const SliceState& state, const StepPlan::Step& step);
  float MeanScale(const SliceState& state) const;

  // slice_store_async.cc
  PushOutcome PushAsync(SliceState& state, const SlicePush& push);
  void CutAllNow(uint64_t version);

  const SliceStoreOptions options_;
  const SliceTable table_;
  std::unique_ptr<UpdateRule> rule_;
  std::optional<LearningRateSchedule> schedule_;
  std::vector<VariableUpdater> updaters_;  // by variable
  std::vector<uint32_t> owned_;
  std::vector<uint32_t> index_of_;                   // by global slice index; UINT32_MAX: not here
  std::vector<std::unique_ptr<SliceState>> states_;  // by place in owned_
  uint32_t num_versioned_ = 0;

  uint64_t lineage_ = 0;
  std::optional<StepPlan> plan_;
  BatchDecisions decisions_;
  StagingPool staging_;
  CutTracker cuts_;
  std::set<uint64_t> done_cuts_;      // where no slice has versions of its own steps, and in ASYNC
  std::vector<BatchReport> reports_;  // SYNC, of the report slice: by position
  uint32_t first_kept_epoch_ = 0;     // ASYNC
  uint64_t rate_step_ = UINT64_MAX;   // the step that rate_ belongs to
  float rate_ = 0;
  SliceStoreEvents events_;
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_VARIABLES_SLICE_STORE_H_

#ifndef SHOAL_RUNTIME_VARIABLES_SLICE_STORE_H_
#define SHOAL_RUNTIME_VARIABLES_SLICE_STORE_H_

#include <cstdint>
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
#include "runtime/tables/table_use.h"
#include "runtime/variables/batch_decisions.h"
#include "runtime/variables/contribution.h"
#include "runtime/variables/cut_tracker.h"
#include "runtime/variables/fold.h"
#include "runtime/variables/row_payload.h"
#include "runtime/variables/slice_source.h"
#include "runtime/variables/slice_store_events.h"
#include "runtime/variables/staging_pool.h"
#include "runtime/variables/store_slice.h"
#include "runtime/variables/store_tables.h"
#include "runtime/variables/update_rules.h"
#include "runtime/variables/variable_updater.h"
#include "runtime/variables/version_buffer.h"

namespace shoal {

namespace v1 {
class VariableSpec;
}

struct SliceStoreOptions {
  bool synchronous = true;
  // The first epoch after the run: pushes of its batches, and of later ones, are AHEAD.
  uint32_t end_epoch = UINT32_MAX;
  // ASYNC: a contribution computed from values that are older by more updates is STALE; -1: no
  // limit.
  int64_t max_staleness = -1;
  // SYNC: the most bytes of contributions that arrived out of order.
  uint64_t staging_bytes = 256u << 20;
  uint64_t seed = 0;      // the run's; the initial values of tables' rows depend on it
  UpdateSettings update;  // optimizer, schedule, clipping, averaging, groups
  // SYNC: the versions at which every slice is cut, in addition to requested ones.
  VersionSchedule cuts;
};

// One contribution to one slice. `data` need not be aligned and is copied or consumed before Push
// returns.
struct SlicePush {
  uint32_t slice = 0;  // global index
  ContributionKind kind = ContributionKind::kDense;
  BatchKey batch;
  uint64_t step = 0;            // SYNC
  uint32_t position = 0;        // SYNC
  uint32_t examples = 0;        // the batch's examples, which are the contribution's weight
  uint64_t pulled_version = 0;  // ASYNC
  const void* data = nullptr;
  uint64_t bytes = 0;
  const BatchReport* report = nullptr;  // needed only for the table's report_slice()
};

struct PullAnswer {
  enum State : uint8_t { kValue, kNotYet, kGone };
  State state = kNotYet;
  uint64_t version = 0;        // the slice's newest version
  uint64_t value_version = 0;  // kValue: the version in which the value was made
  VersionBufferRef value;      // kValue: the slice's elements; null for a bucket
};

struct WithholdAnswer {
  bool ignored = false;  // the number is not above that of the last decision
  bool all_have = false;
  bool none_has = false;
};

struct CutAnswer {
  bool passed = false;          // some slice is beyond the version: nothing happens
  bool waits = false;           // some slice has not reached the version yet
  uint64_t newest_version = 0;  // the highest of all slices
};

// The state of one ps (or, in LOCAL, of the process): its slices, each with its versions and the
// contributions to its next step, and the chief's decisions about bad batches.
//
// SYNC: each slice applies step s as soon as it has the contributions of all positions of the step
// that are not skipped. They are added in the order of positions: sum(n_p * g_p), then multiplied
// once by 1 / sum(n_p) inside the update (a step planned with one batch is not scaled at all). The
// contribution of the lowest missing position is added to the slice's only sum when it arrives;
// those of later positions are copied and wait. The previous value is kept until the next version
// is complete, so a worker that repeats step s can still pull version s of every slice. A step
// whose batches are all skipped changes the version, not the value. ASYNC: a contribution is
// applied when it arrives, once per batch and slice; a slice's version is its own number of
// updates.
//
// A slice whose value or slots are not finite after an update is poisoned: it keeps the version
// before the update, emits an event, and is neither updated nor cut until it is loaded again.
//
// A bucket of a table is a slice whose value is read by keys (ReadRows) and whose contributions
// have kind kRows; everything else applies to it as well.
//
// Not thread-safe (a ps guards it with a mutex). It does not allocate in a steady state. Its
// VersionBufferRefs may be read and dropped on any thread. The caller has checked identities,
// lineage, ownership of the slice, and checksums; this class checks lengths and finiteness.
class SliceStore {
 public:
  // Creates a store of the slices in `owned`, which are in index order. For InvalidArgument see
  // VariableUpdater.
  static absl::StatusOr<std::unique_ptr<SliceStore>> Create(
      const SliceStoreOptions& options, absl::Span<const v1::VariableSpec> variables,
      const SliceTable& table, absl::Span<const uint32_t> owned);
  SliceStore(const SliceStore&) = delete;
  SliceStore& operator=(const SliceStore&) = delete;

  struct LoadOptions {
    uint64_t lineage = 0;
    uint64_t version = 0;
    StepPlan plan;
    std::vector<BatchKey> skipped;  // the batches that the chief has skipped
  };
  // Starts a lineage: forgets contributions, withholds, requested cuts and events, and takes value,
  // slots and applied batches of every slice from `source`. After an error the store must be loaded
  // again before anything else. The loaded version is not cut again.
  absl::Status Load(const LoadOptions& options, SliceSource& source);
  bool is_synchronous() const { return options_.synchronous; }
  const SliceTable& table() const;
  const StepPlan& plan() const { return *plan_; }  // the plan of the loaded lineage
  absl::Span<const uint32_t> owned() const;
  bool Owns(uint32_t slice) const;
  std::vector<std::string> slot_names(uint32_t slice) const;

  // Takes a contribution. Never returns kNone. Returns kCorrupt if the length does not fit the
  // slice or a sparse row is outside it, kBusy if there is no room for another contribution out of
  // order (the one of the lowest missing position is always taken).
  PushOutcome Push(const SlicePush& push);
  // SYNC: returns false while Push would return kBusy. Otherwise reserves room for the contribution
  // until it arrives or is not needed any more, and returns true. `push.data` is not read.
  bool MakeRoom(const SlicePush& push);

  // SYNC: returns the value of exactly this version.
  PullAnswer TryPull(uint32_t slice, uint64_t version) const;
  // Reads rows of a bucket: answers like TryPull in SYNC and like PullNewest in ASYNC, and if the
  // answer is kValue, writes the values of the keys' rows one after another to `values`.
  PullAnswer ReadRows(uint32_t slice, uint64_t version, absl::Span<const uint64_t> keys,
                      float* values) const;
  // Asks for the memory that ReadRows of these keys of a bucket reads first.
  void PrefetchRows(uint32_t slice, absl::Span<const uint64_t> keys) const {
    GetState(slice).bucket->Prefetch(keys);
  }
  // Returns the use of every table that has a bucket here. Any thread may call it, also while
  // another thread uses the store.
  std::vector<TableUse> TablesInUse() const { return tables_.InUse(); }
  // Returns the newest version and, in ASYNC, its value.
  PullAnswer PullNewest(uint32_t slice) const;
  // Returns kEveryVersion for a slice that receives no contributions.
  uint64_t newest_version(uint32_t slice) const;
  // SYNC: appends the positions of the slice's next step that have neither arrived nor been
  // skipped.
  void AppendMissingPositions(uint32_t slice, std::vector<uint32_t>* positions) const;

  // Carry out the chief's decisions; see proto/v1/parameter_service.proto.
  WithholdAnswer Withhold(const BatchKey& batch, uint64_t number);
  void Decide(const BatchKey& batch, uint64_t number, bool skip);
  // SYNC: cuts every slice when it reaches `version`, or now if it is there. ASYNC: cuts all slices
  // now, once, under that number.
  CutAnswer RequestCut(uint64_t version);
  // ASYNC: returns the batches of the epoch that every slice has.
  IntervalSet Applied(uint32_t epoch) const;
  // ASYNC: a durable checkpoint contains all batches of earlier epochs, so their sets are
  // forgotten. Late contributions of these batches are duplicates.
  void ForgetEpochsBefore(uint32_t epoch);
  // SYNC with clipping by global norm: applies the step to the slices that wait for its scale.
  // Repeated or late calls do nothing.
  void ApplyScale(uint64_t step, double scale);

  // Swaps the events since the last call into `events`, whose old contents are dropped and whose
  // memory is reused.
  void TakeEvents(SliceStoreEvents* events);

 private:
  friend class SliceStorePeer;

  SliceStore(const SliceStoreOptions& options, const SliceTable& table);
  StoreSlice& GetState(uint32_t slice) const { return *states_[index_of_[slice]]; }
  bool HasBatch(const StoreSlice& state, const BatchKey& batch) const;
  absl::Status LoadSlice(StoreSlice& state, const LoadOptions& options, SliceSource& source);
  // Checks the versions of a slice that a source has filled in, and starts from them.
  absl::Status TakeVersions(StoreSlice& state, const LoadOptions& options, uint64_t version,
                            uint64_t value_version, std::vector<EpochBatches>* applied);
  void EmitCutPart(const StoreSlice& state, uint64_t cut, uint64_t version, bool completes);

  // slice_store_sync.cc
  PushOutcome PushSync(StoreSlice& state, const SlicePush& push);
  void Progress(StoreSlice& state);
  bool MustWaitForScale(StoreSlice& state);
  // `contribution` is the sum, or the step's only contribution.
  void FinishStep(StoreSlice& state, float clip_scale, const float* contribution);
  void EmitStep(const StoreSlice& state, const StepPlan::Step& step);
  // Cuts the slice at its version, and with the last slice also those without versions.
  void CutSlice(const StoreSlice& state);

  // slice_store_buckets.cc
  absl::Status LoadBucket(StoreSlice& state, const LoadOptions& options, SliceSource& source);

  // slice_store_async.cc
  PushOutcome PushAsync(StoreSlice& state, const SlicePush& push);
  // Returns false if the update was not finite.
  bool ApplyNow(StoreSlice& state, const Payload& payload);
  void CutAllNow(uint64_t version);

  const SliceStoreOptions options_;
  const SliceTable table_;
  std::unique_ptr<UpdateRules> rules_;
  std::vector<VariableUpdater> updaters_;  // indexed by variable
  StoreTables tables_;
  RowScratch row_scratch_;
  std::vector<uint32_t> owned_;
  // Indexed by global slice index; UINT32_MAX for slices of other stores.
  std::vector<uint32_t> index_of_;
  std::vector<std::unique_ptr<StoreSlice>> states_;  // indexed by place in owned_
  uint32_t num_versioned_ = 0;

  std::optional<StepPlan> plan_;
  BatchDecisions decisions_;
  StagingPool staging_;
  CutTracker cuts_;
  // Cuts that were made at once: in ASYNC, and where no slice has versions.
  std::set<uint64_t> done_cuts_;
  // SYNC: the reports that came with the report slice, by position.
  std::vector<BatchReport> reports_;
  uint32_t first_kept_epoch_ = 0;  // ASYNC
  SliceStoreEvents events_;
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_VARIABLES_SLICE_STORE_H_

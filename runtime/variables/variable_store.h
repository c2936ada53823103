#ifndef SHOAL_RUNTIME_VARIABLES_VARIABLE_STORE_H_
#define SHOAL_RUNTIME_VARIABLES_VARIABLE_STORE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

#include "runtime/plan/batch_key.h"
#include "runtime/variables/contribution.h"

namespace shoal {

// Slices that travel together. Fixed at the start: slices of one ps, consecutive in the order in
// which a backward pass makes gradients final.
struct ExchangeGroup {
  uint32_t ps = 0;
  std::vector<uint32_t> slices;  // global slice indices
  uint64_t bytes = 0;            // of all slices' values
  bool versioned = true;  // false: nobody contributes to these slices; pull them once per lineage
};

// One round trip about one group: push contributions of a batch, pull values, or both. All memory
// stays the caller's and untouched until `done` has been called.
struct Exchange {
  uint32_t group = 0;
  uint64_t lineage = 0;  // that the caller believes in; another one than the store's: ABORTED

  // Push: one contribution for each slice of the group.
  bool push = false;
  BatchKey batch;
  uint64_t step = 0;            // SYNC: the version that the contribution was computed from
  uint32_t position = 0;        // SYNC: the batch's place in the step
  uint32_t batch_examples = 0;  // the contribution's weight
  BatchReport report;           // read only if the group contains SliceTable::report_slice()
  const ContributionKind* push_kinds = nullptr;  // by slice in the group; null: all kDense
  const void* const* push_data =
      nullptr;  // by slice in the group; null pointers inside: slice not pushed
  const uint64_t* push_bytes = nullptr;       // by slice in the group; null: the slices' own sizes
  const uint64_t* pulled_versions = nullptr;  // ASYNC: by slice in the group

  // Pull. SYNC: the values of exactly `pull_version`, waiting for them up to `park`; all or nothing
  // per slice. Not waiting if a push of this exchange came to anything but kAccepted or kDuplicate:
  // the caller has to act first. ASYNC: whatever is newest after the pushes of this exchange, at
  // once.
  bool pull = false;
  uint64_t pull_version = 0;
  float* const* pull_data =
      nullptr;                 // by slice in the group; null pointers inside: slice not wanted
  bool versions_only = false;  // answer versions, copy nothing, do not wait
  absl::Duration park = absl::ZeroDuration();
};

struct PulledSlice {
  uint64_t version = 0;  // the slice's newest version; kEveryVersion if it has none
  uint64_t value_version =
      0;  // the version that the copied value was made in, at or before the wanted one
  bool has_value = false;  // false: not there in time (version < wanted), gone (version > wanted +
                           // 1), or not asked
};

// Valid during the call of `done` only.
struct ExchangeResult {
  absl::Status status;
  absl::Span<const PushOutcome> outcomes;  // by slice in the group; empty without push
  absl::Span<const PulledSlice> pulls;     // by slice in the group; empty without pull
  absl::Span<const uint32_t>
      missing_positions;  // SYNC, when waiting was in vain: who the first incomplete slice lacks
};

// Where the variables are, as far as their users have to know.
struct StoreView {
  uint64_t term = 0;
  uint64_t view = 0;
  uint64_t lineage = 0;
  std::vector<std::string> ps_addresses;  // by ps index
  std::vector<uint64_t> ps_incarnations;  // by ps index
};

// The variables as a worker sees them, wherever they live: in ps tasks or in this process.
//
// Thread-safe. `done` runs exactly once, on a thread of the store (or later inside another call of
// the store, never inside its own Start), with no lock held. Keep its captures within two pointers:
// then nothing is allocated. At most kMaxExchangesPerGroup exchanges of a group may be under way.
//
// The caller retries nothing: lost messages, BUSY, CORRUPT and unreachable ps are retried inside,
// with the same identities, until the exchange is done or no longer makes sense. A push that stays
// BUSY for kBusyPatience is answered kBusy: the caller may own an earlier position that has to come
// first, and needs the buffers for it. status is then
//   OK         whatever the outcomes say (also when a parked pull ended without the value)
//   ABORTED    the lineage changed (SetView): forget what was pulled, start again from the versions
//   CANCELLED  Shutdown
class VariableStore {
 public:
  using Done = std::function<void(const ExchangeResult&)>;
  static constexpr int kMaxExchangesPerGroup = 4;
  static constexpr absl::Duration kBusyPatience = absl::Seconds(5);

  virtual ~VariableStore() = default;

  virtual const std::vector<ExchangeGroup>& groups() const = 0;

  virtual void Start(const Exchange& exchange, Done done) = 0;

  // Moves on to another view; exchanges under way of an older lineage end with ABORTED. Older views
  // are ignored.
  virtual void SetView(const StoreView& view) = 0;

  // Ends all exchanges with CANCELLED; returns when no `done` runs any more.
  virtual void Shutdown() = 0;
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_VARIABLES_VARIABLE_STORE_H_

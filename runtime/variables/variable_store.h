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

// Slices that are exchanged together. Groups are fixed at the start. A group has slices of one ps
// that are consecutive in the order in which a backward pass makes gradients final.
struct ExchangeGroup {
  uint32_t ps = 0;
  std::vector<uint32_t> slices;  // global slice indices
  uint64_t bytes = 0;            // the bytes of all slices' values
  // If false, the slices receive no contributions and are pulled once per lineage.
  bool versioned = true;
  // If true, the slices are buckets of one or several tables, and a pull names the keys of the
  // rows.
  bool buckets = false;
};

// The rows of one bucket that a pull reads.
struct RowPull {
  const uint64_t* keys = nullptr;  // rising
  uint32_t num_keys = 0;
  float* values = nullptr;  // receives the rows' values, one after another
};

// One round trip for one group: pushes contributions of a batch, pulls values, or both. All memory
// belongs to the caller and must not be changed until `done` has been called.
struct Exchange {
  uint32_t group = 0;
  // The lineage that the caller knows. If it is not the store's, the exchange ends with ABORTED.
  uint64_t lineage = 0;

  // Push: one contribution for each slice of the group.
  bool push = false;
  BatchKey batch;
  uint64_t step = 0;            // SYNC: the version from which the contribution was computed
  uint32_t position = 0;        // SYNC: the batch's place in the step
  uint32_t batch_examples = 0;  // the contribution's weight
  BatchReport report;           // read only if the group contains SliceTable::report_slice()
  const ContributionKind* push_kinds = nullptr;  // indexed by slice in the group; null: all kDense
  // Indexed by slice in the group; a null element means that the slice is not pushed.
  const void* const* push_data = nullptr;
  // Indexed by slice in the group; null: the sizes of dense contributions.
  const uint64_t* push_bytes = nullptr;
  const uint64_t* pulled_versions = nullptr;  // ASYNC: indexed by slice in the group

  // Pull. SYNC: returns the values of exactly `pull_version` and waits up to `park` for them; a
  // slice without that version returns no value. It does not wait if a push of this exchange had
  // another outcome than kAccepted or kDuplicate, because then the caller has to act first. ASYNC:
  // returns at once the newest values after the pushes of this exchange.
  bool pull = false;
  uint64_t pull_version = 0;
  // Indexed by slice in the group; a null element means that the slice is not wanted.
  float* const* pull_data = nullptr;
  // Replaces pull_data for a group of buckets; indexed by slice in the group. A bucket without
  // keys is asked for its version only, and waited for like the others.
  const RowPull* pull_rows = nullptr;
  bool versions_only = false;  // return only versions, without waiting
  absl::Duration park = absl::ZeroDuration();
};

struct PulledSlice {
  uint64_t version = 0;  // the slice's newest version; kEveryVersion if it has none
  // The version in which the copied value was made; not above the wanted one.
  uint64_t value_version = 0;
  // If false, the value was not there in time (version < wanted), is gone (version > wanted + 1),
  // or was not wanted.
  bool has_value = false;
};

// The result of an exchange; valid only during the call of `done`.
struct ExchangeResult {
  absl::Status status;
  absl::Span<const PushOutcome> outcomes;  // indexed by slice in the group; empty without push
  absl::Span<const PulledSlice> pulls;     // indexed by slice in the group; empty without pull
  // SYNC: if a pull was not answered in time, the positions that the first incomplete slice lacks.
  absl::Span<const uint32_t> missing_positions;
};

// The addresses and identities that a user of the variables needs.
struct StoreView {
  uint64_t term = 0;
  uint64_t view = 0;
  uint64_t lineage = 0;
  std::vector<std::string> ps_addresses;  // indexed by ps
  std::vector<uint64_t> ps_incarnations;  // indexed by ps
};

// A worker's access to the variables, which may be in ps tasks or in this process.
//
// Thread-safe. `done` runs exactly once, on a thread of the store or inside a later call of the
// store, never inside its own Start, with no lock held. Captures of at most two pointers avoid an
// allocation. At most kMaxExchangesPerGroup exchanges of a group may be under way.
//
// The store itself retries after lost messages, BUSY, CORRUPT and unreachable ps, with the same
// identities, until the exchange is done or no longer makes sense. A push that stays BUSY for
// kBusyPatience ends with kBusy, because the caller may have to compute an earlier position first
// and needs the buffers for it. The status of an exchange is
//   OK         with any outcomes, also if a parked pull ended without the value
//   ABORTED    if the lineage changed (SetView): pulled values are void; ask for the versions again
//   CANCELLED  after Shutdown
class VariableStore {
 public:
  using Done = std::function<void(const ExchangeResult&)>;
  static constexpr int kMaxExchangesPerGroup = 4;
  // For stores that keep the memory of exchanges, their flights, for later ones: an exchange still
  // uses its flight while `done` runs, and the caller may start the next one meanwhile.
  static constexpr int kFlightsPerGroup = kMaxExchangesPerGroup + 1;
  static constexpr absl::Duration kBusyPatience = absl::Seconds(5);

  virtual ~VariableStore() = default;

  virtual const std::vector<ExchangeGroup>& groups() const = 0;

  virtual void Start(const Exchange& exchange, Done done) = 0;

  // Switches to a newer view; exchanges under way of an older lineage end with ABORTED. Older views
  // are ignored.
  virtual void SetView(const StoreView& view) = 0;

  // Ends all exchanges with CANCELLED; returns when no `done` runs any more.
  virtual void Shutdown() = 0;
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_VARIABLES_VARIABLE_STORE_H_

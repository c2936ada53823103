#ifndef SHOAL_PS_PULL_WAITER_H_
#define SHOAL_PS_PULL_WAITER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "runtime/variables/slice_store.h"
#include "runtime/variables/variable_store.h"

namespace shoal {

// The pulls of one call, or its request for room for contributions. After OnPulled the object may
// be filled again and reused.
class PullWaiter {
 public:
  virtual ~PullWaiter() = default;

  // --- What is asked for. Pull uses these four:
  std::vector<uint32_t> slices;  // Slices of this shard. AskForRoom clears them.
  uint64_t version = 0;          // SYNC: the version to pull.
  // The rows to read, indexed as `slices`; their values are written before OnPulled is called.
  // Empty if none of the slices is a bucket. `values` may be null until AllocateRows.
  std::vector<RowPull> rows;
  bool versions_only = false;  // Asks for versions without values; such a call never waits.
  // AskForRoom uses this one; it is empty in a Pull.
  std::vector<SlicePush> asks;  // The contributions that need room, without `data`.
  // Both use this one.
  absl::Duration park;  // SYNC: the longest wait for the version (Pull) or for room (AskForRoom).

  // Called, with the lock of a part, when rows are about to be read and have no memory for their
  // values: sets the `values` of all of `rows`. A worker's pull is of one exchange group, whose
  // slices are in one part (SpreadSlices), so one that waits needs memory for its keys only.
  virtual void AllocateRows() {}

  // --- The answer.
  // Called exactly once, without locks, possibly inside Pull or AskForRoom. `status` is OK and the
  // fields below are filled, or it is ABORTED ("moved") or UNAVAILABLE.
  virtual void OnPulled() = 0;
  absl::Status status;
  uint64_t lineage = 0;
  // The positions that the first slice without the version, or without room, still lacks.
  std::vector<uint32_t> missing_positions;
  std::vector<PullAnswer> answers;  // Pull: one for each of `slices`.
  bool has_room = false;            // AskForRoom: every contribution has room.

 private:
  friend class ParameterShard;
  friend class ShardPart;
  size_t first_waiting_ = 0;  // Slices of the part before this index have the version.
  size_t part_ = 0;           // The part in which it waits or is being answered.
  absl::Time give_up_;
  std::shared_ptr<const std::function<bool()>> may_act_;
};

}  // namespace shoal

#endif  // SHOAL_PS_PULL_WAITER_H_

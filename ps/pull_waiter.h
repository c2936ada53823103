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

  std::vector<uint32_t> slices;  // Slices of this shard.
  uint64_t version = 0;          // SYNC: the version to pull.
  // The rows to read, indexed as `slices`; their values are written before OnPulled is called.
  // Empty if none of the slices is a bucket.
  std::vector<RowPull> rows;
  bool versions_only = false;   // Asks for versions without values; such a call never waits.
  absl::Duration park;          // SYNC: the longest wait for the version, or for room.
  std::vector<SlicePush> asks;  // AskForRoom: the contributions, without `data`.

  // Called exactly once, without locks, possibly inside Pull. `status` is OK and the fields below
  // are filled, or it is ABORTED ("moved") or UNAVAILABLE.
  virtual void OnPulled() = 0;
  absl::Status status;
  uint64_t lineage = 0;
  std::vector<PullAnswer> answers;  // One for each of `slices`.
  // The positions that the first slice without the version, or without room, still lacks.
  std::vector<uint32_t> missing_positions;
  bool has_room = false;  // AskForRoom: every contribution has room.

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

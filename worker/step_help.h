#ifndef SHOAL_WORKER_STEP_HELP_H_
#define SHOAL_WORKER_STEP_HELP_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

namespace shoal {

// Decides which positions of other workers a worker computes, so that a slow worker does not delay
// the others. This changes only who computes what, and when: a contribution counts once, and its
// bytes do not depend on the worker that computed it.
//
// The worker of rank r computes position r of each step and, if there are fewer workers than
// positions, also position r + the number of workers, and so on. Workers whose rank is
// at least num_positions have no position of their own: they are surplus. A surplus worker covers
// one position from the start of each step: that of the slow worker whom it last overtook,
// otherwise another position in each step. So a worker that stays slow is found within as many
// steps as a step has positions, and is covered from then on.
//
// A worker that has nothing left to compute waits for the next version and learns at intervals
// which positions are still missing. After some time it takes one of them over. A surplus worker
// waits for half of a usual step. Another worker waits longer, because help delays its own next
// position: for two usual steps if its rank follows that of the position's worker, for four if its
// rank is the next but one, and so on; and for two usual steps more if there are surplus workers,
// who should come first. Each worker measures the duration of a usual step. A step in which help
// was useful does not count, so that a slow worker does not become the measure; a step in which
// help was useless counts.
//
// Not thread-safe; it has no clock.
class StepHelp {
 public:
  // The worker's place in the run's view, and the step's number of positions.
  struct Place {
    uint64_t rank = 0;
    uint32_t num_positions = 1;
    absl::Span<const uint32_t> workers;  // worker indices in rank order
  };

  // Starts a step. `is_usual` is false if its duration is not typical, because it evaluates.
  void StartStep(absl::Time now, uint64_t step, const Place& place, bool is_usual);

  // Returns whether the worker computes the position in this step although it belongs to another
  // worker.
  bool Covers(uint32_t position) const {
    return position < covered_.size() &&
           (covered_[position] == Cover::kFromStart || covered_[position] == Cover::kTakenOver);
  }
  // Stops covering the position in this step, because the ps did not take the contribution.
  void GiveUp(uint32_t position) { covered_[position] = Cover::kNoMore; }

  // The worker has nothing left to compute in this step. Repeated calls change nothing.
  void OnIdle(absl::Time now);

  // Called after OnIdle with the positions that a slice lacks. Returns the one, if any, that the
  // worker covers from now on. `may_take` returns whether a position belongs to another worker and
  // is neither computed here nor decided by the chief.
  std::optional<uint32_t> Consider(absl::Time now, const Place& place,
                                   absl::Span<const uint32_t> missing,
                                   absl::FunctionRef<bool(uint32_t position)> may_take);

  // Returns how long the next pull of the awaited version is parked before the worker wants to
  // learn the missing positions.
  absl::Duration Park(absl::Time now, const Place& place);

  // The ps took this worker's contribution to a position that belongs to the worker with index
  // `worker`. `was_first`: nobody else had delivered any part of it.
  void OnDelivered(uint64_t step, uint32_t position, uint32_t worker, bool was_first);

  static constexpr absl::Duration kLongestPark = absl::Seconds(2);

 private:
  enum class Cover : uint8_t { kNo, kFromStart, kTakenOver, kNoMore };
  // The state of the positions that were taken over in a step.
  enum class Help : uint8_t { kNone, kUnanswered, kUseful, kUseless };

  static bool IsSurplus(const Place& place) { return place.rank >= place.num_positions; }
  void Measure(absl::Duration step);
  // Returns how long to wait before taking over a position. A worker that is not a surplus worker
  // waits this time for the position of the rank before it.
  absl::Duration Patience(const Place& place) const;

  absl::Duration usual_;  // the duration of a usual step; zero: not measured yet
  absl::Time started_ = absl::InfinitePast();
  absl::Time idle_since_ = absl::InfiniteFuture();
  absl::Duration own_work_;  // the time from the start of the step until the worker was first idle
  uint64_t step_ = UINT64_MAX;
  bool is_usual_ = false;
  Help help_ = Help::kNone;
  // The duration of the previous step, if it counts unless its help turns out to have been useful.
  std::optional<absl::Duration> undecided_;
  std::vector<Cover> covered_;  // indexed by position
  std::optional<uint32_t> slow_worker_;
};

}  // namespace shoal

#endif  // SHOAL_WORKER_STEP_HELP_H_

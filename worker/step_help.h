#ifndef SHOAL_WORKER_STEP_HELP_H_
#define SHOAL_WORKER_STEP_HELP_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

namespace shoal {

// Which positions of others a worker computes, so that a slow worker holds nobody up. It decides
// only who computes what, and when: a contribution counts once and is the same whoever made it.
//
// A worker beyond the step's positions (its rank is not below their number) is a surplus worker. It
// covers one position from the start of each step: that of the worker whose contribution it
// delivered first the last time, else another one in each step. So a worker that stays slow is
// found within as many steps as a step has positions, and covered from then on.
//
// Whoever has nothing left to compute waits for the next version and hears now and then which
// positions nobody has delivered. It takes one of them over when it has waited long: a surplus
// worker for half of a usual step; any other, whose own next position would come later for it, for
// two usual steps if its rank follows that of the position's worker, for four if it is the one
// after, and so on; and for two more where there are surplus workers. Each worker measures what a
// usual step is. A step in which help was of use does not count, so that a slow worker does not
// become the measure; one in which help was useless does.
//
// One thread at a time, no clock inside.
class StepHelp {
 public:
  // The worker's place in the run's view, and the step's number of positions.
  struct Place {
    uint64_t rank = 0;
    uint32_t num_positions = 1;
    absl::Span<const uint32_t> workers;  // worker indices in rank order
  };

  // `is_usual`: the step is like others, nothing is evaluated.
  void StartStep(absl::Time now, uint64_t step, const Place& place, bool is_usual);

  // The worker computes the position in this step although it is another one's.
  bool Covers(uint32_t position) const {
    return position < covered_.size() &&
           (covered_[position] == Cover::kFromStart || covered_[position] == Cover::kTakenOver);
  }
  // It does so no more in this step: the contribution was not taken.
  void GiveUp(uint32_t position) { covered_[position] = Cover::kNoMore; }

  // The worker has nothing left to compute in this step. Repeated calls change nothing.
  void OnIdle(absl::Time now);

  // After OnIdle: the positions that a slice lacks. Returns one that the worker covers from now on.
  // `may_take`: it is another worker's, and neither computed here nor decided by the chief.
  std::optional<uint32_t> Consider(absl::Time now, const Place& place,
                                   absl::Span<const uint32_t> missing,
                                   absl::FunctionRef<bool(uint32_t position)> may_take);

  // How long the next pull of the version that is waited for may be parked before the worker wants
  // to hear what is missing.
  absl::Duration Park(absl::Time now, const Place& place);

  // The ps took the contribution to the step's position, which belongs to the worker with this
  // index. `was_first`: nobody had delivered any of it.
  void OnDelivered(uint64_t step, uint32_t position, uint32_t worker, bool was_first);

  static constexpr absl::Duration kLongestPark = absl::Seconds(2);

 private:
  enum class Cover : uint8_t { kNo, kFromStart, kTakenOver, kNoMore };
  // What is known of the positions that were taken over in a step.
  enum class Help : uint8_t { kNone, kUnanswered, kUseful, kUseless };

  static bool IsSurplus(const Place& place) { return place.rank >= place.num_positions; }
  void Measure(absl::Duration step);
  // How long to wait before a position is taken over; by a worker that is no surplus one, that of
  // the rank before it.
  absl::Duration Patience(const Place& place) const;

  absl::Duration usual_;  // a step's; zero: not measured yet
  absl::Time started_ = absl::InfinitePast();
  absl::Time idle_since_ = absl::InfiniteFuture();
  absl::Duration own_work_;  // from the start of the step until the worker was first idle
  uint64_t step_ = UINT64_MAX;
  bool is_usual_ = false;
  Help help_ = Help::kNone;
  // How long the step before took, if it counts unless its help turns out to have been of use.
  std::optional<absl::Duration> undecided_;
  std::vector<Cover> covered_;  // by position
  std::optional<uint32_t> slow_worker_;
};

}  // namespace shoal

#endif  // SHOAL_WORKER_STEP_HELP_H_

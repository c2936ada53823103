#include "worker/step_help.h"

#include <algorithm>

namespace shoal {
namespace {

// For shorter steps the network and the scheduler decide which worker is last, and help would be
// useless.
constexpr absl::Duration kLeastSurplusPatience = absl::Milliseconds(20);
constexpr absl::Duration kLeastPatience = absl::Milliseconds(100);
// The time in which the values of a complete step may still be on their way.
constexpr absl::Duration kShortestPark = absl::Milliseconds(5);

}  // namespace

void StepHelp::StartStep(absl::Time now, uint64_t step, const Place& place, bool is_usual) {
  undecided_.reset();
  if (step == step_ + 1 && is_usual_ && help_ == Help::kUnanswered) {
    undecided_ = now - started_;
  } else if (step == step_ + 1 && is_usual_ && help_ != Help::kUseful) {
    Measure(now - started_);
  }
  step_ = step;
  started_ = now;
  is_usual_ = is_usual;
  help_ = Help::kNone;
  own_work_ = absl::ZeroDuration();
  idle_since_ = absl::InfiniteFuture();
  covered_.assign(place.num_positions, Cover::kNo);
  if (!IsSurplus(place)) return;
  uint64_t position = (step + place.rank) % place.num_positions;
  for (uint32_t rank = 0; rank < place.num_positions && slow_worker_.has_value(); ++rank) {
    if (place.workers[rank] == *slow_worker_) position = rank;
  }
  covered_[position] = Cover::kFromStart;
}

// Follows a run that becomes slower slowly, and one that becomes faster at once.
void StepHelp::Measure(absl::Duration step) {
  if (usual_ == absl::ZeroDuration()) {
    usual_ = step;
  } else if (step < usual_) {
    usual_ -= (usual_ - step) / 2;
  } else {
    usual_ += (std::min(step, 2 * usual_) - usual_) / 10;
  }
}

void StepHelp::OnIdle(absl::Time now) {
  if (idle_since_ != absl::InfiniteFuture()) return;
  if (own_work_ == absl::ZeroDuration()) own_work_ = now - started_;
  idle_since_ = now;
}

absl::Duration StepHelp::Patience(const Place& place) const {
  // A worker that evaluates or has many positions takes longer than for a usual step.
  const absl::Duration base = std::max(usual_, own_work_);
  return IsSurplus(place) ? std::max(kLeastSurplusPatience, base / 2)
                          : std::max(kLeastPatience, 2 * base);
}

std::optional<uint32_t> StepHelp::Consider(absl::Time now, const Place& place,
                                           absl::Span<const uint32_t> missing,
                                           absl::FunctionRef<bool(uint32_t)> may_take) {
  if (usual_ == absl::ZeroDuration() || now < idle_since_) return std::nullopt;
  const absl::Duration waited = now - idle_since_;
  const absl::Duration patience = Patience(place);
  const auto is_free = [&](uint32_t position) {
    return position < covered_.size() && covered_[position] == Cover::kNo && may_take(position);
  };
  std::optional<uint32_t> taken;
  if (IsSurplus(place)) {
    // Surplus workers spread over what is missing.
    const auto num_free =
        static_cast<uint64_t>(std::count_if(missing.begin(), missing.end(), is_free));
    if (num_free == 0 || waited < patience) return std::nullopt;
    uint64_t before = (place.rank - place.num_positions) % num_free;
    for (const uint32_t position : missing) {
      if (!is_free(position)) continue;
      if (before-- > 0) continue;
      taken = position;
      break;
    }
  } else {
    const uint64_t num_workers = place.workers.size();
    const bool has_surplus = num_workers > place.num_positions;
    for (const uint32_t position : missing) {
      if (!is_free(position)) continue;
      const uint64_t after = (place.rank + num_workers - position % num_workers) % num_workers;
      if (waited < static_cast<double>(after + (has_surplus ? 1 : 0)) * patience) continue;
      taken = position;
      break;
    }
  }
  if (!taken.has_value()) return std::nullopt;
  covered_[*taken] = Cover::kTakenOver;
  if (help_ != Help::kUseful) help_ = Help::kUnanswered;
  idle_since_ = absl::InfiniteFuture();
  return taken;
}

absl::Duration StepHelp::Park(absl::Time now, const Place& place) {
  if (usual_ == absl::ZeroDuration() || place.workers.size() < 2) return kLongestPark;
  const absl::Duration patience = Patience(place);
  if (now < idle_since_) return std::min(patience, kLongestPark);
  const absl::Duration waited = now - idle_since_;
  if (waited < patience) return std::clamp(patience - waited, kShortestPark, kLongestPark);
  // The longer a position is missing, the less often it is asked for.
  return std::min(waited, kLongestPark);
}

void StepHelp::OnDelivered(uint64_t step, uint32_t position, uint32_t worker, bool was_first) {
  if (was_first) {
    slow_worker_ = worker;
  } else if (slow_worker_ == worker) {
    slow_worker_.reset();
  }
  if (step == step_ && position < covered_.size() && covered_[position] == Cover::kTakenOver) {
    if (was_first) {
      help_ = Help::kUseful;
    } else if (help_ == Help::kUnanswered) {
      help_ = Help::kUseless;
    }
  } else if (step + 1 == step_ && undecided_.has_value()) {
    if (!was_first) Measure(*undecided_);
    undecided_.reset();
  }
}

}  // namespace shoal

#include "deploy/launch/restart_pauses.h"

#include <algorithm>

namespace shoal {
namespace {

constexpr absl::Duration kLongLife = absl::Minutes(1);
constexpr absl::Duration kShortestPause = absl::Seconds(5);
constexpr absl::Duration kLongestPause = absl::Seconds(30);

}  // namespace

absl::Duration RestartPauses::Next(absl::Duration life, absl::Duration patience) {
  const absl::Duration pause = life >= kLongLife ? absl::ZeroDuration() : next_;
  next_ = std::clamp(2 * pause, kShortestPause, kLongestPause);
  return std::min(pause, absl::Trunc(patience / 3, absl::Seconds(1)));
}

}  // namespace shoal

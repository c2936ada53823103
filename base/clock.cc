#include "base/clock.h"

#include <time.h>

#include <algorithm>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace shoal {
namespace {

// The longest single wait, because the system's waits do not count the time in which the machine is
// suspended.
constexpr absl::Duration kLongestWait = absl::Seconds(1);

absl::Duration SinceBoot() {
  timespec now = {};
  clock_gettime(CLOCK_BOOTTIME, &now);  // Cannot fail on the systems that we run on.
  return absl::DurationFromTimespec(now);
}

}  // namespace

RealClock::RealClock() : wall_start_(absl::Now()), boot_start_(SinceBoot()) {}

absl::Time RealClock::Now() const { return wall_start_ + (SinceBoot() - boot_start_); }

bool RealClock::WaitUntil(absl::Time deadline, Mutex* mutex, CondVar* changed) const {
  const absl::Duration left = deadline - Now();
  if (left <= absl::ZeroDuration()) return false;
  return changed->WaitFor(mutex, std::min(left, kLongestWait)) || Now() < deadline;
}

}  // namespace shoal

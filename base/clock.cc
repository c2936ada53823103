#include "base/clock.h"

#include <chrono>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace shoal {
namespace {

absl::Duration MonotonicNow() {
  return absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
}

}  // namespace

RealClock::RealClock() : wall_start_(absl::Now()), monotonic_start_(MonotonicNow()) {}

absl::Time RealClock::Now() const { return wall_start_ + (MonotonicNow() - monotonic_start_); }

bool RealClock::WaitUntil(absl::Time deadline, Mutex* mutex, CondVar* changed) const {
  const absl::Duration left = deadline - Now();
  if (left <= absl::ZeroDuration()) return false;
  return changed->WaitFor(mutex, left) || Now() < deadline;
}

}  // namespace shoal

#include "runtime/rpc/retry.h"

#include <algorithm>

#include "base/random.h"

namespace shoal {

absl::Duration Backoff::Next() {
  const double random = static_cast<double>(RandomBelow(seed_, draws_++, 1 << 20)) / (1 << 20);
  const absl::Duration wait = next_ * (1.0 - 0.5 * random);
  next_ = std::min(next_ * 2, longest_);
  return wait;
}

absl::Status Retry::Run(absl::Duration patience, Backoff backoff,
                        const std::function<absl::Status()>& attempt) {
  const absl::Time give_up = clock_->Now() + patience;
  while (true) {
    const absl::Status status = attempt();
    if (!IsOutcomeUnknown(status)) return status;
    const absl::Time again = clock_->Now() + backoff.Next();
    if (again >= give_up) {
      // A server that shuts down cancels the calls under way; callers would take that for Stop.
      return absl::IsCancelled(status) ? absl::UnavailableError(status.message()) : status;
    }
    if (!Sleep(again)) return absl::CancelledError("stopped while waiting to try again");
  }
}

bool Retry::Sleep(absl::Time until) {
  MutexLock lock(&mutex_);
  while (!stopped_ && clock_->WaitUntil(until, &mutex_, &changed_)) {
  }
  return !stopped_;
}

void Retry::Stop() {
  MutexLock lock(&mutex_);
  stopped_ = true;
  changed_.NotifyAll();
}

}  // namespace shoal

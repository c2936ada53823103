// Decides when a call is repeated. IsOutcomeUnknown in call_status.h decides whether it may be.
#ifndef SHOAL_RUNTIME_RPC_RETRY_H_
#define SHOAL_RUNTIME_RPC_RETRY_H_

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "base/clock.h"
#include "base/mutex.h"
#include "runtime/transport/call_status.h"

namespace shoal {

// Waiting times between attempts. They double from `first` to `longest`, each shortened at random
// by up to half, so that callers that failed together do not retry together. Not thread-safe.
class Backoff {
 public:
  explicit Backoff(uint64_t seed, absl::Duration first = absl::Milliseconds(100),
                   absl::Duration longest = absl::Seconds(2))
      : seed_(seed), first_(first), longest_(longest), next_(first) {}

  absl::Duration Next();
  void Reset() { next_ = first_; }

 private:
  const uint64_t seed_;
  const absl::Duration first_;
  const absl::Duration longest_;
  absl::Duration next_;
  uint64_t draws_ = 0;
};

// Repeats idempotent calls until they are answered. Thread-safe.
class Retry {
 public:
  explicit Retry(const Clock* clock) : clock_(clock) {}

  // Calls `attempt` until its outcome is known or `patience` is used up; then returns the last
  // status, with UNAVAILABLE for a call that the peer cancelled. Returns CANCELLED only if Stop was
  // called.
  absl::Status Run(absl::Duration patience, Backoff backoff,
                   const std::function<absl::Status()>& attempt);

  // Ends all waits, now and later.
  void Stop();

  // Waits until the time. Returns false if stopped.
  bool Sleep(absl::Time until);

 private:
  const Clock* const clock_;
  Mutex mutex_;
  CondVar changed_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_RPC_RETRY_H_

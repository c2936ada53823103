// A clock that changes only by Advance. Thread-safe.
#ifndef SHOAL_BASE_FAKE_CLOCK_H_
#define SHOAL_BASE_FAKE_CLOCK_H_

#include "absl/time/time.h"

#include "base/clock.h"
#include "base/mutex.h"

namespace shoal {

class FakeClock : public Clock {
 public:
  explicit FakeClock(absl::Time now = absl::FromUnixSeconds(1600000000)) : now_(now) {}

  void Advance(absl::Duration by) ABSL_LOCKS_EXCLUDED(now_mutex_) {
    MutexLock lock(&now_mutex_);
    now_ += by;
  }

  absl::Time Now() const override ABSL_LOCKS_EXCLUDED(now_mutex_) {
    MutexLock lock(&now_mutex_);
    return now_;
  }

  // Wakes every millisecond of real time, so that those who wait notice Advance().
  bool WaitUntil(absl::Time deadline, Mutex* mutex, CondVar* changed) const override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    if (Now() >= deadline) return false;
    changed->WaitFor(mutex, absl::Milliseconds(1));
    return Now() < deadline;
  }

 private:
  mutable Mutex now_mutex_;
  absl::Time now_ ABSL_GUARDED_BY(now_mutex_);
};

}  // namespace shoal

#endif  // SHOAL_BASE_FAKE_CLOCK_H_

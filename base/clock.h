// Time as a dependency: what waits or measures takes a Clock, so that tests can drive it.
#ifndef SHOAL_BASE_CLOCK_H_
#define SHOAL_BASE_CLOCK_H_

#include "absl/time/time.h"

#include "base/mutex.h"

namespace shoal {

// Thread safe.
class Clock {
 public:
  virtual ~Clock() = default;

  // Never goes back within a process. Near the wall clock's time, so it may be shown to people.
  virtual absl::Time Now() const = 0;

  // Waits until `changed` is notified or this clock reaches `deadline`; false if Now() >= deadline.
  // May wake early: call it in a loop over the condition.
  virtual bool WaitUntil(absl::Time deadline, Mutex* mutex, CondVar* changed) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) = 0;
};

// The wall clock's time at construction, advanced by the time since the machine was booted: setting
// the system's time does not move it, and what the machine was suspended has passed. A wait that
// the machine was suspended in ends within a second after its deadline.
class RealClock : public Clock {
 public:
  RealClock();

  absl::Time Now() const override;
  bool WaitUntil(absl::Time deadline, Mutex* mutex, CondVar* changed) const override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);

 private:
  const absl::Time wall_start_;
  const absl::Duration boot_start_;
};

}  // namespace shoal

#endif  // SHOAL_BASE_CLOCK_H_

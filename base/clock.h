// Time as a dependency: classes that wait or measure time take a Clock, so that tests can control
// it.
#ifndef SHOAL_BASE_CLOCK_H_
#define SHOAL_BASE_CLOCK_H_

#include "absl/time/time.h"

#include "base/mutex.h"

namespace shoal {

// Thread safe.
class Clock {
 public:
  virtual ~Clock() = default;

  // Never goes back within a process. It is close to the wall clock's time, so it may be shown to
  // users.
  virtual absl::Time Now() const = 0;

  // Waits until `changed` is notified or this clock reaches `deadline`; returns false if Now() >=
  // deadline. May wake early, so call it in a loop that checks the condition.
  virtual bool WaitUntil(absl::Time deadline, Mutex* mutex, CondVar* changed) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) = 0;
};

// The wall clock's time at construction plus the time that has passed since (CLOCK_BOOTTIME):
// setting the system's time does not change it, and it includes time in which the machine was
// suspended. A wait during which the machine was suspended ends within a second after its deadline.
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

// A flag that is set once, and for which threads can wait. Thread-safe.
#ifndef SHOAL_BASE_NOTIFICATION_H_
#define SHOAL_BASE_NOTIFICATION_H_

#include <chrono>

#include "absl/time/time.h"

#include "base/mutex.h"

namespace shoal {

class Notification {
 public:
  // Repeated calls do nothing.
  void Notify() ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    notified_ = true;
    changed_.NotifyAll();
  }

  bool HasBeenNotified() const ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    return notified_;
  }

  void Wait() ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    while (!notified_) changed_.Wait(&mutex_);
  }

  // Returns false if `timeout` of real time passed first.
  bool WaitFor(absl::Duration timeout) ABSL_LOCKS_EXCLUDED(mutex_) {
    const auto start = std::chrono::steady_clock::now();
    MutexLock lock(&mutex_);
    while (!notified_) {
      const absl::Duration left =
          timeout - absl::FromChrono(std::chrono::steady_clock::now() - start);
      if (left <= absl::ZeroDuration()) return false;
      changed_.WaitFor(&mutex_, left);
    }
    return true;
  }

 private:
  mutable Mutex mutex_;
  CondVar changed_;
  bool notified_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace shoal

#endif  // SHOAL_BASE_NOTIFICATION_H_

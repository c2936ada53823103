// Where single-threaded objects live: closures run one after the other, in the order posted, and
// timers run among them, so that such an object needs no lock.
#ifndef SHOAL_BASE_EXECUTOR_H_
#define SHOAL_BASE_EXECUTOR_H_

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <thread>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

#include "base/clock.h"
#include "base/mutex.h"
#include "base/strong_id.h"

namespace shoal {

using TimerId = StrongId<struct TimerIdTag, int64_t>;

// Every method may be called from any thread, closures included.
class Executor {
 public:
  virtual ~Executor() = default;

  // Runs `closure` after all that was posted before. Dropped after a stop.
  virtual void Post(absl::AnyInvocable<void()> closure) = 0;

  // Runs `closure` once the executor's clock has reached `time`; timers run in order of time, those
  // of one time in the order they were set.
  virtual TimerId PostAt(absl::Time time, absl::AnyInvocable<void()> closure) = 0;

  // False if the timer has run, was cancelled, or is running now. On the executor's own thread,
  // true means that it will never run.
  virtual bool Cancel(TimerId timer) = 0;
};

// Timers that are due, in order; the part of an executor that has no thread. Not thread safe.
class TimerQueue {
 public:
  TimerId Add(absl::Time time, absl::AnyInvocable<void()> closure);
  bool Cancel(TimerId timer);
  // The time of the next timer, or InfiniteFuture.
  absl::Time next_time() const;
  // Takes out the next timer; null if none is due at `now`.
  absl::AnyInvocable<void()> TakeDue(absl::Time now);

 private:
  std::map<std::pair<absl::Time, TimerId>, absl::AnyInvocable<void()>> timers_;
  std::map<TimerId, absl::Time> times_;
  TimerId last_;
};

// An executor with a thread of its own.
class SerialExecutor : public Executor {
 public:
  // The clock must outlive the executor.
  SerialExecutor(absl::string_view name, const Clock& clock);
  // Stops.
  ~SerialExecutor() override;

  void Post(absl::AnyInvocable<void()> closure) override ABSL_LOCKS_EXCLUDED(mutex_);
  TimerId PostAt(absl::Time time, absl::AnyInvocable<void()> closure) override
      ABSL_LOCKS_EXCLUDED(mutex_);
  bool Cancel(TimerId timer) override ABSL_LOCKS_EXCLUDED(mutex_);

  // Runs what was posted before, drops the timers, joins the thread. Not from the executor's own
  // closures. Repeated calls do nothing.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);

  bool IsCurrentThread() const { return std::this_thread::get_id() == thread_.get_id(); }

 private:
  void RunThread(const std::string& name) ABSL_LOCKS_EXCLUDED(mutex_);

  const Clock& clock_;

  Mutex mutex_;
  CondVar changed_;
  std::deque<absl::AnyInvocable<void()>> closures_ ABSL_GUARDED_BY(mutex_);
  TimerQueue timers_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  std::thread thread_;
};

}  // namespace shoal

#endif  // SHOAL_BASE_EXECUTOR_H_

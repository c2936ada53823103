#include "base/periodic_task.h"

#include <string>
#include <utility>

#include "base/log.h"
#include "base/thread_pool.h"

namespace shoal {

PeriodicTask::PeriodicTask(absl::string_view name, absl::Duration period, const Clock& clock,
                           absl::AnyInvocable<void()> closure)
    : period_(period), clock_(clock), closure_(std::move(closure)), next_(clock.Now() + period) {
  CHECK(period > absl::ZeroDuration()) << name;
  thread_ = std::thread([this, name = std::string(name)] { RunThread(name); });
}

PeriodicTask::~PeriodicTask() { Stop(); }

void PeriodicTask::Stop() {
  if (!thread_.joinable()) return;
  CHECK(std::this_thread::get_id() != thread_.get_id()) << "a periodic task cannot stop itself";
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
}

void PeriodicTask::RunThread(const std::string& name) {
  SetCurrentThreadName(name);
  MutexLock lock(&mutex_);
  while (!stopping_) {
    if (clock_.WaitUntil(next_, &mutex_, &changed_)) continue;
    if (stopping_) return;
    next_ = clock_.Now() + period_;
    mutex_.Unlock();
    closure_();
    mutex_.Lock();
  }
}

}  // namespace shoal

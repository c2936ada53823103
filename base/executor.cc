#include "base/executor.h"

#include <string>
#include <utility>

#include "base/log.h"
#include "base/thread_pool.h"

namespace shoal {

TimerId TimerQueue::Add(absl::Time time, absl::AnyInvocable<void()> closure) {
  const TimerId timer = ++last_;
  times_[timer] = time;
  timers_.emplace(std::make_pair(time, timer), std::move(closure));
  return timer;
}

bool TimerQueue::Cancel(TimerId timer) {
  const auto it = times_.find(timer);
  if (it == times_.end()) return false;
  timers_.erase({it->second, timer});
  times_.erase(it);
  return true;
}

absl::Time TimerQueue::next_time() const {
  return timers_.empty() ? absl::InfiniteFuture() : timers_.begin()->first.first;
}

absl::AnyInvocable<void()> TimerQueue::TakeDue(absl::Time now) {
  if (timers_.empty() || timers_.begin()->first.first > now) return nullptr;
  const auto it = timers_.begin();
  absl::AnyInvocable<void()> closure = std::move(it->second);
  times_.erase(it->first.second);
  timers_.erase(it);
  return closure;
}

SerialExecutor::SerialExecutor(absl::string_view name, const Clock& clock)
    : clock_(clock), thread_([this, name = std::string(name)] { RunThread(name); }) {}

SerialExecutor::~SerialExecutor() { Stop(); }

void SerialExecutor::Post(absl::AnyInvocable<void()> closure) {
  MutexLock lock(&mutex_);
  if (stopping_) return;
  closures_.push_back(std::move(closure));
  changed_.NotifyOne();
}

TimerId SerialExecutor::PostAt(absl::Time time, absl::AnyInvocable<void()> closure) {
  MutexLock lock(&mutex_);
  const TimerId timer = timers_.Add(time, std::move(closure));
  changed_.NotifyOne();
  return timer;
}

bool SerialExecutor::Cancel(TimerId timer) {
  MutexLock lock(&mutex_);
  return timers_.Cancel(timer);
}

void SerialExecutor::Stop() {
  if (!thread_.joinable()) return;
  CHECK(!IsCurrentThread()) << "an executor cannot stop itself";
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.NotifyOne();
  }
  thread_.join();
}

void SerialExecutor::RunThread(const std::string& name) {
  SetCurrentThreadName(name);
  MutexLock lock(&mutex_);
  while (true) {
    absl::AnyInvocable<void()> closure;
    if (!stopping_) closure = timers_.TakeDue(clock_.Now());
    if (closure == nullptr && !closures_.empty()) {
      closure = std::move(closures_.front());
      closures_.pop_front();
    }
    if (closure != nullptr) {
      mutex_.Unlock();
      closure();
      closure = nullptr;  // What it owns is destroyed on this thread, without the lock.
      mutex_.Lock();
    } else if (stopping_) {
      return;
    } else if (timers_.next_time() == absl::InfiniteFuture()) {
      changed_.Wait(&mutex_);
    } else {
      clock_.WaitUntil(timers_.next_time(), &mutex_, &changed_);
    }
  }
}

}  // namespace shoal

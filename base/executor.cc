#include "base/executor.h"

#include <string>
#include <utility>

#include "base/log.h"
#include "base/thread_pool.h"

namespace shoal {

SerialExecutor::SerialExecutor(absl::string_view name)
    : thread_([this, name = std::string(name)] { RunThread(name); }) {}

SerialExecutor::~SerialExecutor() { Stop(); }

void SerialExecutor::Post(absl::AnyInvocable<void()> closure) {
  MutexLock lock(&mutex_);
  if (stopping_) return;
  closures_.push_back(std::move(closure));
  changed_.NotifyOne();
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
  while (true) {
    absl::AnyInvocable<void()> closure;
    {
      MutexLock lock(&mutex_);
      while (closures_.empty() && !stopping_) changed_.Wait(&mutex_);
      if (closures_.empty()) return;
      closure = std::move(closures_.front());
      closures_.pop_front();
    }
    // The closure and the objects that it owns are destroyed on this thread, without the lock.
    closure();
  }
}

}  // namespace shoal

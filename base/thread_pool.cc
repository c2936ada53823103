#include "base/thread_pool.h"

#include <pthread.h>

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/log.h"

namespace shoal {

void SetCurrentThreadName(absl::string_view name) {
  pthread_setname_np(pthread_self(), std::string(name.substr(0, 15)).c_str());
}

ThreadPool::ThreadPool(absl::string_view name, int num_threads) {
  threads_.reserve(num_threads);
  for (int i = 0; i < num_threads; ++i) {
    threads_.emplace_back(
        [this, thread_name = absl::StrCat(name, "/", i)] { RunThread(thread_name); });
  }
}

ThreadPool::~ThreadPool() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    work_.NotifyAll();
  }
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::Schedule(absl::AnyInvocable<void()> closure) {
  CHECK(!threads_.empty()) << "a pool without threads runs no closures";
  MutexLock lock(&mutex_);
  closures_.push_back(std::move(closure));
  work_.NotifyOne();
}

void ThreadPool::RunParallel(int num_tasks, absl::FunctionRef<void(int)> task) {
  if (num_tasks <= 1 || threads_.empty()) {
    for (int i = 0; i < num_tasks; ++i) task(i);
    return;
  }
  MutexLock turn(&turn_);
  Loop loop = {task, num_tasks};
  MutexLock lock(&mutex_);
  loop_ = &loop;
  work_.NotifyAll();
  RunLoop(&loop);
  while (loop.num_running > 0) loop_done_.Wait(&mutex_);
}

void ThreadPool::RunLoop(Loop* loop) {
  while (loop->next < loop->num_tasks) {
    const int index = loop->next++;
    if (loop->next == loop->num_tasks) loop_ = nullptr;
    ++loop->num_running;
    mutex_.Unlock();
    loop->task(index);
    mutex_.Lock();
    --loop->num_running;
  }
  if (loop->num_running == 0) loop_done_.NotifyAll();
}

void ThreadPool::RunThread(const std::string& name) {
  SetCurrentThreadName(name);
  MutexLock lock(&mutex_);
  while (true) {
    while (loop_ == nullptr && closures_.empty() && !stopping_) work_.Wait(&mutex_);
    if (loop_ != nullptr) {
      RunLoop(loop_);
    } else if (!closures_.empty()) {
      absl::AnyInvocable<void()> closure = std::move(closures_.front());
      closures_.pop_front();
      mutex_.Unlock();
      closure();
      closure = nullptr;
      mutex_.Lock();
    } else {
      return;
    }
  }
}

}  // namespace shoal

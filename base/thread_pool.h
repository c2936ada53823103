// A fixed number of threads that run closures, and one loop spread over them.
#ifndef SHOAL_BASE_THREAD_POOL_H_
#define SHOAL_BASE_THREAD_POOL_H_

#include <deque>
#include <string>
#include <thread>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"

#include "base/mutex.h"

namespace shoal {

// Names the calling thread for debuggers and top; the first 15 characters count.
void SetCurrentThreadName(absl::string_view name);

// Thread-safe. The destructor runs all closures that were scheduled, then joins the threads.
class ThreadPool {
 public:
  // If there are 0 threads, RunParallel runs in the caller, and Schedule must not be called.
  ThreadPool(absl::string_view name, int num_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int num_threads() const { return static_cast<int>(threads_.size()); }

  // Runs `closure` soon, on one of the threads. A closure may schedule others.
  void Schedule(absl::AnyInvocable<void()> closure) ABSL_LOCKS_EXCLUDED(mutex_);

  // Calls task(0) ... task(num_tasks - 1), each once, on the threads and the caller, and returns
  // when all are done. Allocates nothing. Which thread runs a task is not fixed; what a task
  // computes must not depend on it. Calls from several threads take turns; a task must not call
  // RunParallel.
  void RunParallel(int num_tasks, absl::FunctionRef<void(int)> task)
      ABSL_LOCKS_EXCLUDED(mutex_, turn_);

 private:
  // One RunParallel in progress; lives on its caller's stack.
  struct Loop {
    absl::FunctionRef<void(int)> task;
    int num_tasks;
    int next = 0;
    int num_running = 0;
  };

  void RunThread(const std::string& name) ABSL_LOCKS_EXCLUDED(mutex_);
  // Takes tasks of the loop until none is left to start.
  void RunLoop(Loop* loop) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Mutex turn_ ABSL_ACQUIRED_BEFORE(mutex_);  // Held by the one RunParallel in progress.
  Mutex mutex_;
  CondVar work_;
  CondVar loop_done_;
  std::deque<absl::AnyInvocable<void()>> closures_ ABSL_GUARDED_BY(mutex_);
  Loop* loop_ ABSL_GUARDED_BY(mutex_) = nullptr;  // Null once every task has been started.
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  std::vector<std::thread> threads_;
};

}  // namespace shoal

#endif  // SHOAL_BASE_THREAD_POOL_H_

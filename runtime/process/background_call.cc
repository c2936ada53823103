#include "runtime/process/background_call.h"

#include <utility>

namespace shoal {

BackgroundCall::BackgroundCall(std::function<void()> run) : run_(std::move(run)) {}

BackgroundCall::~BackgroundCall() { Close(); }

void BackgroundCall::Request() {
  MutexLock lock(&mutex_);
  if (closing_) return;
  requested_ = true;
  changed_.NotifyAll();
  if (!thread_.joinable()) thread_ = std::thread([this] { Loop(); });
}

void BackgroundCall::Close() {
  std::thread thread;
  {
    MutexLock lock(&mutex_);
    closing_ = true;
    changed_.NotifyAll();
    thread.swap(thread_);
  }
  if (thread.joinable()) thread.join();
}

void BackgroundCall::Loop() {
  while (true) {
    {
      MutexLock lock(&mutex_);
      while (!requested_ && !closing_) changed_.Wait(&mutex_);
      if (closing_) return;
      requested_ = false;
    }
    run_();
  }
}

}  // namespace shoal

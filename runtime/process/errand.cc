#include "runtime/process/errand.h"

#include <utility>

namespace shoal {

Errand::Errand(std::function<void()> run) : run_(std::move(run)) {}

Errand::~Errand() { Close(); }

void Errand::Ask() {
  MutexLock lock(&mutex_);
  if (closing_) return;
  asked_ = true;
  changed_.NotifyAll();
  if (!thread_.joinable()) thread_ = std::thread([this] { Loop(); });
}

void Errand::Close() {
  std::thread thread;
  {
    MutexLock lock(&mutex_);
    closing_ = true;
    changed_.NotifyAll();
    thread.swap(thread_);
  }
  if (thread.joinable()) thread.join();
}

void Errand::Loop() {
  while (true) {
    {
      MutexLock lock(&mutex_);
      while (!asked_ && !closing_) changed_.Wait(&mutex_);
      if (closing_) return;
      asked_ = false;
    }
    run_();
  }
}

}  // namespace shoal

#include "runtime/exchange/remote_variable_store.h"

#include <utility>

namespace shoal {

RemoteVariableStore::RemoteVariableStore(const SliceTable& table, Options options,
                                         const Clock* clock)
    : clock_(clock),
      exchanges_(table, std::move(options), clock, [this] { OnDue(); }),
      thread_([this] { Run(); }) {}

RemoteVariableStore::~RemoteVariableStore() {
  Shutdown();
  {
    MutexLock lock(&mutex_);
    closed_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
}

void RemoteVariableStore::Start(const Exchange& exchange, Done done) {
  exchanges_.Start(exchange, std::move(done));
}

void RemoteVariableStore::OnDue() {
  MutexLock lock(&mutex_);
  due_ = true;
  changed_.NotifyAll();
}

void RemoteVariableStore::Shutdown() {
  {
    MutexLock lock(&mutex_);
    closing_ = true;
  }
  exchanges_.Close();
  MutexLock lock(&mutex_);
  while (!shut_down_) changed_.Wait(&mutex_);
}

void RemoteVariableStore::Run() {
  while (true) {
    const absl::Time wake = exchanges_.RunDue();
    const bool is_idle = exchanges_.is_idle();
    MutexLock lock(&mutex_);
    if (closing_ && is_idle && !due_) {
      shut_down_ = true;
      changed_.NotifyAll();
    }
    if (closed_) return;
    while (!due_ && !closed_ && clock_->WaitUntil(wake, &mutex_, &changed_)) {
    }
    due_ = false;
  }
}

}  // namespace shoal

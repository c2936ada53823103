// A bounded queue between threads. Thread safe.
//
// Push waits while the queue is full, Pop while it is empty. Close ends both: later pushes are
// refused, pops drain what is left and then return nothing.
#ifndef SHOAL_BASE_BLOCKING_QUEUE_H_
#define SHOAL_BASE_BLOCKING_QUEUE_H_

#include <chrono>
#include <cstddef>
#include <deque>
#include <optional>
#include <utility>

#include "absl/time/time.h"

#include "base/mutex.h"

namespace shoal {

template <typename T>
class BlockingQueue {
 public:
  // capacity > 0: how many elements wait at most.
  explicit BlockingQueue(size_t capacity) : capacity_(capacity) {}

  // False if the queue was closed; the element is then dropped.
  bool Push(T element) ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    while (!closed_ && elements_.size() >= capacity_) not_full_.Wait(&mutex_);
    return PushLocked(std::move(element));
  }

  // False if the queue is full or closed; the element is then dropped.
  bool TryPush(T element) ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    return elements_.size() < capacity_ && PushLocked(std::move(element));
  }

  // Nothing once the queue is closed and empty.
  std::optional<T> Pop() ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    while (!closed_ && elements_.empty()) not_empty_.Wait(&mutex_);
    return PopLocked();
  }

  // Same as Pop, but returns nothing after `timeout` of real time; is_drained() distinguishes the
  // two cases.
  std::optional<T> PopFor(absl::Duration timeout) ABSL_LOCKS_EXCLUDED(mutex_) {
    const auto start = std::chrono::steady_clock::now();
    MutexLock lock(&mutex_);
    while (!closed_ && elements_.empty()) {
      const absl::Duration left =
          timeout - absl::FromChrono(std::chrono::steady_clock::now() - start);
      if (left <= absl::ZeroDuration()) break;
      not_empty_.WaitFor(&mutex_, left);
    }
    return PopLocked();
  }

  std::optional<T> TryPop() ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    return PopLocked();
  }

  // Wakes everyone who waits. Repeated calls do nothing.
  void Close() ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    closed_ = true;
    not_empty_.NotifyAll();
    not_full_.NotifyAll();
  }

  // Closed and empty: no element will ever come.
  bool is_drained() const ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    return closed_ && elements_.empty();
  }

  size_t size() const ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    return elements_.size();
  }

 private:
  bool PushLocked(T element) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (closed_) return false;
    elements_.push_back(std::move(element));
    not_empty_.NotifyOne();
    return true;
  }

  std::optional<T> PopLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (elements_.empty()) return std::nullopt;
    std::optional<T> element(std::move(elements_.front()));
    elements_.pop_front();
    not_full_.NotifyOne();
    return element;
  }

  const size_t capacity_;
  mutable Mutex mutex_;
  CondVar not_empty_;
  CondVar not_full_;
  std::deque<T> elements_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace shoal

#endif  // SHOAL_BASE_BLOCKING_QUEUE_H_

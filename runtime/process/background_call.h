#ifndef SHOAL_RUNTIME_PROCESS_BACKGROUND_CALL_H_
#define SHOAL_RUNTIME_PROCESS_BACKGROUND_CALL_H_

#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"

#include "base/mutex.h"

namespace shoal {

// Runs a function whenever it is requested, on its own thread, so that the caller never waits for
// it. Requests during a run cause exactly one more run after it, however many they are.
// Thread-safe. The thread starts with the first request.
class BackgroundCall {
 public:
  explicit BackgroundCall(std::function<void()> run);
  // The same as Close.
  ~BackgroundCall();
  BackgroundCall(const BackgroundCall&) = delete;
  BackgroundCall& operator=(const BackgroundCall&) = delete;

  void Request() ABSL_LOCKS_EXCLUDED(mutex_);

  // Waits for the run under way; nothing runs after that.
  void Close() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Loop() ABSL_LOCKS_EXCLUDED(mutex_);

  const std::function<void()> run_;
  Mutex mutex_;
  CondVar changed_;
  bool requested_ ABSL_GUARDED_BY(mutex_) = false;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_PROCESS_BACKGROUND_CALL_H_

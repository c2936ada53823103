#ifndef SHOAL_RUNTIME_PROCESS_ERRAND_H_
#define SHOAL_RUNTIME_PROCESS_ERRAND_H_

#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"

#include "base/mutex.h"

namespace shoal {

// Something that is done whenever it is asked for, on a thread of its own, so that whoever asks
// never waits for it. One at a time: what is asked for while it runs is done once more after it,
// however often it was asked for. Thread safe; the thread starts at the first request.
class Errand {
 public:
  explicit Errand(std::function<void()> run);
  // The same as Close.
  ~Errand();
  Errand(const Errand&) = delete;
  Errand& operator=(const Errand&) = delete;

  void Ask() ABSL_LOCKS_EXCLUDED(mutex_);

  // Waits for the one under way; nothing runs after it.
  void Close() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Loop() ABSL_LOCKS_EXCLUDED(mutex_);

  const std::function<void()> run_;
  Mutex mutex_;
  CondVar changed_;
  bool asked_ ABSL_GUARDED_BY(mutex_) = false;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_PROCESS_ERRAND_H_

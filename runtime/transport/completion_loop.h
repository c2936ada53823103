// A gRPC completion queue with the thread that processes it. For the .cc files of the gRPC
// implementation only.
#ifndef SHOAL_RUNTIME_TRANSPORT_COMPLETION_LOOP_H_
#define SHOAL_RUNTIME_TRANSPORT_COMPLETION_LOOP_H_

#include <grpcpp/completion_queue.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "absl/time/time.h"

namespace shoal {

// A waiter for an operation on the queue; its address is the operation's tag. Call BeforeOperation
// before an operation is started: the hand-over between threads happens inside gRPC, where the
// thread sanitizer cannot see it.
class CompletionTag {
 public:
  virtual ~CompletionTag() = default;
  void BeforeOperation() { handed_over_.store(true, std::memory_order_release); }
  // Returns true if done; false if it should be called again in about a millisecond.
  virtual bool OnCompleted(bool ok) = 0;

 private:
  friend class CompletionLoop;
  std::atomic<bool> handed_over_{false};
};

// Runs one thread over `queue` until Stop. Thread-safe.
class CompletionLoop {
 public:
  CompletionLoop(std::unique_ptr<grpc::CompletionQueue> queue, absl::Duration spin);
  ~CompletionLoop();

  grpc::CompletionQueue* queue() { return queue_.get(); }

  // Waits until the operations under way have completed. No operation may be started any more.
  void Stop();

 private:
  struct Again {
    CompletionTag* tag;
    bool ok;
  };

  void Run();
  // Returns false if the queue is shut down and empty.
  bool Next(void** tag, bool* ok, bool* got);
  bool NextOrTimeout(absl::Duration wait, void** tag, bool* ok, bool* got);
  void RunAgain();

  const std::unique_ptr<grpc::CompletionQueue> queue_;
  const absl::Duration spin_;
  std::vector<Again> again_;  // used only by the thread
  std::thread thread_;
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_TRANSPORT_COMPLETION_LOOP_H_

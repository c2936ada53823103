#ifndef SHOAL_RUNTIME_RPC_DRAIN_H_
#define SHOAL_RUNTIME_RPC_DRAIN_H_

#include <functional>
#include <memory>
#include <thread>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "runtime/rpc/chief_client.h"

namespace shoal {

class Clock;
class ShutdownNotification;

// Delays the end of a ps or worker that was asked to shut down until it has taken part in one more
// checkpoint. Schedulers stop all tasks of a run at once, and the chief needs all ps for a
// checkpoint.
//
// When `shutdown` is requested, this object asks the chief for a checkpoint. It calls `leave` once,
// on its own thread, as soon as that checkpoint is durable, the run is over or not training, the
// chief refuses, the chief has not answered for three seconds, or `limit` has passed.
class Drain {
 public:
  // All pointers must outlive the object. A request to shut down after the object is destroyed has
  // no effect. `limit` is StopTimes::drain.
  Drain(ShutdownNotification* shutdown, ChiefClient* chief, const Clock* clock,
        absl::Duration limit, std::function<void()> leave);
  // Waits for a call to the chief that is under way.
  ~Drain();
  Drain(const Drain&) = delete;
  Drain& operator=(const Drain&) = delete;

 private:
  struct Request;

  void Run();
  void AwaitCheckpoint();
  // Repeats `call` until the chief answers, at most until `end`.
  absl::Status Ask(absl::Time end, const std::function<absl::Status()>& call);
  // Returns false if this object is being destroyed.
  bool Pause(absl::Time until);

  ChiefClient* const chief_;
  const Clock* const clock_;
  const std::function<void()> leave_;
  const absl::Duration limit_;
  const std::shared_ptr<Request> request_;  // Shared with the subscription to `shutdown`.
  std::thread thread_;
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_RPC_DRAIN_H_

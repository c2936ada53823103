// A DeviceGroup on a library of collectives whose calls do not block, as NCCL's communicators with
// blocking = 0: it waits for each call to be in its queue, for a bounded time and so that Abort can
// come in between.
#ifndef SHOAL_ML_DEVICE_COMMUNICATOR_GROUP_H_
#define SHOAL_ML_DEVICE_COMMUNICATOR_GROUP_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

#include "base/clock.h"
#include "base/mutex.h"
#include "ml/device/device_group.h"

namespace shoal {

// One rank's end. Not thread-safe. Errors name the call.
class Communicator {
 public:
  virtual ~Communicator() = default;

  // Start work and return; HasStarted returns whether the work is in the device's queue. Until it
  // is, only Abort may be called.
  virtual absl::Status ReduceSum(int root, const float* from, float* to, size_t count) = 0;
  virtual absl::Status Broadcast(int root, void* data, size_t bytes) = 0;
  // Calls in between are only collected, by the calling thread, and started by EndBatch.
  virtual absl::Status StartBatch() = 0;
  virtual absl::Status EndBatch() = 0;
  // Begins the orderly end, which all ranks take part in; only then HasStarted is called, or Abort.
  virtual absl::Status StartClosing() = 0;
  // Returns whether the last call is in the device's queue or, while closing, whether all work is
  // done. Errors are those of the work.
  virtual absl::StatusOr<bool> HasStarted() = 0;
  // Ends what is under way, here and on the device. Nothing is called after it.
  virtual void Abort() = 0;
};

struct CommunicatorGroupOptions {
  struct Member {
    std::unique_ptr<Communicator> communicator;
    std::string name;  // for messages: "GPU 1"
    // Receives the error of a failed call. Called on any thread.
    std::function<void(const absl::Status&)> note_error;
  };
  std::vector<Member> members;  // by rank
  // For how long a call may wait for the other ranks; then the group is aborted.
  absl::Duration timeout = absl::Minutes(2);
  absl::Duration closing_timeout = absl::Seconds(10);
  const Clock* clock = nullptr;  // outlives the group
};

class CommunicatorGroup final : public DeviceGroup {
 public:
  explicit CommunicatorGroup(CommunicatorGroupOptions options);
  ~CommunicatorGroup() override;

  // Waits until all communicators are there. After an error, DeadlineExceeded if one is not in
  // time, the group is aborted.
  absl::Status AwaitOpen();

  // See DeviceGroup. A call that has not begun after the timeout fails with DeadlineExceeded,
  // which names the call and the ranks that have made fewer calls.
  void ReduceSum(int rank, int root, const float* from, float* to, size_t count) override;
  void Broadcast(int rank, int root, void* data, size_t bytes) override;
  void StartBatch(int rank) override;
  void EndBatch(int rank) override;
  void Abort() override;

 private:
  struct Rank {
    std::string name;
    std::function<void(const absl::Status&)> note_error;
    Mutex mutex;
    CondVar changed;
    std::unique_ptr<Communicator> communicator ABSL_GUARDED_BY(mutex);
    bool is_aborted ABSL_GUARDED_BY(mutex) = false;
    // Used by the rank's thread only, which holds the mutex while it batches.
    bool is_batching = false, has_batch = false;
    absl::Status batch_status;
    std::atomic<int64_t> num_calls{0};  // a batch is one
  };

  template <typename Collective>
  void Call(int index, absl::string_view name, const Collective& collective);
  // Waits until the rank's last call has begun or the group is aborted; an abort is not an error
  // here.
  absl::Status AwaitStart(Rank* rank, absl::string_view call, absl::Duration timeout)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(rank->mutex);
  absl::Status TooLate(const Rank& rank, absl::string_view call, absl::Duration timeout) const;
  // The others would wait for this rank.
  void Fail(Rank* rank, const absl::Status& status);

  const absl::Duration timeout_, closing_timeout_;
  const Clock& clock_;
  std::vector<std::unique_ptr<Rank>> ranks_;
};

}  // namespace shoal

#endif  // SHOAL_ML_DEVICE_COMMUNICATOR_GROUP_H_

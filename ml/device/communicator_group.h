// Implements DeviceGroup with a library of collectives whose calls do not block, such as NCCL with
// blocking = 0. After each call it waits until the work is in the device's queue. The wait has a
// timeout, and Abort can end it.
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

// The library's communicator of one rank. Not thread-safe. Errors name the call.
class Communicator {
 public:
  virtual ~Communicator() = default;

  // Start the work and return. HasStarted returns whether the work is in the device's queue; until
  // then only HasStarted and Abort may be called. Counts are in elements of float.
  virtual absl::Status ReduceSum(int root, const float* from, float* to, size_t count) = 0;
  virtual absl::Status Broadcast(int root, void* data, size_t bytes) = 0;
  // The calls between StartBatch and EndBatch, on the same thread, are only collected; EndBatch
  // starts them together.
  virtual absl::Status StartBatch() = 0;
  virtual absl::Status EndBatch() = 0;
  // Starts to close the communicator, which all ranks have to do. After it only HasStarted and
  // Abort may be called.
  virtual absl::Status StartClosing() = 0;
  // Returns whether the last call is in the device's queue or, while closing, whether all work is
  // done. Errors are those of the work.
  virtual absl::StatusOr<bool> HasStarted() = 0;
  // Ends all work, of the library and on the device. No other function may be called afterwards.
  virtual void Abort() = 0;
};

struct CommunicatorGroupOptions {
  struct Member {
    std::unique_ptr<Communicator> communicator;
    std::string name;  // for messages: "GPU 1"
    // Receives the error of a failed call. Called on any thread.
    std::function<void(const absl::Status&)> note_error;
  };
  std::vector<Member> members;  // indexed by rank
  // The longest time that a call waits for the other ranks before the group is aborted.
  absl::Duration timeout = absl::Minutes(2);
  absl::Duration closing_timeout = absl::Seconds(10);
  const Clock* clock = nullptr;  // outlives the group
};

class CommunicatorGroup final : public DeviceGroup {
 public:
  explicit CommunicatorGroup(CommunicatorGroupOptions options);
  ~CommunicatorGroup() override;

  // Waits until all communicators are connected. Aborts the group and returns the error if one
  // fails; DeadlineExceeded after the timeout.
  absl::Status AwaitOpen();

  // See DeviceGroup. A call that has not started after the timeout fails with DeadlineExceeded; the
  // error names the call and the ranks that have made fewer calls.
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
    std::atomic<int64_t> num_calls{0};  // a batch counts as one
  };

  template <typename Collective>
  void Call(int index, absl::string_view name, const Collective& collective);
  // Waits until the rank's last call has started, or returns OK if the group was aborted.
  absl::Status AwaitStart(Rank* rank, absl::string_view call, absl::Duration timeout)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(rank->mutex);
  absl::Status TooLate(const Rank& rank, absl::string_view call, absl::Duration timeout) const;
  // Reports the error to the rank's device and aborts the group, because the other ranks would wait
  // for this one.
  void Fail(Rank* rank, const absl::Status& status);

  const absl::Duration timeout_, closing_timeout_;
  const Clock& clock_;
  std::vector<std::unique_ptr<Rank>> ranks_;
};

}  // namespace shoal

#endif  // SHOAL_ML_DEVICE_COMMUNICATOR_GROUP_H_

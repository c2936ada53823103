// The launcher's connection to the chief. It polls the run's status and sends requests on its own
// thread, so that the launcher never waits for a chief that hangs.
#ifndef SHOAL_DEPLOY_LAUNCH_CHIEF_LINK_H_
#define SHOAL_DEPLOY_LAUNCH_CHIEF_LINK_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"

#include "base/mutex.h"
#include "proto/v1/chief_service.pb.h"
#include "runtime/cluster/task.h"
#include "runtime/process/batch_mark.h"
#include "runtime/rpc/chief_client.h"

namespace shoal {

// Thread-safe.
class ChiefLink {
 public:
  // Polls the status every 200 ms from now on, and every 20 ms once the run stops.
  explicit ChiefLink(std::unique_ptr<ChiefClient> client);
  // Waits until the thread has made the calls of its current round: one poll and the requests that
  // wait. Each call has a deadline.
  ~ChiefLink();
  ChiefLink(const ChiefLink&) = delete;
  ChiefLink& operator=(const ChiefLink&) = delete;

  // Returns the chief's newest status; nullopt before the first answer.
  std::optional<v1::GetRunStatusResponse> status() const ABSL_LOCKS_EXCLUDED(mutex_);

  // Returns the incarnation of the task in the newest status; 0 if the chief does not list it.
  uint64_t ListedIncarnation(TaskId task) const;

  // Returns whether the newest status lists other tasks but not this worker: the run continues or
  // has finished without it, because it had not registered yet or had lost its place.
  bool IsOutOfRun(TaskId worker) const;

  // Asks for a checkpoint, and for the end of the run if `end` is not kNone. With kAfterSteps the
  // workers train up to a checkpoint that the chief chooses. kWithoutSteps says that no worker will
  // complete another step, so the checkpoint is made of the last step that all slices have.
  // Repeated until the chief answers.
  enum class End { kNone, kAfterSteps, kWithoutSteps };
  void RequestCheckpoint(End end, const std::string& reason) ABSL_LOCKS_EXCLUDED(mutex_);

  // Reports that the worker crashed on this batch; reports nothing if it was computing none.
  // Repeated until the chief answers.
  void ReportCrash(TaskId worker, const std::optional<MarkedBatch>& batch,
                   const std::string& detail) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Loop();
  void Poll();
  // Sends the waiting requests; those that were not answered remain.
  void SendRequests();

  const std::unique_ptr<ChiefClient> client_;
  mutable Mutex mutex_;
  CondVar changed_;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<v1::GetRunStatusResponse> status_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::RequestStopRequest> stops_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::ReportBadBatchRequest> crashes_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace shoal

#endif  // SHOAL_DEPLOY_LAUNCH_CHIEF_LINK_H_

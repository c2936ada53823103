#ifndef SHOAL_CHIEF_SESSION_ROSTER_H_
#define SHOAL_CHIEF_SESSION_ROSTER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"

#include "chief/session/session_context.h"
#include "proto/v1/chief_service.pb.h"
#include "runtime/cluster/task.h"

namespace shoal {

// Knows which tasks take part now, takes their places when they are silent, hang or cannot reach
// each other, and publishes the result to all tasks: the view of the workers, the addresses of the
// ps, and the tasks that the run waits for. Single-threaded.
class Roster {
 public:
  explicit Roster(SessionContext* context) : context_(*context) {}

  // Keeps what the task does, and takes note of a task that leaves. The sender is known to hold its
  // place. Returns whether it leaves.
  bool OnHeartbeat(absl::Time now, const v1::HeartbeatRequest& request);
  // Returns when the live holder of the place last called; none if the place is free.
  std::optional<absl::Time> LastHeard(TaskId task) const;
  // The task's lease had ended, but no other process has its place: it continues.
  void OnRevived(TaskId task);
  // The chief received no calls for `pause`, which `now` leaves out: all get their leases again.
  void OnPause(absl::Time now, absl::Duration pause);

  struct Lost {
    TaskId task;
    uint64_t incarnation = 0;
  };
  // Takes the places of tasks whose leases have ended, that compute one batch without end, or that
  // cannot reach each other, and returns them.
  std::vector<Lost> TakePlacesOfLost(absl::Time now);

  // Starts to load if the run waits for tasks and all of them are there.
  void PrepareIfComplete();

  // Publish changes, if there are any.
  void UpdateWorkers();
  void UpdatePsAddresses();
  void UpdateMissing();

  // Returns "ps/0 at ADDRESS", for messages.
  std::string PsAndAddress(uint32_t ps) const;
  // Returns "worker/1 cannot reach ps/0 at ADDRESS, ..."; empty if all reach all, as far as known.
  std::string BrokenLinks() const;

 private:
  void TakePlace(TaskId task, const std::string& why, std::vector<Lost>* lost);
  void TakePlacesOfStalled(absl::Time now, std::vector<Lost>* lost);
  void TakePlacesOfUnreached(absl::Time now, std::vector<Lost>* lost);

  SessionContext& context_;
};

}  // namespace shoal

#endif  // SHOAL_CHIEF_SESSION_ROSTER_H_

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

// Knows which tasks take part now, takes away the places of tasks that are silent, hang or cannot
// reach each other, and publishes the result to all tasks: the view of the workers, the addresses
// of the ps, and the tasks that the run waits for. Not thread-safe.
class Roster {
 public:
  explicit Roster(SessionContext* context) : context_(*context) {}

  // Records what the task does, and whether it leaves. The caller has checked that the sender holds
  // its place. Returns whether the task leaves.
  bool OnHeartbeat(absl::Time now, const v1::HeartbeatRequest& request);
  // Returns the time of the last call of the live task that holds the place; none if the place is
  // free.
  std::optional<absl::Time> LastContact(TaskId task) const;
  // Lets a task continue whose lease had ended, because no other process has taken its place.
  void OnRevived(TaskId task);
  // Gives all tasks a whole lease, because the chief received no calls for `pause`. `now` does not
  // include the pause.
  void OnPause(absl::Time now, absl::Duration pause);

  struct Lost {
    TaskId task;
    uint64_t incarnation = 0;
  };
  // Takes away the places of tasks whose leases have ended, that compute one batch for too long, or
  // that cannot reach each other, and returns these tasks.
  std::vector<Lost> TakePlacesOfLost(absl::Time now);

  // Starts to load if the run waits for tasks and all of them are there.
  void PrepareIfComplete();

  // Publish the current value to all tasks if it has changed.
  void UpdateWorkers();
  void UpdatePsAddresses();
  void UpdateMissing();

  // Returns "ps/0 at ADDRESS", for messages.
  std::string PsAndAddress(uint32_t ps) const;
  // Returns text such as "worker/1 cannot reach ps/0 at ADDRESS, ..."; empty if no unreachable task
  // is known.
  std::string BrokenLinks() const;

 private:
  void TakePlace(TaskId task, const std::string& why, std::vector<Lost>* lost);
  void TakePlacesOfStalled(absl::Time now, std::vector<Lost>* lost);
  void TakePlacesOfUnreached(absl::Time now, std::vector<Lost>* lost);

  SessionContext& context_;
};

}  // namespace shoal

#endif  // SHOAL_CHIEF_SESSION_ROSTER_H_

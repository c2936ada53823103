#ifndef SHOAL_CHIEF_LEDGERS_MEMBERSHIP_H_
#define SHOAL_CHIEF_LEDGERS_MEMBERSHIP_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "proto/v1/identity.pb.h"
#include "runtime/cluster/task.h"
#include "runtime/plan/batch_key.h"

namespace shoal {

// The chief's knowledge of one task.
struct Member {
  uint64_t incarnation = 0;
  std::string nonce;    // Identifies the process that holds the incarnation.
  std::string address;  // The address at which it serves; empty for workers.
  std::string host;
  uint32_t process_id = 0;
  uint32_t restarts = 0;  // The number of processes that held its place before this one.
  absl::Time registered;
  absl::Time last_contact;
  bool connected = true;  // True if no connection of the task has broken since its last call.
  bool live = false;      // It holds a lease.
  bool expired = false;   // True if its lease has ended and no other process has taken its place.
  bool asked_to_leave = false;  // True if it left because it was asked to.
  std::string lost_by;          // The reason why its place was taken; empty: it was not.
  uint64_t step = 0;
  std::string activity;
  bool has_batch = false;
  BatchKey batch;  // The batch that it was computing at its last heartbeat.
  // Only for workers. `computing` is true while it computes a batch or an evaluation block.
  // `computed` counts the batches and blocks that it has finished and the reports of progress of
  // its compute program. Since `computing_since`, `computed` has not risen.
  bool computing = false;
  uint64_t computed = 0;
  absl::Time computing_since;
};

// The members of the run: one for each (job, index), with its incarnation and its lease. A lease
// ends when the member is silent for `lease`, or for `grace` after its connection broke. Leases are
// about liveness only; incarnations, lineages and the dedupe of batches keep the variables right.
//
// Not thread-safe. Any clock will do for the times, but all must come from the same one.
class Membership {
 public:
  struct Options {
    absl::Duration lease;
    absl::Duration grace = absl::Seconds(1);
    uint64_t term = 1;  // Incarnations of a later term are above those of an earlier one.
  };

  struct Application {
    TaskId task;
    std::string nonce;
    std::string address;
    std::string host;
    uint32_t process_id = 0;
  };

  explicit Membership(const Options& options) : options_(options) {}

  // Issues an incarnation; the same one for a repeated call of the same process (nonce). Replaces a
  // member whose lease ended or whose connection broke. ALREADY_EXISTS names the process that holds
  // the place.
  absl::StatusOr<uint64_t> Register(absl::Time now, const Application& application);

  // Renews the lease. A member whose lease has ended, and whose place no other process took, gets
  // it back. ABORTED "fenced incarnation" if another process took the place or the member left.
  absl::Status Renew(absl::Time now, TaskId task, uint64_t incarnation);

  // Gives every live member a whole lease, because the chief could not receive calls. Connections
  // that break within that lease do not shorten it, because they may have broken while the chief
  // did not answer.
  void GrantLeases(absl::Time now);

  // Notes that a connection on which the member waited has broken.
  void Disconnect(absl::Time now, TaskId task, uint64_t incarnation);

  // Notes that the member leaves. `asked_to_leave` is true if it was asked to.
  void Leave(TaskId task, uint64_t incarnation, bool asked_to_leave = false);
  // Ends the membership of the task. Renew then returns ABORTED with the reason `why`.
  void TakePlace(TaskId task, const std::string& why);

  // Ends the leases that have expired and returns their holders.
  std::vector<TaskId> Expire(absl::Time now);

  bool IsLive(TaskId task) const;
  // Returns the member, even if its lease has ended; null if it never registered.
  const Member* Find(TaskId task) const;
  Member* FindMutable(TaskId task);
  // Returns the indices of the live members of a job, rising.
  std::vector<uint32_t> Live(Job job) const;
  const std::map<TaskId, Member>& members() const { return members_; }

 private:
  static void Revive(absl::Time now, Member* member);

  const Options options_;
  uint64_t issued_ = 0;
  // The time of the last call of GrantLeases, from which all leases count.
  absl::Time granted_ = absl::InfinitePast();
  std::map<TaskId, Member> members_;
};

}  // namespace shoal

#endif  // SHOAL_CHIEF_LEDGERS_MEMBERSHIP_H_

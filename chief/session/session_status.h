#ifndef SHOAL_CHIEF_SESSION_SESSION_STATUS_H_
#define SHOAL_CHIEF_SESSION_SESSION_STATUS_H_

#include "absl/time/time.h"

#include "chief/session/checkpoints.h"
#include "chief/session/roster.h"
#include "chief/session/session_context.h"
#include "chief/session/waits.h"
#include "proto/v1/chief_service.pb.h"

namespace shoal {

// Answers GetRunStatus: describes the run, its tasks and what it waits for. Not thread-safe.
class SessionStatus {
 public:
  // All are borrowed.
  SessionStatus(const SessionContext* context, const Roster* roster, const Waits* waits,
                const Checkpoints* checkpoints)
      : context_(*context), roster_(*roster), waits_(*waits), checkpoints_(*checkpoints) {}

  v1::GetRunStatusResponse Describe(absl::Time now) const;

 private:
  void DescribeTasks(absl::Time now, v1::GetRunStatusResponse* response) const;
  // Lists the tasks that had registered and are missing unexpectedly.
  void DescribeLost(v1::GetRunStatusResponse* response) const;
  // Uses the slow tasks that DescribeTasks has found; call it afterwards.
  void DescribeWait(absl::Time now, v1::GetRunStatusResponse* response) const;

  const SessionContext& context_;
  const Roster& roster_;
  const Waits& waits_;
  const Checkpoints& checkpoints_;
};

}  // namespace shoal

#endif  // SHOAL_CHIEF_SESSION_SESSION_STATUS_H_

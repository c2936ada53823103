#ifndef SHOAL_CHIEF_SESSION_FULL_PS_WATCH_H_
#define SHOAL_CHIEF_SESSION_FULL_PS_WATCH_H_

#include "absl/time/time.h"

#include "chief/session/session_context.h"
#include "proto/v1/chief_service.pb.h"

namespace shoal {

// Takes what ps report about the memory of their tables. Warns once when a ps has little room left,
// and ends the run, after a checkpoint, before a ps has none: for good if its tables need more than
// it may use, with UNAVAILABLE if other processes have had the memory for a while. Not thread-safe.
class FullPsWatch {
 public:
  // `context` is borrowed.
  explicit FullPsWatch(SessionContext* context) : context_(*context) {}

  // Takes a heartbeat; heartbeats without a report of memory, or not from a ps, do nothing. Returns
  // whether it ended the run.
  bool OnHeartbeat(absl::Time now, const v1::HeartbeatRequest& request);

 private:
  SessionContext& context_;
  bool has_warned_ = false;
};

}  // namespace shoal

#endif  // SHOAL_CHIEF_SESSION_FULL_PS_WATCH_H_

// What an operator does to a run that is under way, through its chief.
#ifndef SHOAL_DEPLOY_RUN_CONTROL_H_
#define SHOAL_DEPLOY_RUN_CONTROL_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "proto/v1/chief_service.pb.h"
#include "runtime/rpc/chief_client.h"

namespace shoal {

class Clock;

struct RunControl {
  ChiefClient* chief = nullptr;  // Borrowed, as is the clock.
  const Clock* clock = nullptr;
  bool secure = false;        // The chief is dialled with certificates.
  std::string address;        // As the user named it, for messages.
  std::string run_directory;  // That the run has to be in; empty: whichever runs there.
  absl::Duration timeout = absl::Seconds(60);  // For a checkpoint, or for the run to end.
};

// A checkpoint that is durable.
struct DurableCheckpoint {
  uint64_t step = 0;
  std::string path;  // Empty: the run has none.
};

// UNAVAILABLE: nobody answers at the address. FAILED_PRECONDITION: what answers is no chief, one of
// another protocol version, or of a run in another directory, or its certificates and those of this
// side do not go together.
absl::StatusOr<v1::GetRunStatusResponse> GetStatus(const RunControl& control);

// What a call's error means to whoever named the address.
absl::Status ExplainCall(const absl::Status& status, const std::string& address, bool secure);

// Has a checkpoint made and waits until it is durable. FAILED_PRECONDITION: the run has not begun,
// prepares or is over; INTERNAL: it could not be written; DEADLINE_EXCEEDED.
absl::StatusOr<DurableCheckpoint> MakeCheckpoint(const RunControl& control);

// Has the run make a checkpoint and end, and waits until it has; what it can be resumed from.
// UNAVAILABLE: the chief went before it said that the run is over.
absl::StatusOr<DurableCheckpoint> StopRun(const RunControl& control, const std::string& reason);

}  // namespace shoal

#endif  // SHOAL_DEPLOY_RUN_CONTROL_H_

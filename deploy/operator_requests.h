// Lets an operator act on a run that is under way, through its chief.
#ifndef SHOAL_DEPLOY_OPERATOR_REQUESTS_H_
#define SHOAL_DEPLOY_OPERATOR_REQUESTS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "proto/v1/chief_service.pb.h"
#include "runtime/rpc/chief_client.h"

namespace shoal {

class Clock;

struct ChiefContact {
  ChiefClient* chief = nullptr;  // Borrowed, as is the clock.
  const Clock* clock = nullptr;
  bool secure = false;        // The chief is dialled with certificates.
  std::string address;        // The text that the user gave, for messages.
  std::string run_directory;  // Directory that the run must have; empty: any run will do.
  absl::Duration timeout = absl::Seconds(60);  // For a checkpoint, or for the run to end.
};

// A checkpoint that is durable.
struct DurableCheckpoint {
  uint64_t step = 0;
  std::string path;  // Empty: the run has none.
};

// UNAVAILABLE: nothing answers at the address. FAILED_PRECONDITION: the server there is not a
// chief, has another protocol version or a run in another directory, or its certificates and those
// of this side do not fit each other.
absl::StatusOr<v1::GetRunStatusResponse> GetStatus(const ChiefContact& control);

// Explains a call's error to the user who named the address.
absl::Status ExplainCall(const absl::Status& status, const std::string& address, bool secure);

// Has a checkpoint made and waits until it is durable. FAILED_PRECONDITION: the run has not begun,
// prepares or is over; INTERNAL: it could not be written; DEADLINE_EXCEEDED.
absl::StatusOr<DurableCheckpoint> MakeCheckpoint(const ChiefContact& control);

// Has the run make a checkpoint and end, and waits until it has; what it can be resumed from.
// UNAVAILABLE: the chief went before it said that the run is over.
absl::StatusOr<DurableCheckpoint> StopRun(const ChiefContact& control, const std::string& reason);

}  // namespace shoal

#endif  // SHOAL_DEPLOY_OPERATOR_REQUESTS_H_

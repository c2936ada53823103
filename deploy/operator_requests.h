// Functions by which an operator controls a running run through its chief. They block; `control` is
// borrowed.
#ifndef SHOAL_DEPLOY_OPERATOR_REQUESTS_H_
#define SHOAL_DEPLOY_OPERATOR_REQUESTS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "proto/v1/chief_service.pb.h"
#include "runtime/config/defaults.h"
#include "runtime/rpc/chief_client.h"

namespace shoal {

class Clock;

struct ChiefContact {
  ChiefClient* chief = nullptr;  // Borrowed, as is the clock.
  const Clock* clock = nullptr;
  bool secure = false;        // The connection to the chief uses certificates.
  std::string address;        // The text that the user gave, for messages.
  std::string run_directory;  // Directory that the run must have; empty: any run will do.
  // The longest time for a checkpoint, or for the end of the run.
  absl::Duration timeout = absl::Seconds(kSaveTimeoutSeconds);
  // The time for which calls must be refused before a chief that had answered counts as lost.
  absl::Duration patience = absl::Seconds(3);
};

// A durable checkpoint.
struct DurableCheckpoint {
  uint64_t step = 0;
  std::string path;  // Empty: the run has none.
};

// Returns the run's status. UNAVAILABLE: nothing answers at the address. FAILED_PRECONDITION: the
// server there is not a chief, has another protocol version or a run in another directory, or
// refuses our certificate.
absl::StatusOr<v1::GetRunStatusResponse> GetStatus(const ChiefContact& control);

// Explains a call's error to the user who named the address.
absl::Status ExplainCall(const absl::Status& status, const std::string& address, bool secure);

// Requests a checkpoint and waits until it is durable. A chief that does not answer for a while is
// asked again until the timeout. Returns FAILED_PRECONDITION if the run has not begun, is preparing
// or is over, INTERNAL if the checkpoint could not be written, UNAVAILABLE if the chief was lost,
// or DEADLINE_EXCEEDED.
absl::StatusOr<DurableCheckpoint> MakeCheckpoint(const ChiefContact& control);

// Asks the run to make a checkpoint and end, and waits for that like MakeCheckpoint. Returns the
// checkpoint to resume from. If the chief ends before it reports that the run is over, the
// summary.json in the run's directory says how the run ended. UNAVAILABLE: this machine has none.
absl::StatusOr<DurableCheckpoint> StopRun(const ChiefContact& control, const std::string& reason);

}  // namespace shoal

#endif  // SHOAL_DEPLOY_OPERATOR_REQUESTS_H_

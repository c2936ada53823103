// `shoal status|checkpoint|stop|health ADDRESS` show and control a run that is under way.
#ifndef SHOAL_DEPLOY_CONTROL_COMMAND_H_
#define SHOAL_DEPLOY_CONTROL_COMMAND_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

#include "runtime/rpc/chief_client.h"

namespace shoal {

class Credentials;

// Connections that the commands need.
struct ControlLinks {
  std::function<std::unique_ptr<ChiefClient>(const std::string& address,
                                             const Credentials* credentials)>
      connect_chief;
  // See CheckHealth. `credentials` may be null, as above: plaintext.
  std::function<absl::Status(const std::string& address, const std::string& service,
                             absl::Duration timeout, const Credentials* credentials)>
      check_health;
  // This program's name as the user typed it, quoted as one word of a shell.
  std::string program = "shoal";
};

// Run one command each and return the exit code. ADDRESS is that of the chief (for health: of any
// task), or the directory of a run, whose cluster.textproto contains the address.
int StatusMain(const ControlLinks& links, absl::Span<const std::string> args);
int CheckpointMain(const ControlLinks& links, absl::Span<const std::string> args);
int StopMain(const ControlLinks& links, absl::Span<const std::string> args);
int HealthMain(const ControlLinks& links, absl::Span<const std::string> args);

// Returns the network address for the argument ADDRESS, see above. Errors name ADDRESS.
absl::StatusOr<std::string> FindChief(const std::string& address_or_directory);

}  // namespace shoal

#endif  // SHOAL_DEPLOY_CONTROL_COMMAND_H_

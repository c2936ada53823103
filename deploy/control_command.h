// `shoal status|checkpoint|stop|health ADDRESS`: a run that is under way, from outside.
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
  std::string program = "shoal";  // This program as the user typed it, one word of a shell.
};

// Each returns the exit code. ADDRESS is the chief's (of health: any task's), or the directory of a
// run: its cluster.textproto has the address.
int StatusMain(const ControlLinks& links, absl::Span<const std::string> args);
int CheckpointMain(const ControlLinks& links, absl::Span<const std::string> args);
int StopMain(const ControlLinks& links, absl::Span<const std::string> args);
int HealthMain(const ControlLinks& links, absl::Span<const std::string> args);

// ADDRESS as it is dialled; see above. Errors name it.
absl::StatusOr<std::string> FindChief(const std::string& address_or_directory);

}  // namespace shoal

#endif  // SHOAL_DEPLOY_CONTROL_COMMAND_H_

// `shoal reach`, the local end of a task that `shoal launch` starts over ssh. To the launcher it
// looks like the task: it starts the task by the machine's OpenSSH client and `shoal attend`,
// reports its address, and ends like it, with the same exit code or by the same signal. Output of
// ssh and of the remote shell goes to standard error. When it gets SIGTERM, the task has 2 s to
// end.
//
// When it dies, ssh's input ends, and therefore the task; see attend_command.h.
//
// Exit codes in addition to the task's: 78 if the host cannot be reached or cannot run the task;
// 138 if the connection was lost, and, with --again, if a host that was reached before cannot be
// reached now.
#ifndef SHOAL_DEPLOY_HOSTS_REACH_COMMAND_H_
#define SHOAL_DEPLOY_HOSTS_REACH_COMMAND_H_

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace shoal {

// Runs the command and returns the exit code. Arguments: --name=ps/0 --host=NAME [--again] -- SSH
// ARGS... [--report_fd=FD] [--parent_pid=PID]. Child::Start adds the last two.
int ReachMain(absl::Span<const std::string> args);

// Returns the command that a user can run to see why such an `ssh` command line does not reach the
// host: with the same configuration, user and port, and without prompts.
std::string TryByHand(absl::Span<const std::string> ssh, absl::string_view host);

}  // namespace shoal

#endif  // SHOAL_DEPLOY_HOSTS_REACH_COMMAND_H_

// The command line by which the launcher calls the machine's OpenSSH client.
#ifndef SHOAL_DEPLOY_HOSTS_SSH_CLIENT_H_
#define SHOAL_DEPLOY_HOSTS_SSH_CLIENT_H_

#include <string>
#include <vector>

namespace shoal {

// Returns "ssh" and options that override the user's configuration: no prompts, no forwarding, a
// host that does not answer for 15 s is lost, no shared connection, and the command runs in the
// foreground with its input. The rest of the configuration is used as it is; an option in it that
// ssh does not know is an error, unless its IgnoreUnknown names it. The function asks the client
// (some milliseconds) whether it knows the options of OpenSSH 8.7 and leaves them out if not.
std::vector<std::string> SshClient();

}  // namespace shoal

#endif  // SHOAL_DEPLOY_HOSTS_SSH_CLIENT_H_

// The machine's OpenSSH client, as the launcher calls it.
#ifndef SHOAL_DEPLOY_HOSTS_SSH_CLIENT_H_
#define SHOAL_DEPLOY_HOSTS_SSH_CLIENT_H_

#include <string>
#include <vector>

namespace shoal {

// "ssh" and options that hold whatever the user's configuration says for their own logins: no
// questions, nothing forwarded, a host that does not answer for 15 s is lost, a connection of its
// own, and the command runs, in the foreground, with its input. The configuration is otherwise
// taken as it is: a word in it that ssh does not know is an error, unless its own IgnoreUnknown
// names it. Asks the client, some milliseconds, whether it knows the options of OpenSSH 8.7; one
// that does not is not given them.
std::vector<std::string> SshClient();

}  // namespace shoal

#endif  // SHOAL_DEPLOY_HOSTS_SSH_CLIENT_H_

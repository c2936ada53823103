#include "deploy/hosts/ssh_client.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace shoal {
namespace {

constexpr const char* kOptions[] = {
    "BatchMode=yes",    "ConnectTimeout=10",       "ServerAliveInterval=5", "ServerAliveCountMax=3",
    "ControlPath=none", "ClearAllForwardings=yes", "RemoteCommand=none",
};

// The options that a client older than 8.7 does not know. They are left out for it, because its
// configuration cannot set them either. IgnoreUnknown would not help: ssh uses the first value
// of an option, so it would replace the user's IgnoreUnknown.
constexpr const char* kNewOptions[] = {"ForkAfterAuthentication=no", "StdinNull=no",
                                       "SessionType=default"};

// Runs a program without input or output. False also if it cannot be started.
bool Succeeds(std::vector<std::string> words) {
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", O_RDWR, 0);
  }
  pid_t pid = 0;
  const int error = posix_spawnp(&pid, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return false;
  int status = 0;
  while (waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) return false;
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace

std::vector<std::string> SshClient() {
  std::vector<std::string> words = {"ssh", "-T", "-x", "-a"};
  for (const char* option : kOptions) words.insert(words.end(), {"-o", option});
  std::vector<std::string> newer;
  for (const char* option : kNewOptions) newer.insert(newer.end(), {"-o", option});
  // Asks for its settings for a host, without a configuration file.
  std::vector<std::string> question = {"ssh", "-G", "-F", "/dev/null"};
  question.insert(question.end(), newer.begin(), newer.end());
  question.push_back("localhost");
  if (Succeeds(std::move(question))) words.insert(words.end(), newer.begin(), newer.end());
  return words;
}

}  // namespace shoal

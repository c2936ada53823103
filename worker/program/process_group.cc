#include "worker/program/process_group.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "base/passing_errors.h"

namespace shoal {
namespace {

// All signals are blocked in the guard, so only SIGKILL ends it before this process has ended.
constexpr char kShell[] = "/bin/sh";
constexpr char kShownName[] = "shoal-guard";
constexpr char kScript[] = "read -r line; kill -KILL 0";

// Returns the status of a guard that the system does not start, with `error`.
absl::Status CannotStart(int error) {
  const std::string text =
      absl::StrCat("program: its guard ", kShell, " cannot be started: ", std::strerror(error));
  if (IsPassingError(error)) return absl::UnavailableError(text);
  return absl::Status(
      error == ENOENT                       ? absl::StatusCode::kNotFound
      : error == EACCES || error == ENOEXEC ? absl::StatusCode::kPermissionDenied
                                            : absl::StatusCode::kFailedPrecondition,
      absl::StrCat(text, "; a worker needs a shell to end its program: install ", kShell));
}

absl::StatusOr<pid_t> SpawnGuard(int life) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, life, STDIN_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  sigset_t all;
  sigfillset(&all);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setsigmask(&attributes, &all);
  posix_spawnattr_setsigdefault(&attributes, &all);
  std::string name = kShownName, option = "-c", script = kScript;
  char* const argv[] = {name.data(), option.data(), script.data(), nullptr};
  char* const environment[] = {nullptr};
  pid_t pid = 0;
  const int error = posix_spawn(&pid, kShell, &actions, &attributes, argv, environment);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (error == 0) return pid;
  return CannotStart(error);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ProcessGroup>> ProcessGroup::Start() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return absl::UnavailableError(absl::StrCat("program: pipe: ", std::strerror(errno)));
  }
  UniqueFd read_end(ends[0]), write_end(ends[1]);
  const absl::StatusOr<pid_t> guard = SpawnGuard(read_end.get());
  if (!guard.ok()) return guard.status();
  return absl::WrapUnique(new ProcessGroup(*guard, std::move(write_end)));
}

void ProcessGroup::Kill() {
  if (std::exchange(killed_, true)) return;
  kill(-guard_, SIGKILL);
  kill(guard_, SIGKILL);
  while (waitpid(guard_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace shoal

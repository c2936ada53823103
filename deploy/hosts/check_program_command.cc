#include "deploy/hosts/check_program_command.h"

#include <cstdio>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

#include "base/file_system.h"
#include "base/hash.h"
#include "base/status_macros.h"
#include "runtime/config/flags.h"
#include "runtime/process/child.h"
#include "runtime/process/exit_code.h"
#include "worker/program/program_inputs.h"

namespace shoal {
namespace {

absl::Status CheckProgram(absl::Span<const std::string> args) {
  std::string hash;
  std::vector<std::string> flags;
  for (const std::string& arg : args) {
    absl::string_view value = arg;
    if (absl::ConsumePrefix(&value, "--program_hash=")) {
      hash = std::string(value);
    } else {
      flags.push_back(arg);
    }
  }
  ASSIGN_OR_RETURN(const CommandLine line, ParseCommandLine(kScopeTask, flags));
  if (line.task.parent_pid != 0) DieWithParent(line.task.parent_pid);
  const std::string& file = line.run.program().file();
  ASSIGN_OR_RETURN(const std::string found, HashOfProgram(line.run, NewPosixFileSystem().get()));
  if (found != hash) {
    return absl::FailedPreconditionError(
        absl::StrCat("program: ", file,
                     " is another version than the launcher's; copy the launcher's to this path on "
                     "every host"));
  }
  return AskProgram(line.run, /*has_started_before=*/false).status();
}

}  // namespace

absl::StatusOr<std::string> HashOfProgram(const v1::RunConfig& run, FileSystem* file_system) {
  const std::string& file = run.program().file();
  const absl::StatusOr<std::string> content = ReadFile(*file_system, file);
  if (content.ok()) return absl::StrCat(absl::Hex(Fingerprint64(*content)));
  return absl::NotFoundError(absl::StrCat("program: ", file, " cannot be read (",
                                          content.status().message(),
                                          "); put the same file at the same path on every host"));
}

int CheckProgramMain(absl::Span<const std::string> args) {
  const absl::Status status = CheckProgram(args);
  if (!status.ok()) {
    std::fprintf(stderr, "shoal worker: %s\n", std::string(status.message()).c_str());
  }
  return ToExitCode(status);
}

}  // namespace shoal

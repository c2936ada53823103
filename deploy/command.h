// The commands of the one binary.
#ifndef SHOAL_DEPLOY_COMMAND_H_
#define SHOAL_DEPLOY_COMMAND_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/types/span.h"

namespace shoal {

struct Command {
  std::string name;
  std::string summary;  // One line of --help.
  // Runs the command with the arguments after its name and returns the exit code.
  std::function<int(absl::Span<const std::string> args)> run;
};

// Runs the command that args[0] names and returns its exit code. Without arguments it prints the
// help and returns 2, with --help 0. For an unknown command it prints the nearest known one and
// returns 2.
int RunCommand(const std::vector<Command>& commands, absl::Span<const std::string> args);

// Returns the text of `shoal --help`.
std::string CommandHelp(const std::vector<Command>& commands);

}  // namespace shoal

#endif  // SHOAL_DEPLOY_COMMAND_H_

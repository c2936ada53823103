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
  // Gets what follows the name; returns the exit code.
  std::function<int(absl::Span<const std::string> args)> run;
};

// Runs the command that args[0] names. Without one: help, and exit code 2; --help: 0. An unknown
// one is an error that names the nearest.
int RunCommand(const std::vector<Command>& commands, absl::Span<const std::string> args);

// What `shoal --help` prints.
std::string CommandHelp(const std::vector<Command>& commands);

}  // namespace shoal

#endif  // SHOAL_DEPLOY_COMMAND_H_

#include "deploy/command.h"

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "runtime/config/nearest_name.h"
#include "runtime/process/exit_code.h"

namespace shoal {

int RunCommand(const std::vector<Command>& commands, absl::Span<const std::string> args) {
  if (args.empty()) {
    std::fputs(CommandHelp(commands).c_str(), stderr);
    return kExitUsage;
  }
  if (args[0] == "help" && args.size() > 1) return RunCommand(commands, {args[1], "--help"});
  if (args[0] == "--help" || args[0] == "-h" || args[0] == "help") {
    std::fputs(CommandHelp(commands).c_str(), stdout);
    return kExitDone;
  }
  std::vector<std::string> names;
  for (const Command& command : commands) {
    if (command.name == args[0]) return command.run(args.subspan(1));
    names.push_back(command.name);
  }
  const std::string hint = DidYouMean(args[0], names);
  std::fprintf(stderr, "shoal: \"%s\" is not a command%s\n", args[0].c_str(),
               hint.empty() ? "; see shoal --help" : hint.c_str());
  return kExitUsage;
}

std::string CommandHelp(const std::vector<Command>& commands) {
  std::string text =
      "Shoal: data-parallel training with parameter servers.\n\n"
      "usage: shoal COMMAND [flags]      shoal COMMAND --help\n\n";
  for (const Command& command : commands) {
    absl::StrAppendFormat(&text, "  %-10s %s\n", command.name, command.summary);
  }
  absl::StrAppend(
      &text,
      "\n"
      "  shoal --version                                 the GPUs, the commit and the libraries\n"
      "\n"
      "For a start:\n"
      "  shoal train --run=deploy/runs/fashion_cnn.textproto        1 chief, 2 ps, 2 workers here\n"
      "  shoal train --run=deploy/runs/fashion_mlp.textproto --num_ps_tasks=0      one process\n"
      "  shoal train --run=RUN_DIR/run.textproto --num_epochs=5     resume from its checkpoint\n");
  return text;
}

}  // namespace shoal

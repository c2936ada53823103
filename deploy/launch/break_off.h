// Handles a second Ctrl-C in `shoal train`.
#ifndef SHOAL_DEPLOY_LAUNCH_BREAK_OFF_H_
#define SHOAL_DEPLOY_LAUNCH_BREAK_OFF_H_

#include <string>

#include "proto/v1/run_config.pb.h"

namespace shoal {

// Ends the process with exit code 128 + `signal`, and with it its children. Before that it prints
// the run's checkpoint and how to resume from it on standard output; see PrintHowToResume for
// `command`. A disk or a terminal that hangs delays it for a second at most.
[[noreturn]] void BreakOff(int signal, const v1::RunConfig& run, const std::string& command);

}  // namespace shoal

#endif  // SHOAL_DEPLOY_LAUNCH_BREAK_OFF_H_

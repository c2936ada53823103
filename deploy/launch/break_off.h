// Handles a second Ctrl-C in `shoal train`.
#ifndef SHOAL_DEPLOY_LAUNCH_BREAK_OFF_H_
#define SHOAL_DEPLOY_LAUNCH_BREAK_OFF_H_

#include <string>

#include "proto/v1/run_config.pb.h"

namespace shoal {

// Ends the process with 128 + `signal`, and with it the children that die with it. Before that it
// says on standard output which checkpoint of the run stands and what goes on from it; see
// PrintHowToResume for `command`. A disk or a terminal that hangs holds it up for a second at most.
[[noreturn]] void BreakOff(int signal, const v1::RunConfig& run, const std::string& command);

}  // namespace shoal

#endif  // SHOAL_DEPLOY_LAUNCH_BREAK_OFF_H_

// Handles a second Ctrl-C in `shoal train`.
#ifndef SHOAL_DEPLOY_LAUNCH_BREAK_OFF_H_
#define SHOAL_DEPLOY_LAUNCH_BREAK_OFF_H_

#include <string>

#include "proto/v1/run_config.pb.h"

namespace shoal {

// Prints the run's checkpoint and how to resume from it on standard output, then ends the process
// with exit code 128 + `signal`, and with it its children. PrintHowToResume explains `command`. A
// disk or a terminal that hangs delays the end for a second at most.
[[noreturn]] void BreakOff(int signal, const v1::RunConfig& run, const std::string& command);

}  // namespace shoal

#endif  // SHOAL_DEPLOY_LAUNCH_BREAK_OFF_H_

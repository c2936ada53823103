// Prints the result of a run for people, on standard output.
#ifndef SHOAL_DEPLOY_LAUNCH_RUN_REPORT_H_
#define SHOAL_DEPLOY_LAUNCH_RUN_REPORT_H_

#include <string>

#include "proto/v1/run_config.pb.h"

namespace shoal {

struct Summary;

// Quotes the text as one word of a shell.
std::string AsShellWord(const std::string& text);

// `command` is what goes on with the run when --run=FILE is added: "shoal train".
void PrintSummary(const Summary& summary, const v1::RunConfig& run, const std::string& command);

// Prints how to resume a run that was ended from outside: its checkpoint, if it has one.
void PrintHowToGoOn(const Summary& summary, const v1::RunConfig& run, const std::string& command);

}  // namespace shoal

#endif  // SHOAL_DEPLOY_LAUNCH_RUN_REPORT_H_

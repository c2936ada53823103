// Prints the result of a run for the user, on standard output.
#ifndef SHOAL_DEPLOY_LAUNCH_RESULT_PRINTER_H_
#define SHOAL_DEPLOY_LAUNCH_RESULT_PRINTER_H_

#include <string>

#include "proto/v1/run_config.pb.h"

namespace shoal {

struct Summary;

// Quotes the text as one word of a shell.
std::string AsShellWord(const std::string& text);

// Prints the summary, and the command that resumes the run: `command` ("shoal train"), --run=FILE
// and, for a finished run, a larger length.
void PrintSummary(const Summary& summary, const v1::RunConfig& run, const std::string& command);

// Prints how to resume a run that was ended from outside: its checkpoint, if it has one.
void PrintHowToResume(const Summary& summary, const v1::RunConfig& run, const std::string& command);

}  // namespace shoal

#endif  // SHOAL_DEPLOY_LAUNCH_RESULT_PRINTER_H_

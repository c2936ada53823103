// `shoal attend`, the remote end of a task that `shoal launch` starts over ssh. It runs on the
// task's host, as ssh's command, and ensures that the task does not outlive its launcher.
//
// It writes lines to standard output, which ssh carries to `shoal reach`. Each is preceded by an
// empty line, because a login shell may have printed something without an end of line.
//   shoal-attend hello N            `shoal attend` runs; N is the version of these lines
//   shoal-attend address HOST:PORT  the task serves there
//   shoal-attend refused TEXT       this host cannot run the task
//   shoal-attend exit N             the task ended with exit code N; with 138 it may not have been
//                                   started, because this host cannot read a file at present
//   shoal-attend signal N           signal N ended the task
// `shoal attend` ends after each of the last three.
// It reads characters from standard input: '.' means that the launcher is alive (every 2 s), 'k'
// sends the task SIGTERM, and SIGKILL 2 s later. If the input ends, or is silent for --patience
// seconds, the launcher is lost. Then a chief gets SIGTERM at once and makes its last checkpoint;
// other tasks get SIGTERM after --grace seconds. A task that still runs 10 s after --grace seconds
// is killed. SIGTERM to `shoal attend` itself does to any task what the loss of the launcher does
// to a chief.
#ifndef SHOAL_DEPLOY_HOSTS_ATTEND_COMMAND_H_
#define SHOAL_DEPLOY_HOSTS_ATTEND_COMMAND_H_

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace shoal {

inline constexpr absl::string_view kAttendPrefix = "shoal-attend ";
inline constexpr int kAttendVersion = 1;

// Runs the command and returns the exit code. Arguments: --name=ps/0 --log=FILE --launch_file=FILE
// --launch=TEXT --grace=SECONDS [--patience=SECONDS] -- PROGRAM ARGS... The launch file must
// contain the launch text, which proves that this host sees the launcher's run directory. --grace
// is the run's cluster.grace_seconds; the default of --patience is 30.
int AttendMain(absl::Span<const std::string> args);

}  // namespace shoal

#endif  // SHOAL_DEPLOY_HOSTS_ATTEND_COMMAND_H_

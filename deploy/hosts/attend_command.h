// `shoal attend`, the far end of a task that `shoal launch` starts over ssh: it runs on the task's
// host, as ssh's command, and sees to it that the task does not outlive its launcher.
//
// It speaks lines on standard output, which ssh carries to `shoal reach`. An empty line stands
// before each: a login shell may have printed something without an end of line.
//   shoal-attend hello N            it runs; N: the version of these lines
//   shoal-attend address HOST:PORT  the task serves there
//   shoal-attend refused TEXT       this host does not fit; ends
//   shoal-attend exit N             the task ended; ends
//   shoal-attend signal N           the same, of a signal
// and hears characters on standard input: '.' the launcher lives (every 2 s), 'k' end the task now.
// When the input ends, or nothing comes for --patience seconds, the launcher is lost: a chief is
// told to stop, which makes a checkpoint; other tasks have 10 s to end with it. After 20 s the task
// is killed.
#ifndef SHOAL_DEPLOY_HOSTS_ATTEND_COMMAND_H_
#define SHOAL_DEPLOY_HOSTS_ATTEND_COMMAND_H_

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace shoal {

inline constexpr absl::string_view kAttendPrefix = "shoal-attend ";
inline constexpr int kAttendVersion = 1;

// --name=ps/0 --log=FILE --launch_file=FILE --launch=TEXT [--patience=SECONDS] -- PROGRAM ARGS...
// The file must hold the text: that this host sees the launcher's run directory.
int AttendMain(absl::Span<const std::string> args);

}  // namespace shoal

#endif  // SHOAL_DEPLOY_HOSTS_ATTEND_COMMAND_H_

#ifndef SHOAL_DEPLOY_LAUNCH_RESTART_PAUSES_H_
#define SHOAL_DEPLOY_LAUNCH_RESTART_PAUSES_H_

#include "absl/time/time.h"

namespace shoal {

// The pauses before one task is started again. An outage of seconds, such as that of a file system,
// ends each process of the task soon after its start, and would use up all restarts without them.
// Not thread-safe.
class RestartPauses {
 public:
  // Returns how long to wait after the end of a process that lived for `life`; zero if it could not
  // be started. There is no pause after the first end, and none after a life of a minute or more.
  // The chief ends the run when it has waited for the task for `patience`; a pause takes at most a
  // third of that.
  absl::Duration Next(absl::Duration life, absl::Duration patience);

 private:
  absl::Duration next_ = absl::ZeroDuration();
};

}  // namespace shoal

#endif  // SHOAL_DEPLOY_LAUNCH_RESTART_PAUSES_H_

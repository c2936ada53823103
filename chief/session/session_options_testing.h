// The options of sessions in tests.
#ifndef SHOAL_CHIEF_SESSION_SESSION_OPTIONS_TESTING_H_
#define SHOAL_CHIEF_SESSION_SESSION_OPTIONS_TESTING_H_

#include "absl/time/time.h"

#include "chief/session/session_options.h"

namespace shoal {

// Returns options with times that suit tests. The rest is unset.
inline SessionOptions TestSessionOptions() {
  SessionOptions options;
  options.lease = absl::Seconds(10);
  options.peer_wait = absl::Seconds(300);
  options.ps_return_wait = absl::Seconds(30);
  options.stall = absl::Seconds(120);
  options.stop_wait = absl::Seconds(20);
  return options;
}

}  // namespace shoal

#endif  // SHOAL_CHIEF_SESSION_SESSION_OPTIONS_TESTING_H_

// What is said about refused connections: each thing once in a while, however often a peer comes
// back.
#ifndef SHOAL_RUNTIME_TLS_REFUSALS_H_
#define SHOAL_RUNTIME_TLS_REFUSALS_H_

#include <map>
#include <string>

#include "absl/time/time.h"

#include "base/mutex.h"

namespace shoal {

// Remembers what has been said. Thread-safe.
class Refusals {
 public:
  // The same is not said again within this.
  static constexpr absl::Duration kSilence = absl::Minutes(10);

  // Nor more different things than these within it, so that strangers cannot fill a disk; that
  // there are more is logged, once in it. What was said longer ago is forgotten.
  static constexpr size_t kMost = 200;

  bool IsFirst(const std::string& what, absl::Time now) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  Mutex mutex_;
  std::map<std::string, absl::Time> said_ ABSL_GUARDED_BY(mutex_);
  absl::Time said_more_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
};

// Lets gRPC's errors of this process, those of its TLS handshakes among them, come as lines of the
// log, equal ones once in a while, with whom the connection may have been. Of the whole process, as
// gRPC's log is; the first call counts.
void LogHandshakesOnce();

}  // namespace shoal

#endif  // SHOAL_RUNTIME_TLS_REFUSALS_H_

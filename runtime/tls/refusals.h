// Limits the number of log lines about refused connections: the same line is logged only once in a
// while, however often a peer retries.
#ifndef SHOAL_RUNTIME_TLS_REFUSALS_H_
#define SHOAL_RUNTIME_TLS_REFUSALS_H_

#include <map>
#include <string>

#include "absl/time/time.h"

#include "base/mutex.h"

namespace shoal {

// Remembers which lines have been logged. Thread-safe.
class Refusals {
 public:
  // The same line is not logged again within this time.
  static constexpr absl::Duration kSilence = absl::Minutes(10);

  // The largest number of different lines within kSilence, so that strangers cannot fill a disk. If
  // there are more, one further line says so. Lines older than kSilence are forgotten.
  static constexpr size_t kMost = 200;

  bool IsFirst(const std::string& what, absl::Time now) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  Mutex mutex_;
  std::map<std::string, absl::Time> logged_ ABSL_GUARDED_BY(mutex_);
  absl::Time overflow_logged_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
};

// Logs gRPC's errors, including those of TLS handshakes, as lines of our own log, with the probable
// peer; equal ones only once in a while. gRPC's log belongs to the whole process, so only the first
// call has an effect.
void LogHandshakesOnce();

}  // namespace shoal

#endif  // SHOAL_RUNTIME_TLS_REFUSALS_H_

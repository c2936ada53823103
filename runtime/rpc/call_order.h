// Records which of a member's calls began last, because a caller whose connection broke during an
// earlier call may have reconnected.
#ifndef SHOAL_RUNTIME_RPC_CALL_ORDER_H_
#define SHOAL_RUNTIME_RPC_CALL_ORDER_H_

#include <cstdint>
#include <map>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"

#include "base/mutex.h"

namespace shoal {

namespace v1 {
class Identity;
}

// Remembers one call for each member; member indices are bounded by kMaxMemberIndex. Thread-safe.
class CallOrder {
 public:
  // Returns the number of a new call. Numbers rise.
  uint64_t Begin() ABSL_LOCKS_EXCLUDED(mutex_);
  // Notes that this incarnation of the member made the call.
  void NoteCall(const v1::Identity& member, uint64_t call) ABSL_LOCKS_EXCLUDED(mutex_);

  // Calls `then` unless a later call of the same incarnation of the member is known. No later call
  // is noted while `then` runs.
  void UnlessLater(const v1::Identity& member, uint64_t call, absl::FunctionRef<void()> then)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Last {
    uint64_t incarnation = 0;
    uint64_t call = 0;
  };

  Mutex mutex_;
  uint64_t last_call_ ABSL_GUARDED_BY(mutex_) = 0;
  // Keyed by job and index.
  std::map<std::pair<int, uint32_t>, Last> last_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_RPC_CALL_ORDER_H_

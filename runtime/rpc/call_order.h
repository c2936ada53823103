// Which of a member's calls began last: a caller that is gone from an earlier one may be back.
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

// Thread-safe. Remembers one call for each member, whose indices are bounded by kMaxMemberIndex.
class CallOrder {
 public:
  // Numbers rise.
  uint64_t Begin() ABSL_LOCKS_EXCLUDED(mutex_);
  // The call is of this life of the member.
  void IsOf(const v1::Identity& member, uint64_t call) ABSL_LOCKS_EXCLUDED(mutex_);

  // Calls `then` unless a later call of the same life of the member is known; none becomes known
  // meanwhile.
  void UnlessLater(const v1::Identity& member, uint64_t call, absl::FunctionRef<void()> then)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Last {
    uint64_t incarnation = 0;
    uint64_t call = 0;
  };

  Mutex mutex_;
  uint64_t last_call_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::pair<int, uint32_t>, Last> last_ ABSL_GUARDED_BY(mutex_);  // By job and index.
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_RPC_CALL_ORDER_H_

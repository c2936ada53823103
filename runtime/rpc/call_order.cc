#include "runtime/rpc/call_order.h"

#include "proto/v1/identity.pb.h"
#include "runtime/rpc/receiver_rules.h"

namespace shoal {

uint64_t CallOrder::Begin() {
  MutexLock lock(&mutex_);
  return ++last_call_;
}

void CallOrder::NoteCall(const v1::Identity& member, uint64_t call) {
  if (member.member().index() > kMaxMemberIndex) return;
  MutexLock lock(&mutex_);
  Last& last = last_[{member.member().job(), member.member().index()}];
  if (call < last.call) return;
  last = Last{member.incarnation(), call};
}

void CallOrder::UnlessLater(const v1::Identity& member, uint64_t call,
                            absl::FunctionRef<void()> then) {
  MutexLock lock(&mutex_);
  const auto last = last_.find({member.member().job(), member.member().index()});
  const bool is_later = last != last_.end() && last->second.call > call &&
                        last->second.incarnation == member.incarnation();
  if (!is_later) then();
}

}  // namespace shoal

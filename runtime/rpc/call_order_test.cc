#include "runtime/rpc/call_order.h"

#include "gtest/gtest.h"

#include "proto/v1/identity.pb.h"

namespace shoal {
namespace {

v1::Identity Member(uint32_t index, uint64_t incarnation) {
  v1::Identity identity;
  identity.mutable_member()->set_job(v1::JOB_PS);
  identity.mutable_member()->set_index(index);
  identity.set_incarnation(incarnation);
  return identity;
}

bool IsLast(CallOrder* order, const v1::Identity& member, uint64_t call) {
  bool is_last = false;
  order->UnlessLater(member, call, [&] { is_last = true; });
  return is_last;
}

TEST(CallOrderTest, OnlyALaterCallOfTheSameLifeCounts) {
  CallOrder order;
  const uint64_t first = order.Begin();
  const v1::Identity ps = Member(0, 7);
  EXPECT_TRUE(IsLast(&order, ps, first));
  order.NoteCall(ps, first);
  EXPECT_TRUE(IsLast(&order, ps, first));
  order.NoteCall(Member(1, 7), order.Begin());
  EXPECT_TRUE(IsLast(&order, ps, first)) << "another member";
  const uint64_t second = order.Begin();
  order.NoteCall(ps, second);
  order.NoteCall(ps, first);  // It is noted late.
  EXPECT_FALSE(IsLast(&order, ps, first));
  EXPECT_TRUE(IsLast(&order, ps, second));
  order.NoteCall(Member(0, 8), order.Begin());
  EXPECT_TRUE(IsLast(&order, ps, first)) << "a process that takes its place must not wait for it";
}

}  // namespace
}  // namespace shoal

#include "chief/ledgers/membership.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const TaskId kWorker0{Job::kWorker, 0};
const TaskId kWorker1{Job::kWorker, 1};

absl::Time At(double seconds) { return absl::UnixEpoch() + absl::Seconds(seconds); }

Membership::Application Process(TaskId task, const std::string& nonce) {
  return Membership::Application{task, nonce, "", "host", 42};
}

class MembershipTest : public ::testing::Test {
 protected:
  Membership membership_{Membership::Options{absl::Seconds(10), absl::Seconds(1), 3}};
};

TEST_F(MembershipTest, ARepeatedRegistrationKeepsTheIncarnation) {
  const uint64_t first = *membership_.Register(At(0), Process(kWorker0, "a"));
  EXPECT_EQ(*membership_.Register(At(1), Process(kWorker0, "a")), first);
  EXPECT_EQ(first >> 32, 3u);  // the term
}

TEST_F(MembershipTest, ASecondProcessOfALiveTaskIsRefusedByName) {
  ASSERT_TRUE(membership_.Register(At(0), Process(kWorker0, "a")).ok());
  const absl::Status status = membership_.Register(At(5), Process(kWorker0, "b")).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(status.message()), HasSubstr("worker/0"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("--task_index"));
}

TEST_F(MembershipTest, ABrokenConnectionMakesRoomAndFencesTheOldProcess) {
  const uint64_t old = *membership_.Register(At(0), Process(kWorker0, "a"));
  membership_.Disconnect(At(1), kWorker0, old);
  const uint64_t fresh = *membership_.Register(At(1.1), Process(kWorker0, "b"));
  EXPECT_GT(fresh, old);
  EXPECT_EQ(membership_.Renew(At(1.2), kWorker0, old).code(), absl::StatusCode::kAborted);
  EXPECT_TRUE(membership_.Renew(At(1.2), kWorker0, fresh).ok());
}

TEST_F(MembershipTest, LeasesEndAfterSilenceAndSoonerAfterABrokenConnection) {
  const uint64_t zero = *membership_.Register(At(0), Process(kWorker0, "a"));
  ASSERT_TRUE(membership_.Register(At(0), Process(kWorker1, "b")).ok());
  membership_.Disconnect(At(2), kWorker0, zero);
  EXPECT_THAT(membership_.Expire(At(2.5)), IsEmpty());
  EXPECT_THAT(membership_.Expire(At(3.5)), ElementsAre(kWorker0));
  EXPECT_THAT(membership_.Live(Job::kWorker), ElementsAre(1));
  EXPECT_THAT(membership_.Expire(At(9.9)), IsEmpty());
  EXPECT_THAT(membership_.Expire(At(10.1)), ElementsAre(kWorker1));
}

TEST_F(MembershipTest, ARenewalRepairsABrokenConnection) {
  const uint64_t zero = *membership_.Register(At(0), Process(kWorker0, "a"));
  membership_.Disconnect(At(2), kWorker0, zero);
  ASSERT_TRUE(membership_.Renew(At(2.5), kWorker0, zero).ok());
  EXPECT_THAT(membership_.Expire(At(9)), IsEmpty());
}

TEST_F(MembershipTest, AMemberGetsAWholeLeaseAfterAPauseOfTheChief) {
  const uint64_t zero = *membership_.Register(At(0), Process(kWorker0, "a"));
  membership_.GrantLeases(At(30));
  // Its call had ended while the chief did not answer; it calls again.
  membership_.Disconnect(At(30), kWorker0, zero);
  EXPECT_THAT(membership_.Expire(At(39)), IsEmpty());
  EXPECT_EQ(membership_.Register(At(39), Process(kWorker0, "b")).status().code(),
            absl::StatusCode::kAlreadyExists);
  // The task that waits for the place must not take the grant for a sign of life.
  EXPECT_EQ(membership_.Find(kWorker0)->last_contact, At(0));
  EXPECT_THAT(membership_.Expire(At(40.1)), ElementsAre(kWorker0));
}

TEST_F(MembershipTest, ALateRegistrationOfAProcessGivesItItsOwnPlaceBack) {
  const uint64_t zero = *membership_.Register(At(0), Process(kWorker0, "a"));
  EXPECT_THAT(membership_.Expire(At(11)), ElementsAre(kWorker0));
  EXPECT_EQ(*membership_.Register(At(12), Process(kWorker0, "a")), zero);
  EXPECT_TRUE(membership_.Renew(At(13), kWorker0, zero).ok());
}

TEST_F(MembershipTest, APlaceThatNobodyTookIsGivenBack) {
  const uint64_t zero = *membership_.Register(At(0), Process(kWorker0, "a"));
  const uint64_t one = *membership_.Register(At(0), Process(kWorker1, "b"));
  EXPECT_THAT(membership_.Expire(At(11)), ElementsAre(kWorker0, kWorker1));
  EXPECT_TRUE(membership_.Renew(At(12), kWorker0, zero).ok());
  EXPECT_THAT(membership_.Live(Job::kWorker), ElementsAre(0));
  // Somebody took this one,
  ASSERT_TRUE(membership_.Register(At(12), Process(kWorker1, "c")).ok());
  EXPECT_EQ(membership_.Renew(At(13), kWorker1, one).code(), absl::StatusCode::kAborted);
  // and this one was taken away.
  membership_.TakePlace(kWorker0, "it hangs");
  const absl::Status lost = membership_.Renew(At(13), kWorker0, zero);
  EXPECT_EQ(lost.message(), "fenced incarnation: worker/0 has lost its place: it hangs");
}

}  // namespace
}  // namespace shoal

#include "runtime/rpc/receiver_rules.h"

#include <gtest/gtest.h>

#include "proto/v1/identity.pb.h"

namespace shoal {
namespace {

v1::Identity Worker(uint64_t incarnation, uint64_t term = 3, uint64_t lineage = 0) {
  v1::Identity identity;
  identity.set_run_id("run");
  identity.set_term(term);
  identity.mutable_member()->set_job(v1::JOB_WORKER);
  identity.mutable_member()->set_index(1);
  identity.set_incarnation(incarnation);
  identity.set_lineage(lineage);
  return identity;
}

class ReceiverRulesTest : public testing::Test {
 protected:
  ReceiverRules rules_{"run", 3, 70};
};

TEST_F(ReceiverRulesTest, AnotherRunIsRefusedForGood) {
  v1::Identity identity = Worker(5);
  identity.set_run_id("other");
  EXPECT_EQ(rules_.CheckSender(identity).code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(ReceiverRulesTest, AnOldTermIsFencedAndANewOneRemembered) {
  EXPECT_EQ(rules_.CheckSender(Worker(5, 2)).code(), absl::StatusCode::kAborted);
  EXPECT_TRUE(rules_.CheckSender(Worker(5, 4)).ok());
  const absl::Status status = rules_.CheckSender(Worker(5, 3));
  EXPECT_EQ(status.message().substr(0, 11), "fenced term");
}

TEST_F(ReceiverRulesTest, AReplacedIncarnationIsFenced) {
  EXPECT_TRUE(rules_.CheckSender(Worker(5)).ok());
  EXPECT_TRUE(rules_.CheckSender(Worker(6)).ok());
  const absl::Status status = rules_.CheckSender(Worker(5));
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(status.message().substr(0, 18), "fenced incarnation");
}

TEST_F(ReceiverRulesTest, MembersAreToldApart) {
  EXPECT_TRUE(rules_.CheckSender(Worker(6)).ok());
  v1::Identity other = Worker(5);
  other.mutable_member()->set_index(2);
  EXPECT_TRUE(rules_.CheckSender(other).ok());
  other = Worker(5);
  other.mutable_member()->set_job(v1::JOB_PS);
  EXPECT_TRUE(rules_.CheckSender(other).ok());
}

TEST_F(ReceiverRulesTest, OtherIncarnationOrLineageOfTheReceiverMeansMoved) {
  rules_.set_lineage(9);
  EXPECT_TRUE(rules_.CheckSenderAndLineage(Worker(5, 3, 9), 70).ok());
  for (const absl::Status& status : {rules_.CheckSenderAndLineage(Worker(5, 3, 9), 69),
                                     rules_.CheckSenderAndLineage(Worker(5, 3, 8), 70),
                                     rules_.CheckSenderAndLineage(Worker(5, 3, 10), 70)}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
    EXPECT_EQ(status.message().substr(0, 5), "moved");
  }
}

TEST_F(ReceiverRulesTest, FencingComesBeforeMoved) {
  EXPECT_TRUE(rules_.CheckSender(Worker(6)).ok());
  EXPECT_EQ(rules_.CheckSenderAndLineage(Worker(5, 3, 99), 1).message().substr(0, 6), "fenced");
}

TEST_F(ReceiverRulesTest, ARefusedMessageChangesNothing) {
  EXPECT_FALSE(rules_.CheckSenderAndLineage(Worker(8, 7, 99), 70).ok());
  EXPECT_EQ(rules_.term(), 3u);
  EXPECT_TRUE(rules_.CheckSender(Worker(5)).ok());
}

TEST_F(ReceiverRulesTest, SendersThatNoClusterHasAreInvalid) {
  v1::Identity nobody = Worker(5);
  nobody.mutable_member()->set_job(v1::JOB_UNSPECIFIED);
  EXPECT_EQ(rules_.CheckSender(nobody).code(), absl::StatusCode::kInvalidArgument);
  v1::Identity far = Worker(5);
  far.mutable_member()->set_index(4'000'000'000u);
  EXPECT_EQ(rules_.CheckSender(far).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace shoal

#include "runtime/rpc/receiver_rules.h"

#include <gtest/gtest.h>

#include <string>

#include "proto/v1/identity.pb.h"

namespace shoal {
namespace {

v1::Identity Sender(v1::Job job, uint64_t term, uint64_t lineage) {
  v1::Identity identity;
  identity.set_run_id("run");
  identity.set_term(term);
  identity.mutable_member()->set_job(job);
  identity.set_lineage(lineage);
  return identity;
}

v1::Identity Worker(uint64_t incarnation, uint64_t term = 3, uint64_t lineage = 0) {
  v1::Identity identity = Sender(v1::JOB_WORKER, term, lineage);
  identity.mutable_member()->set_index(1);
  identity.set_incarnation(incarnation);
  return identity;
}

v1::Identity Chief(uint64_t term = 3, uint64_t lineage = 0) {
  return Sender(v1::JOB_CHIEF, term, lineage);
}

std::string FirstWords(const absl::Status& status, size_t letters) {
  return std::string(status.message().substr(0, letters));
}

class ReceiverRulesTest : public testing::Test {
 protected:
  ReceiverRulesTest() { rules_.LearnWorkers({{1, 5}}); }

  ReceiverRules rules_{"run", 3, 70};
};

// A ps of the other run had this address until it died. The other tasks of that run repeat their
// calls until their chief names another address.
TEST_F(ReceiverRulesTest, AnotherRunIsRefusedAndNothingThereEndsByThat) {
  v1::Identity worker = Worker(5);
  worker.set_run_id("other");
  EXPECT_TRUE(absl::IsUnavailable(rules_.CheckExchange(worker)));
  v1::Identity chief = Chief(4);
  chief.set_run_id("other");
  EXPECT_TRUE(absl::IsUnavailable(rules_.CheckCommand(chief)));
  EXPECT_TRUE(absl::IsUnavailable(rules_.CheckCommandAndLineage(chief)));
  EXPECT_EQ(rules_.term(), 3u);
}

TEST_F(ReceiverRulesTest, ACommandRaisesTheTermAndAnOldTermIsFenced) {
  EXPECT_EQ(FirstWords(rules_.CheckExchange(Worker(5, 2)), 11), "fenced term");
  EXPECT_EQ(FirstWords(rules_.CheckCommand(Chief(2)), 11), "fenced term");
  EXPECT_TRUE(rules_.CheckCommand(Chief(4)).ok());
  EXPECT_EQ(rules_.term(), 4u);
  EXPECT_EQ(FirstWords(rules_.CheckExchange(Worker(5, 3)), 11), "fenced term");
  EXPECT_TRUE(absl::IsAborted(rules_.CheckCommand(Chief(3))));
}

TEST_F(ReceiverRulesTest, AnExchangeOfAnUnknownTermIsRetriedAndRaisesNothing) {
  EXPECT_TRUE(absl::IsUnavailable(rules_.CheckExchange(Worker(5, uint64_t{1} << 40))));
  EXPECT_EQ(rules_.term(), 3u);
  EXPECT_TRUE(rules_.CheckExchange(Worker(5)).ok());
}

TEST_F(ReceiverRulesTest, AnIncarnationThatTheChiefHasNotAnnouncedIsRetriedAndFencesNoTask) {
  EXPECT_TRUE(absl::IsUnavailable(rules_.CheckExchange(Worker(6))));
  EXPECT_TRUE(rules_.CheckExchange(Worker(5)).ok());
  v1::Identity stranger = Worker(1);
  stranger.mutable_member()->set_index(60000);
  EXPECT_TRUE(absl::IsUnavailable(rules_.CheckExchange(stranger)));
  rules_.LearnWorkers({{1, 6}});
  EXPECT_TRUE(rules_.CheckExchange(Worker(6)).ok());
}

TEST_F(ReceiverRulesTest, AReplacedIncarnationIsFenced) {
  rules_.LearnWorkers({{1, 6}});
  const absl::Status status = rules_.CheckExchange(Worker(5));
  EXPECT_TRUE(absl::IsAborted(status));
  EXPECT_EQ(FirstWords(status, 18), "fenced incarnation");
}

TEST_F(ReceiverRulesTest, AWorkerThatLeftTheViewKeepsItsIncarnation) {
  rules_.LearnWorkers({});
  EXPECT_TRUE(rules_.CheckExchange(Worker(5)).ok());
}

TEST_F(ReceiverRulesTest, OnlyWorkersExchangeAndOnlyTheChiefCommands) {
  v1::Identity ps = Worker(5);
  ps.mutable_member()->set_job(v1::JOB_PS);
  for (const v1::Identity& sender : {Chief(), ps}) {
    EXPECT_TRUE(absl::IsPermissionDenied(rules_.CheckExchange(sender)));
  }
  for (const v1::Identity& sender : {Worker(5, 9), ps}) {
    EXPECT_TRUE(absl::IsPermissionDenied(rules_.CheckCommand(sender)));
  }
  EXPECT_EQ(rules_.term(), 3u);
}

TEST_F(ReceiverRulesTest, OtherIncarnationOrLineageOfTheReceiverMeansMoved) {
  rules_.set_lineage(9);
  EXPECT_TRUE(rules_.CheckExchangeAndLineage(Worker(5, 3, 9), 70).ok());
  EXPECT_TRUE(rules_.CheckCommandAndLineage(Chief(3, 9)).ok());
  for (const absl::Status& status : {rules_.CheckExchangeAndLineage(Worker(5, 3, 9), 69),
                                     rules_.CheckExchangeAndLineage(Worker(5, 3, 8), 70),
                                     rules_.CheckExchangeAndLineage(Worker(5, 3, 10), 70),
                                     rules_.CheckCommandAndLineage(Chief(3, 8))}) {
    EXPECT_TRUE(absl::IsAborted(status));
    EXPECT_EQ(FirstWords(status, 5), "moved");
  }
}

TEST_F(ReceiverRulesTest, FencingComesBeforeMoved) {
  EXPECT_EQ(FirstWords(rules_.CheckExchangeAndLineage(Worker(4, 3, 99), 1), 6), "fenced");
}

TEST_F(ReceiverRulesTest, ARefusedCommandChangesNothing) {
  EXPECT_FALSE(rules_.CheckCommandAndLineage(Chief(7, 99)).ok());
  EXPECT_EQ(rules_.term(), 3u);
}

TEST_F(ReceiverRulesTest, SendersThatNoClusterHasAreInvalid) {
  v1::Identity nobody = Worker(5);
  nobody.mutable_member()->set_job(v1::JOB_UNSPECIFIED);
  EXPECT_TRUE(absl::IsInvalidArgument(rules_.CheckExchange(nobody)));
  v1::Identity far = Worker(5);
  far.mutable_member()->set_index(4'000'000'000u);
  EXPECT_TRUE(absl::IsInvalidArgument(rules_.CheckExchange(far)));
}

}  // namespace
}  // namespace shoal

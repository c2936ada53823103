#include "chief/ledgers/issued_incarnations.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;

const TaskId kWorker{Job::kWorker, 1};
const BatchKey kBatch{0, 7};

TEST(IssuedIncarnationsTest, KnowsAnIncarnationOnlyOfTheTaskThatGotIt) {
  IssuedIncarnations issued;
  issued.Issue(kWorker, 5);
  issued.Issue(kWorker, 5);  // repeated
  EXPECT_TRUE(issued.Check(kWorker, 5).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(issued.Check(kWorker, 6)));
  EXPECT_TRUE(absl::IsInvalidArgument(issued.Check(TaskId{Job::kWorker, 2}, 5)));
  EXPECT_TRUE(absl::IsInvalidArgument(issued.Check(TaskId{Job::kPs, 1}, 5)));
}

TEST(IssuedIncarnationsTest, KeepsTheNewestIncarnationsOfEachTask) {
  IssuedIncarnations issued;
  const TaskId other{Job::kWorker, 2};
  issued.Issue(other, 1);
  for (uint64_t i = 0; i <= IssuedIncarnations::kKept; ++i) issued.Issue(kWorker, 100 + i);
  EXPECT_TRUE(absl::IsInvalidArgument(issued.Check(kWorker, 100)));
  EXPECT_TRUE(issued.Check(kWorker, 101).ok());
  EXPECT_TRUE(issued.Check(kWorker, 100 + IssuedIncarnations::kKept).ok());
  EXPECT_TRUE(issued.Check(other, 1).ok());
}

TEST(IssuedIncarnationsTest, AnIncarnationDiesOfOneBatchAtMost) {
  IssuedIncarnations issued;
  issued.Issue(kWorker, 5);
  EXPECT_TRUE(issued.RecordDeath(kWorker, 5, kBatch).ok());
  EXPECT_TRUE(issued.RecordDeath(kWorker, 5, kBatch).ok()) << "repeated";
  const absl::Status second = issued.RecordDeath(kWorker, 5, BatchKey{1, 3});
  EXPECT_TRUE(absl::IsInvalidArgument(second));
  EXPECT_THAT(second.message(), HasSubstr("has died of batch 7 of epoch 1 already"));
  EXPECT_TRUE(absl::IsInvalidArgument(issued.RecordDeath(kWorker, 6, kBatch))) << "not issued";
}

}  // namespace
}  // namespace shoal

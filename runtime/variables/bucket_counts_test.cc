// Tests what a bucket keeps in memory: cuts of it, and counts of keys that are not admitted yet.
#include <cstdint>
#include <memory>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "runtime/tables/bucket_rows.h"
#include "runtime/tables/row_slabs.h"
#include "runtime/tables/stored_rows.h"
#include "runtime/variables/bucket_testing.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;

TEST_F(BucketTest, ACutKeepsOnlyTheRowsThatChange) {
  Make(BucketOptions(OptimizerKind::kAdagrad));
  const Contribution many = RandomContribution(100000, 20000);
  PushOne(0, many, bucket_.get());
  const BucketRows before = bucket_->Save();
  const std::shared_ptr<BucketCut> cut = bucket_->Cut();
  EXPECT_EQ(bucket_->rows().bytes_of_cuts(), 0u);
  Contribution few;
  few.keys.assign(many.keys.begin(), many.keys.begin() + 50);
  few.gradients.assign(few.keys.size() * kBucketDim, 1);
  uint64_t bytes = 0;
  for (uint64_t step = 1; step < 6; ++step) {
    PushOne(step, few, bucket_.get());
    if (step == 1) bytes = bucket_->rows().bytes_of_cuts();
  }
  EXPECT_GT(bytes, 50 * updater_->row_floats() * sizeof(float));
  EXPECT_LT(bytes, 400 * updater_->row_floats() * sizeof(float));
  EXPECT_EQ(bucket_->rows().bytes_of_cuts(), bytes);
  ExpectSame(cut->ReadAll(), before);
  EXPECT_EQ(bucket_->Cut()->Select(1).rows.size(), 50u);
  cut->Release();
  EXPECT_EQ(bucket_->rows().bytes_of_cuts(), 0u);
}

TEST_F(BucketTest, ACutOutlivesItsBucketAndAnotherLoad) {
  Make(BucketOptions(OptimizerKind::kSgd));
  PushOne(0, RandomContribution(3000, 1500), bucket_.get());
  const BucketRows before = bucket_->Save();
  const std::shared_ptr<BucketCut> cut = bucket_->Cut();
  const uint64_t bytes = pool_->bytes();
  ASSERT_OK(bucket_->Load(0, BucketRows(), 1));
  PushOne(0, RandomContribution(3000, 1500), bucket_.get());
  ExpectSame(cut->ReadAll(), before);
  bucket_.reset();
  ExpectSame(cut->ReadAll(), before);
  EXPECT_LE(pool_->bytes(), 2 * bytes);
}

TEST_F(BucketTest, AReleasedCutKeepsNoMemory) {
  Make(BucketOptions(OptimizerKind::kSgd));
  PushOne(0, RandomContribution(3000, 1500), bucket_.get());
  const std::shared_ptr<BucketCut> cut = bucket_->Cut();
  const std::weak_ptr<SlabPool> pool = pool_;
  bucket_.reset();
  pool_.reset();
  EXPECT_FALSE(pool.expired());
  cut->Release();
  EXPECT_TRUE(pool.expired());
  cut->Release();
}

// A stream of keys that hardly ever come again, most of which are never admitted.
TEST_F(BucketTest, CountsThatAreIdleTakeNoMemory) {
  TableOptions options = BucketOptions(OptimizerKind::kAdagrad);
  options.min_count = 3;
  options.idle_updates = 5;
  Make(options);
  const uint64_t bytes = PushNewKeys();
  EXPECT_EQ(bucket_->rows().num_rows(), 0u);
  EXPECT_LE(bucket_->rows().bytes(), 2 * bytes);
  EXPECT_EQ(bucket_->Save().counted_keys.size(), 600u);
}

TEST_F(BucketTest, ACountThatIsIdleBeginsAnew) {
  TableOptions options = BucketOptions(OptimizerKind::kAdagrad);
  options.min_count = 3;
  options.idle_updates = 2;
  Make(options);
  const Contribution key{{7}, std::vector<float>(kBucketDim, 1), 1};
  for (uint64_t step = 0; step < 2; ++step) PushOne(step, key, bucket_.get());
  EXPECT_THAT(bucket_->Save().counts, ElementsAre(2));
  EXPECT_THAT(bucket_->Save().counted_touched, ElementsAre(2));
  const std::shared_ptr<BucketCut> cut = bucket_->Cut();
  for (uint64_t step = 2; step < 5; ++step) PushOne(step, Contribution(), bucket_.get());
  EXPECT_TRUE(bucket_->Save().counts.empty());
  EXPECT_THAT(cut->ReadAll().counts, ElementsAre(2));
  EXPECT_EQ(cut->Select(1).counted.size(), 1u);
  EXPECT_EQ(cut->Select(2).counted.size(), 0u);
  for (uint64_t step = 5; step < 7; ++step) PushOne(step, key, bucket_.get());
  EXPECT_THAT(bucket_->Save().counts, ElementsAre(2));
  EXPECT_EQ(bucket_->rows().num_rows(), 0u);
  PushOne(7, key, bucket_.get());
  EXPECT_EQ(bucket_->rows().num_rows(), 1u);
  EXPECT_TRUE(bucket_->Save().counts.empty());
  EXPECT_THAT(cut->ReadAll().counts, ElementsAre(2));
}

TEST_F(BucketTest, ABucketWithoutRowsTakesNoMemory) {
  Make(BucketOptions(OptimizerKind::kAdagrad));
  PushOne(0, Contribution(), bucket_.get());
  EXPECT_EQ(bucket_->rows().bytes(), 0u);
  EXPECT_EQ(pool_->bytes(), 0u);
  const Contribution key{{7}, std::vector<float>(kBucketDim, 1), 1};
  for (uint64_t step = 1; step < 4; ++step) PushOne(step, key, bucket_.get());
  EXPECT_LE(bucket_->rows().bytes(), 2048u);
}

// The rows stay; the sums and undo lists of 20000 of them do not.
TEST_F(BucketTest, ALargeStepLeavesNoMemoryForSumsBehind) {
  Make(BucketOptions(OptimizerKind::kAdagrad));
  const Contribution few = RandomContribution(100000, 50);
  PushOne(0, few, bucket_.get());
  PushOne(1, RandomContribution(100000, 20000), bucket_.get());
  const uint64_t bytes = bucket_->rows().bytes();
  PushOne(2, few, bucket_.get());
  EXPECT_GE(bucket_->rows().bytes(), bytes / 2) << "steps of this size may still be usual";
  for (uint64_t step = 3; step < 150; ++step) PushOne(step, few, bucket_.get());
  EXPECT_GE(bucket_->rows().num_rows(), 20000u);
  EXPECT_LE(bucket_->rows().bytes(), 20000u * 16 * 2 + 50000u);
  const BucketRows before = bucket_->Save();
  ASSERT_OK(bucket_->Load(150, before, 1));
  ExpectSame(bucket_->Save(), before);
}

}  // namespace
}  // namespace shoal

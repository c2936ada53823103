#include "ml/data/batch_plan.h"

#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

BatchPlanOptions Options() {
  BatchPlanOptions options;
  options.num_examples = 103;
  options.batch_size = 5;
  options.num_clones = 4;
  options.seed = 42;
  return options;
}

std::vector<int64_t> Epoch(const BatchPlan& plan, uint32_t epoch) {
  std::vector<int64_t> all;
  for (int64_t index = 0; index < plan.batches_per_epoch(); ++index) {
    std::vector<int64_t> batch(static_cast<size_t>(plan.num_examples(index)));
    plan.FillIndices(epoch, index, absl::MakeSpan(batch));
    all.insert(all.end(), batch.begin(), batch.end());
  }
  return all;
}

TEST(BatchPlanTest, AnEpochHasEveryExampleOnce) {
  const BatchPlan plan = BatchPlan::Create(Options()).value();
  for (uint32_t epoch : {0u, 1u, 77u}) {
    const auto all = Epoch(plan, epoch);
    EXPECT_EQ(all.size(), 103u);
    EXPECT_EQ(std::set<int64_t>(all.begin(), all.end()).size(), 103u);
  }
}

TEST(BatchPlanTest, TheLastBatchIsWhatIsLeft) {
  const BatchPlan plan = BatchPlan::Create(Options()).value();
  EXPECT_EQ(plan.batch_examples(), 20);
  EXPECT_EQ(plan.batches_per_epoch(), 6);
  EXPECT_EQ(plan.num_examples(0), 20);
  EXPECT_EQ(plan.num_examples(5), 3);
  EXPECT_EQ(plan.num_examples(6), 0);
  EXPECT_EQ(plan.first_example(5), 100);
}

TEST(BatchPlanTest, SeedAndEpochDecideTheOrder) {
  const BatchPlan plan = BatchPlan::Create(Options()).value();
  EXPECT_EQ(Epoch(plan, 3), Epoch(BatchPlan::Create(Options()).value(), 3));
  EXPECT_NE(Epoch(plan, 3), Epoch(plan, 4));
  BatchPlanOptions other = Options();
  other.seed = 43;
  EXPECT_NE(Epoch(plan, 3), Epoch(BatchPlan::Create(other).value(), 3));
}

TEST(BatchPlanTest, ClonesTimesBatchSizeIsWhatCounts) {
  BatchPlanOptions other = Options();
  other.batch_size = 20;
  other.num_clones = 1;
  EXPECT_EQ(Epoch(BatchPlan::Create(Options()).value(), 1),
            Epoch(BatchPlan::Create(other).value(), 1));
}

TEST(BatchPlanTest, WithoutShuffleTheOrderIsTheDataSets) {
  BatchPlanOptions options = Options();
  options.shuffle = false;
  const BatchPlan plan = BatchPlan::Create(options).value();
  std::vector<int64_t> last(3);
  plan.FillIndices(9, 5, absl::MakeSpan(last));
  EXPECT_THAT(last, ElementsAre(100, 101, 102));
}

TEST(BatchPlanTest, ErrorsNameTheField) {
  BatchPlanOptions options = Options();
  options.batch_size = 0;
  EXPECT_THAT(std::string(BatchPlan::Create(options).status().message()),
              HasSubstr("batch_size is 0"));
  options = Options();
  options.num_clones = -1;
  EXPECT_THAT(std::string(BatchPlan::Create(options).status().message()),
              HasSubstr("num_clones is -1"));
  options.batch_size = options.num_clones = int64_t{1} << 40;
  EXPECT_FALSE(BatchPlan::Create(options).ok());
}

}  // namespace
}  // namespace shoal

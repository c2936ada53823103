#include "worker/replica/batch_feeds.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "ml/graph/graph.h"
#include "ml/graph/graph_builder.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;

// Two clones of a model with a dense field, a ragged one and a weighted one.
class BatchFeedsTest : public testing::Test {
 protected:
  BatchFeedsTest() {
    GraphBuilder builder(&graph_);
    for (int clone = 0; clone < 2; ++clone) queue_.Dequeue(builder);
    EXPECT_TRUE(builder.status().ok()) << builder.status();
    batch_.num_examples = 5;
    batch_.fields = {numbers_.data(), &keys_, &weighted_};
    for (int64_t i = 0; i < 5; ++i) {
      for (int64_t k = 0; k < i; ++k) keys_.AddKey(10 * i + k);
      keys_.EndExample();
      weighted_.AddExample({i}, {0.5f});
    }
  }

  template <typename T>
  static std::vector<T> Values(const void* feed, size_t count) {
    const T* values = static_cast<const T*>(feed);
    return std::vector<T>(values, values + count);
  }

  Graph graph_;
  InputQueue queue_{{{"number", {DataType::kFloat32, {2}}},
                     RaggedField("keys"),
                     RaggedField("weighted", FieldKind::kWeightedRagged)}};
  std::vector<float> numbers_ = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  RaggedRows keys_, weighted_{/*has_weights=*/true};
  LoadedBatch batch_;
};

TEST_F(BatchFeedsTest, PlaceholdersAreNamedAfterTheFieldAndFoundByItsName) {
  const std::vector<Output>& clone = queue_.batches()[0];
  EXPECT_EQ(clone[0].name(), "batch/number");
  const FieldPlaceholders weighted = FindField(queue_.fields(), clone, "weighted");
  EXPECT_FALSE(weighted.values.valid());
  EXPECT_EQ(weighted.keys.name(), "batch/weighted/keys");
  EXPECT_EQ(weighted.offsets.name(), "batch/weighted/offsets");
  EXPECT_EQ(weighted.weights.name(), "batch/weighted/weights");
  EXPECT_FALSE(FindField(queue_.fields(), clone, "keys").weights.valid());
  EXPECT_TRUE(FindField(queue_.fields(), clone, "number").values.valid());
  EXPECT_FALSE(FindField(queue_.fields(), clone, "other").values.valid());
}

TEST_F(BatchFeedsTest, EachCloneGetsItsExamplesWithOffsetsFromZero) {
  BatchFeeds feeds(queue_, {3, 2}, {0, 8, 4});
  ASSERT_EQ(feeds.feeds().size(), 12u);
  EXPECT_EQ(feeds.feeds()[1].shape, Shape({8}));
  EXPECT_EQ(feeds.feeds()[2].shape, Shape({4}));
  EXPECT_EQ(feeds.feeds()[8].shape, Shape({3}));
  ASSERT_TRUE(feeds.Fits(batch_));
  const std::vector<const void*>& inputs = feeds.Bind(batch_);
  EXPECT_EQ(inputs[0], &numbers_[0]);
  EXPECT_THAT(Values<int64_t>(inputs[1], 8), ElementsAre(10, 20, 21, 0, 0, 0, 0, 0));
  EXPECT_THAT(Values<int64_t>(inputs[2], 4), ElementsAre(0, 0, 1, 3));
  EXPECT_EQ(inputs[6], &numbers_[6]);
  EXPECT_THAT(Values<int64_t>(inputs[7], 8), ElementsAre(30, 31, 32, 40, 41, 42, 43, 0));
  EXPECT_THAT(Values<int64_t>(inputs[8], 3), ElementsAre(0, 3, 7));
  EXPECT_THAT(Values<int64_t>(inputs[9], 4), ElementsAre(3, 4, 0, 0));
  EXPECT_THAT(Values<float>(inputs[11], 4), ElementsAre(0.5f, 0.5f, 0, 0));
}

TEST_F(BatchFeedsTest, ACloneWithoutExamplesHasNoFeeds) {
  EXPECT_EQ(BatchFeeds(queue_, {5, 0}, {0, 16, 8}).feeds().size(), 6u);
}

TEST_F(BatchFeedsTest, CapacitiesGrowToPowersOfTwoAndNeverShrink) {
  const std::vector<int64_t> first = FirstCapacities(queue_.fields(), {3, 2});
  EXPECT_THAT(first, ElementsAre(0, 3, 3));
  BatchFeeds feeds(queue_, {3, 2}, first);
  EXPECT_FALSE(feeds.Fits(batch_));
  EXPECT_THAT(feeds.CapacitiesFor(batch_), ElementsAre(0, 8, 3));
  BatchFeeds large(queue_, {3, 2}, {0, 32, 32});
  EXPECT_TRUE(large.Fits(batch_));
  EXPECT_THAT(large.CapacitiesFor(batch_), ElementsAre(0, 32, 32));
}

}  // namespace
}  // namespace shoal

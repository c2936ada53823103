#include "ml/data/in_memory_dataset.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<InMemoryDataset::Field> ThreeExamples(float first) {
  return {{kInputField, Tensor::Of<float>({3, 2}, {first, 1, 2, 3, 4, 5})},
          {kLabelField, Tensor::Of<int32_t>({3}, {7, 8, 9})}};
}

TEST(InMemoryDatasetTest, FillsABatchInTheOrderOfTheIndices) {
  const auto dataset = InMemoryDataset::Create(ThreeExamples(0)).value();
  EXPECT_EQ(dataset->size(), 3);
  EXPECT_EQ(dataset->fields()[0].example.shape, Shape({2}));
  EXPECT_EQ(dataset->fields()[1].example.shape, Shape());
  float inputs[6];
  int32_t labels[3];
  ASSERT_TRUE(dataset->FillBatch(0, {2, 0, 2}, {inputs, labels}).ok());
  EXPECT_THAT(inputs, ElementsAre(4, 5, 0, 1, 4, 5));
  EXPECT_THAT(labels, ElementsAre(9, 7, 9));
}

TEST(InMemoryDatasetTest, ARaggedFieldGivesTheKeysAndWeightsOfItsExamples) {
  RaggedRows items, rated(/*has_weights=*/true);
  items.AddExample({7, 8});
  items.AddExample({});
  items.AddExample({9});
  rated.AddExample({1}, {0.5f});
  rated.AddExample({2, 3}, {2, 4});
  rated.AddExample({}, {});
  std::vector<InMemoryDataset::Field> fields = ThreeExamples(0);
  fields.push_back({"item", {}, items});
  fields.push_back({"rated", {}, rated});
  fields.push_back({"click", Tensor::Of<float>({3}, {0, 1, 1})});
  fields.back().is_target = true;
  const auto dataset = InMemoryDataset::Create(fields).value();
  EXPECT_EQ(dataset->fields()[2].kind, FieldKind::kRagged);
  EXPECT_EQ(dataset->fields()[3].kind, FieldKind::kWeightedRagged);
  EXPECT_FALSE(IsTarget(dataset->fields()[0]));
  EXPECT_TRUE(IsTarget(dataset->fields()[1])) << "by its name";
  EXPECT_TRUE(IsTarget(dataset->fields()[4]));
  float inputs[6], clicks[3];
  int32_t labels[3];
  RaggedRows out, out_rated(true);
  ASSERT_TRUE(dataset->FillBatch(0, {2, 0, 1}, {inputs, labels, &out, &out_rated, clicks}).ok());
  EXPECT_THAT(out.keys(), ElementsAre(9, 7, 8));
  EXPECT_THAT(out.offsets(), ElementsAre(0, 1, 3, 3));
  EXPECT_THAT(out_rated.keys(), ElementsAre(1, 2, 3));
  EXPECT_THAT(out_rated.weights(), ElementsAre(0.5f, 2, 4));
  EXPECT_THAT(clicks, ElementsAre(1, 0, 1));
  rated.Clear();
  rated.AddExample({1}, {0.5f});
  rated.AddExample({2, 3}, {2, 5});
  rated.AddExample({}, {});
  fields[3].ragged = rated;
  EXPECT_NE(InMemoryDataset::Create(fields).value()->fingerprint(), dataset->fingerprint());
}

TEST(InMemoryDatasetTest, FingerprintFollowsTheContent) {
  const uint64_t fingerprint = InMemoryDataset::Create(ThreeExamples(0)).value()->fingerprint();
  EXPECT_EQ(InMemoryDataset::Create(ThreeExamples(0)).value()->fingerprint(), fingerprint);
  EXPECT_NE(InMemoryDataset::Create(ThreeExamples(1)).value()->fingerprint(), fingerprint);
}

TEST(InMemoryDatasetTest, FieldsMustHaveAsManyExamples) {
  auto fields = ThreeExamples(0);
  fields.push_back({"weight", Tensor::Of<float>({2}, {1, 2})});
  EXPECT_THAT(std::string(InMemoryDataset::Create(fields).status().message()),
              HasSubstr("field weight has 2 examples, field input has 3"));
  RaggedRows two;
  two.AddExample({1});
  two.AddExample({});
  fields.back() = {"item", {}, two};
  EXPECT_THAT(std::string(InMemoryDataset::Create(fields).status().message()),
              HasSubstr("field item has 2 examples, field input has 3"));
  fields.back() = fields[0];
  EXPECT_THAT(std::string(InMemoryDataset::Create(fields).status().message()),
              HasSubstr("two fields named input"));
  EXPECT_FALSE(InMemoryDataset::Create({}).ok());
  EXPECT_FALSE(InMemoryDataset::Create({{"x", Tensor::Of<float>({}, {1})}}).ok());
}

}  // namespace
}  // namespace shoal

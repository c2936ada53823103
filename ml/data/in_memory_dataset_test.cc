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
  EXPECT_FALSE(InMemoryDataset::Create({}).ok());
  EXPECT_FALSE(InMemoryDataset::Create({{"x", Tensor::Of<float>({}, {1})}}).ok());
}

}  // namespace
}  // namespace shoal

#include "ml/data/synthetic_dataset.h"

#include <cmath>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace shoal {
namespace {

SyntheticOptions Small() {
  SyntheticOptions options;
  options.examples = 30;
  options.features = 8;
  options.classes = 3;
  return options;
}

TEST(SyntheticRegressionTest, TargetIsTwiceTheInputPlusOne) {
  const auto dataset = MakeSyntheticRegression(Small()).value();
  EXPECT_EQ(dataset->size(), 30);
  EXPECT_EQ(dataset->fields()[1].example.shape, Shape({8}));
  std::vector<float> x(16), y(16);
  ASSERT_TRUE(dataset->FillBatch(0, {3, 29}, {x.data(), y.data()}).ok());
  for (size_t i = 0; i < x.size(); ++i) {
    EXPECT_GE(x[i], 0);
    EXPECT_LT(x[i], 1);
    EXPECT_EQ(y[i], 2 * x[i] + 1);
  }
}

TEST(SyntheticRegressionTest, ATargetOfOneColumnIsOfTheFirstInput) {
  SyntheticOptions options = Small();
  options.target_columns = 1;
  const auto dataset = MakeSyntheticRegression(options).value();
  std::vector<float> x(8), y(1);
  ASSERT_TRUE(dataset->FillBatch(0, {7}, {x.data(), y.data()}).ok());
  EXPECT_EQ(y[0], 2 * x[0] + 1);
  options.target_columns = 9;
  EXPECT_FALSE(MakeSyntheticRegression(options).ok());
}

TEST(SyntheticRegressionTest, TheSeedDecidesTheExamples) {
  SyntheticOptions options = Small();
  const uint64_t fingerprint = MakeSyntheticRegression(options).value()->fingerprint();
  EXPECT_EQ(MakeSyntheticRegression(options).value()->fingerprint(), fingerprint);
  options.seed = 2;
  EXPECT_NE(MakeSyntheticRegression(options).value()->fingerprint(), fingerprint);
}

TEST(SyntheticClassificationTest, ExamplesOfAClassAreNearEachOther) {
  const auto dataset = MakeSyntheticClassification(Small()).value();
  std::vector<float> x(30 * 8);
  std::vector<int32_t> labels(30);
  std::vector<int64_t> all(30);
  for (int64_t i = 0; i < 30; ++i) all[static_cast<size_t>(i)] = i;
  ASSERT_TRUE(dataset->FillBatch(0, all, {x.data(), labels.data()}).ok());
  for (size_t i = 0; i < 30; ++i) {
    EXPECT_EQ(labels[i], static_cast<int32_t>(i % 3));
    for (size_t j = 0; j < 8; ++j) EXPECT_LE(std::fabs(x[i * 8 + j] - x[i % 3 * 8 + j]), 1);
  }
}

TEST(SyntheticDatasetTest, SizesArePositiveAndFitMemory) {
  SyntheticOptions options = Small();
  options.examples = 0;
  EXPECT_EQ(MakeSyntheticRegression(options).status(),
            absl::InvalidArgumentError("synthetic data field examples is 0: it must be >= 1"));
  options = Small();
  options.classes = 0;
  EXPECT_EQ(MakeSyntheticClassification(options).status(),
            absl::InvalidArgumentError("synthetic data field classes is 0: it must be >= 1"));
  options = Small();
  options.features = int64_t{1} << 40;
  const absl::Status too_many = MakeSyntheticClassification(options).status();
  EXPECT_EQ(too_many.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(too_many.message()),
              testing::HasSubstr("examples 30 x features 1099511627776 are too many for memory"));
}

}  // namespace
}  // namespace shoal

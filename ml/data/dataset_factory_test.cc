#include "ml/data/dataset_factory.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "proto/v1/data_config.pb.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;

TEST(DatasetFactoryTest, TheDefaultIsFashionMnist) {
  v1::DataConfig config;
  config.set_test_examples(1000);
  EXPECT_EQ(MakeDataset(config, DataSplit::kTest, 1).value()->size(), 1000);
}

TEST(DatasetFactoryTest, AMissingDirectoryIsNamed) {
  v1::DataConfig config;
  config.set_directory("/nowhere");
  EXPECT_THAT(std::string(MakeDataset(config, DataSplit::kTrain, 1).status().message()),
              HasSubstr("data.directory: cannot list /nowhere"));
  config.set_format(v1::DataConfig::FORMAT_IDX);
  EXPECT_THAT(std::string(MakeDataset(config, DataSplit::kTrain, 1).status().message()),
              HasSubstr("/nowhere/train-images-idx3-ubyte.gz: No such file"));
}

TEST(DatasetFactoryTest, SyntheticSplitsShareTheirClassesButNoExamples) {
  v1::DataConfig config;
  config.set_format(v1::DataConfig::FORMAT_SYNTHETIC_CLASSIFICATION);
  config.set_train_examples(20);
  config.set_test_examples(10);
  config.set_features(4);
  const auto train = MakeDataset(config, DataSplit::kTrain, 5).value();
  const auto test = MakeDataset(config, DataSplit::kTest, 5).value();
  EXPECT_EQ(train->size(), 20);
  EXPECT_EQ(test->size(), 10);
  float a[4], b[4];
  int32_t label = 0;
  ASSERT_TRUE(train->FillBatch(0, {3}, {a, &label}).ok());
  EXPECT_EQ(label, 3);
  ASSERT_TRUE(test->FillBatch(0, {3}, {b, &label}).ok());
  EXPECT_EQ(label, 3);
  for (int j = 0; j < 4; ++j) {
    EXPECT_NE(a[j], b[j]);
    EXPECT_NEAR(a[j], b[j], 1);
  }
}

TEST(DatasetFactoryTest, RegressionHasTargets) {
  v1::DataConfig config;
  config.set_format(v1::DataConfig::FORMAT_SYNTHETIC_REGRESSION);
  config.set_train_examples(5);
  config.set_target_columns(1);
  const auto train = MakeDataset(config, DataSplit::kTrain, 5).value();
  EXPECT_EQ(train->fields()[0].example.ToString(), "float32[600]");
  EXPECT_EQ(train->fields()[1].example.ToString(), "float32[1]");
}

}  // namespace
}  // namespace shoal

#include "runtime/config/field_path.h"

#include <cstdint>
#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "proto/v1/run_config.pb.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;

absl::Status Set(absl::string_view path, absl::string_view value, v1::RunConfig* run) {
  return SetField("--set", path, value, run);
}

TEST(FieldPathTest, SetsScalarsOfEveryKind) {
  v1::RunConfig run;
  ASSERT_TRUE(Set("batch_size", "32", &run).ok());
  ASSERT_TRUE(Set("max_steps", "5000000000", &run).ok());
  ASSERT_TRUE(Set("sync.max_staleness", "-1", &run).ok());
  ASSERT_TRUE(Set("optimizer.adam.beta1", "0.8", &run).ok());
  ASSERT_TRUE(Set("sync.sync_replicas", "false", &run).ok());
  ASSERT_TRUE(Set("data.directory", "a b=c", &run).ok());
  EXPECT_EQ(run.batch_size(), 32u);
  EXPECT_EQ(run.max_steps(), 5000000000u);
  EXPECT_EQ(run.sync().max_staleness(), -1);
  EXPECT_EQ(run.optimizer().adam().beta1(), 0.8);
  EXPECT_TRUE(run.sync().has_sync_replicas());
  EXPECT_FALSE(run.sync().sync_replicas());
  EXPECT_EQ(run.data().directory(), "a b=c");
}

TEST(FieldPathTest, EnumsTakeFullAndShortNames) {
  v1::RunConfig run;
  ASSERT_TRUE(Set("data.format", "synthetic_regression", &run).ok());
  EXPECT_EQ(run.data().format(), v1::DataConfig::FORMAT_SYNTHETIC_REGRESSION);
  ASSERT_TRUE(Set("data.format", "FORMAT_IDX", &run).ok());
  EXPECT_EQ(run.data().format(), v1::DataConfig::FORMAT_IDX);
  EXPECT_THAT(
      Set("data.format", "xml", &run).message(),
      HasSubstr("one of idx, synthetic_regression, synthetic_classification, image_folder"));
}

TEST(FieldPathTest, ListsAreReplaced) {
  v1::RunConfig run;
  ASSERT_TRUE(Set("optimizer.schedule.boundary", "10, 20", &run).ok());
  ASSERT_TRUE(Set("optimizer.schedule.boundary", "30", &run).ok());
  ASSERT_EQ(run.optimizer().schedule().boundary_size(), 1);
  EXPECT_EQ(run.optimizer().schedule().boundary(0), 30u);
}

TEST(FieldPathTest, ElementsOfAListAreChosenByIndex) {
  v1::RunConfig run;
  run.mutable_model()->add_layer()->mutable_dense()->set_units(3);
  ASSERT_TRUE(Set("model.layer[0].dense.units", "7", &run).ok());
  EXPECT_EQ(run.model().layer(0).dense().units(), 7u);
  EXPECT_THAT(Set("model.layer[1].dense.units", "7", &run).message(),
              HasSubstr("layer is a list of 1"));
  EXPECT_THAT(Set("model.layer.dense.units", "7", &run).message(), HasSubstr("layer[0]"));
}

TEST(FieldPathTest, AMessageIsSelectedByAnEmptyValue) {
  v1::RunConfig run;
  ASSERT_TRUE(Set("optimizer.sgd", "", &run).ok());
  EXPECT_TRUE(run.optimizer().has_sgd());
  ASSERT_TRUE(Set("optimizer.adam", "beta1: 0.5 beta2: 0.6", &run).ok());
  EXPECT_EQ(run.optimizer().adam().beta2(), 0.6);
}

TEST(FieldPathTest, TheTextOfAMessageIsMerged) {
  v1::RunConfig run;
  run.mutable_model()->set_loss("hinge");
  run.mutable_model()->add_layer();
  ASSERT_TRUE(Set("model", "loss: '' layer { dense { activation: RELU } }", &run).ok());
  EXPECT_EQ(run.model().loss(), "");
  ASSERT_EQ(run.model().layer_size(), 2);
  EXPECT_EQ(run.model().layer(1).dense().activation(), v1::ACTIVATION_KIND_RELU);
}

TEST(FieldPathTest, WholeNumbersOfEverySizeAreSet) {
  v1::RunConfig run;
  run.mutable_model()->add_layer();
  ASSERT_TRUE(Set("model.layer[0].concat.axis", "-2", &run).ok());
  EXPECT_EQ(run.model().layer(0).concat().axis(), -2);
  EXPECT_THAT(Set("model.layer[0].concat.axis", "2147483648", &run).message(),
              HasSubstr("a whole number of at most 32 bits is wanted"));
  ASSERT_TRUE(Set("sync.max_staleness", "-9223372036854775808", &run).ok());
  EXPECT_EQ(run.sync().max_staleness(), std::numeric_limits<int64_t>::min());
}

TEST(FieldPathTest, ErrorsInTheTextOfAMessageNameItsField) {
  v1::RunConfig run;
  EXPECT_EQ(Set("model", "layer { batch_norm { sync_clone: true } }", &run).message(),
            "--set model: BatchNormLayer has no field \"sync_clone\"; did you mean sync_clones?");
  EXPECT_EQ(Set("model", "layer { batch_norm { sync_clones: maybe } }", &run).message(),
            "--set model: sync_clones: true or false is wanted, not \"maybe\"");
  EXPECT_THAT(Set("model", "layer {}\nlayer { layer_norm { sync_clones: true } }", &run).message(),
              HasSubstr("--set model:2: LayerNormLayer has no field \"sync_clones\""));
  EXPECT_EQ(run.model().layer_size(), 0);
}

TEST(FieldPathTest, AFieldOfThatNameElsewhereIsNamedByItsPath) {
  v1::RunConfig run;
  EXPECT_EQ(Set("num_replicas", "3", &run).message(),
            "--set num_replicas: RunConfig has no field \"num_replicas\"; did you mean "
            "deployment.num_replicas?");
  EXPECT_THAT(Set("learning_rate", "3", &run).message(),
              HasSubstr("did you mean optimizer.learning_rate?"));
  EXPECT_THAT(Set("optimizer.beta1", "3", &run).message(),
              HasSubstr("did you mean optimizer.adam.beta1 or optimizer.adamw.beta1?"));
  EXPECT_THAT(Set("data.height", "3", &run).message(),
              HasSubstr("did you mean data.image.height?"));
}

TEST(FieldPathTest, ErrorsNameThePathAndTheRemedy) {
  v1::RunConfig run;
  EXPECT_EQ(Set("optimizer.learning_rte", "1", &run).message(),
            "--set optimizer.learning_rte: OptimizerConfig has no field \"learning_rte\"; did you "
            "mean learning_rate?");
  EXPECT_THAT(Set("batch_size", "-3", &run).message(), HasSubstr("whole number >= 0"));
  EXPECT_THAT(Set("optimizer.learning_rate", "fast", &run).message(),
              HasSubstr("a number is wanted, not \"fast\""));
  EXPECT_THAT(Set("sync.sync_replicas", "maybe", &run).message(), HasSubstr("true or false"));
  EXPECT_THAT(Set("batch_size.x", "1", &run).message(), HasSubstr("has no fields of its own"));
  EXPECT_THAT(Set("model.layer[x].dense", "1", &run).message(), HasSubstr("name[index]"));
  EXPECT_THAT(Set("model..name", "1", &run).message(), HasSubstr("empty part"));
}

}  // namespace
}  // namespace shoal

#include "ml/optim/table_config.h"

#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

#include "ml/optim/optimizer_config.h"
#include "proto/v1/optimizer_config.pb.h"
#include "proto/v1/table_config.pb.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;

v1::TableConfig Table(const std::string& text) {
  v1::TableConfig table;
  table.set_name("item");
  table.set_dim(16);
  v1::TableConfig given;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &given)) << text;
  table.MergeFrom(given);
  return table;
}

// The run has the learning rate 0.1 and a schedule that ends at 0.01.
v1::OptimizerConfig OptimizerOf(const std::string& table,
                                const v1::OptimizerGroup* group = nullptr) {
  v1::OptimizerConfig run;
  run.set_learning_rate(0.1);
  run.mutable_schedule()->set_end(0.01);
  return RowOptimizer(Table(table), run, group);
}

TEST(TableConfigTest, EveryRuleOfTheFileIsKnown) {
  const std::pair<const char*, OptimizerKind> rules[] = {
      {"sgd", OptimizerKind::kSgd},
      {"adagrad", OptimizerKind::kAdagrad},
      {"rowwise_adagrad", OptimizerKind::kAdagrad},
      {"adam", OptimizerKind::kAdam},
      {"ftrl", OptimizerKind::kFtrl}};
  for (const auto& [rule, kind] : rules) {
    const std::string text = std::string("optimizer { ") + rule + " { learning_rate: 0.5 } }";
    EXPECT_TRUE(ValidateTableConfig(Table(text)).ok()) << rule;
    const v1::OptimizerConfig config = OptimizerOf(text);
    EXPECT_EQ(OptimizerOptionsFrom(config)->kind, kind) << rule;
    EXPECT_EQ(config.learning_rate(), 0.5) << rule;
    EXPECT_DOUBLE_EQ(config.schedule().end(), 0.05) << rule;
  }
}

TEST(TableConfigTest, UnsetFieldsHaveTheirDefaults) {
  EXPECT_TRUE(ValidateTableConfig(Table("")).ok());
  const v1::OptimizerConfig config = OptimizerOf("");
  EXPECT_TRUE(config.has_adagrad());
  EXPECT_EQ(config.adagrad().initial_accumulator(), 0.1);
  EXPECT_EQ(config.learning_rate(), 0.1);
  EXPECT_EQ(config.schedule().end(), 0.01);
  EXPECT_EQ(RowInitializer(Table("")), UniformInitializer(-0.05, 0.05));
}

TEST(TableConfigTest, SetFieldsReplaceDefaults) {
  const v1::OptimizerConfig adam = OptimizerOf("optimizer { adam { beta2: 0.9 } }");
  EXPECT_EQ(adam.adam().beta1(), OptimizerOptions().beta1);
  EXPECT_EQ(adam.adam().beta2(), 0.9);
  EXPECT_EQ(OptimizerOf("optimizer { ftrl { l1: 0.5 } }").ftrl().l1(), 0.5);
  const std::pair<const char*, InitializerSpec> initializers[] = {
      {"constant { value: 7 }", ConstantInitializer(7)},
      {"uniform { low: 1 high: 2 }", UniformInitializer(1, 2)},
      {"normal { stddev: 0.01 }", NormalInitializer(0, 0.01)},
      {"truncated_normal { mean: 1 stddev: 2 }", TruncatedNormalInitializer(1, 2)}};
  for (const auto& [text, spec] : initializers) {
    EXPECT_EQ(RowInitializer(Table(std::string("initializer { ") + text + " }")), spec) << text;
  }
}

TEST(TableConfigTest, AnEntryOfTheRunFileKeepsWhatItLeavesUnset) {
  const v1::TableConfig declared = Table(
      "optimizer { adam { learning_rate: 0.5 } l2: 0.25 } initializer { constant { value: 1 "
      "} } admission { min_count: 3 } expiry { idle_updates: 9 } buckets: 8");
  const auto merged = [&](const std::string& text) {
    v1::TableConfig entry = Table(text);
    entry.set_name("i*");
    return MergedTable(declared, entry).SerializeAsString();
  };
  v1::TableConfig expected = declared;
  EXPECT_EQ(merged(""), expected.SerializeAsString());
  expected.set_buckets(512);
  EXPECT_EQ(merged("buckets: 512"), expected.SerializeAsString());
  expected = declared;
  expected.mutable_expiry()->Clear();
  EXPECT_EQ(merged("expiry {}"), expected.SerializeAsString()) << "0: never";
  expected = declared;
  expected.mutable_optimizer()->Clear();
  expected.mutable_optimizer()->mutable_adam()->set_beta1(0.5);
  EXPECT_EQ(merged("optimizer { adam { beta1: 0.5 } }"), expected.SerializeAsString())
      << "neither the learning rate nor l2 is the program's";
}

TEST(TableConfigTest, AGroupSetsOrScalesTheLearningRate) {
  const std::string own = "optimizer { sgd { learning_rate: 0.5 } }";
  v1::OptimizerGroup group;
  EXPECT_EQ(OptimizerOf("", &group).learning_rate(), 0.1);
  EXPECT_EQ(OptimizerOf("", &group).schedule().end(), 0.01);
  group.set_learning_rate(0.25);
  EXPECT_EQ(OptimizerOf("", &group).learning_rate(), 0.25);
  EXPECT_DOUBLE_EQ(OptimizerOf("", &group).schedule().end(), 0.025);
  EXPECT_EQ(OptimizerOf(own, &group).learning_rate(), 0.5) << "the table's own comes first";
  group.clear_learning_rate();
  group.set_learning_rate_multiplier(0.5);
  EXPECT_EQ(OptimizerOf("", &group).learning_rate(), 0.05);
  EXPECT_DOUBLE_EQ(OptimizerOf("", &group).schedule().end(), 0.005);
  EXPECT_EQ(OptimizerOf(own, &group).learning_rate(), 0.25);
  EXPECT_DOUBLE_EQ(OptimizerOf(own, &group).schedule().end(), 0.025);
  group.set_learning_rate_multiplier(0);
  EXPECT_EQ(OptimizerOf(own, &group).learning_rate(), 0);
  EXPECT_EQ(OptimizerOf(own, &group).schedule().end(), 0);
}

TEST(TableConfigTest, AValueOutOfRangeIsNamed) {
  const std::pair<const char*, const char*> cases[] = {
      {"dim: 4097", "dim: must be 1 to 4096, is 4097"},
      {"optimizer { sgd { learning_rate: -1 } }", "optimizer: learning_rate must be"},
      {"optimizer { l2: -1 }", "optimizer: l2 must be"},
      {"admission { min_count: 1073741825 }", "admission: min_count must be at most 1073741824"},
      {"optimizer { adam { beta1: 2 } }", "optimizer: "},
      {"initializer { uniform { low: 2 high: 1 } }",
       "initializer.uniform.low: must be at most high, 1, is 2"},
      {"initializer { normal { stddev: -1 } }",
       "initializer.normal.stddev: must be at least 0, is -1"},
      {"initializer { truncated_normal { stddev: -1 } }",
       "initializer.truncated_normal.stddev: must be at least 0, is -1"}};
  for (const auto& [text, why] : cases) {
    EXPECT_THAT(std::string(ValidateTableConfig(Table(text)).message()), HasSubstr(why)) << text;
  }
}

}  // namespace
}  // namespace shoal

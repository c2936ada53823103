#include "runtime/variables/update_rules.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

#include "proto/v1/optimizer_config.pb.h"
#include "proto/v1/variable.pb.h"
#include "runtime/variables/slice_values.h"

namespace shoal {
namespace {

std::unique_ptr<UpdateRules> RulesOf(const std::string& text, int64_t total_updates = 0) {
  v1::OptimizerConfig optimizer;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &optimizer)) << text;
  return *UpdateRules::Create(*UpdateSettingsFrom(optimizer, total_updates));
}

// Returns the value of a parameter that was 2, after the first update with the gradient 1.
float Updated(UpdateRules* rules, const std::string& name) {
  v1::VariableSpec spec;
  spec.set_name(name);
  spec.set_update(v1::UPDATE_KIND_OPTIMIZER);
  const VariableUpdater updater = *rules->CreateUpdater(spec);
  SliceValues values(updater, 1);
  values.Restart();
  values.mutable_value()[0] = 2;
  const float gradient = 1;
  SliceValues::Step step;
  step.learning_rate = rules->LearningRate(updater.rate_index(), 0);
  step.contribution = &gradient;
  EXPECT_TRUE(values.Apply(step));
  return values.value()->data()[0];
}

TEST(UpdateRulesTest, EachGroupHasItsLearningRateAndDecay) {
  const auto rules = RulesOf(
      "learning_rate: 0.5 sgd {} group { variables: 'fast' learning_rate: 1 } "
      "group { variables: 'slow' learning_rate_multiplier: 0.25 } "
      "group { variables: 'decayed' weight_decay: 0.25 } group { variables: 'still' learning_rate: "
      "0 }");
  EXPECT_EQ(Updated(rules.get(), "other"), 1.5f);
  EXPECT_EQ(Updated(rules.get(), "fast"), 1);
  EXPECT_EQ(Updated(rules.get(), "slow"), 1.875f);
  EXPECT_EQ(Updated(rules.get(), "decayed"), 1.25f);  // 2 - 0.5 * (1 + 0.25 * 2)
  EXPECT_EQ(Updated(rules.get(), "still"), 2);
}

TEST(UpdateRulesTest, TheDecayOfAdamWTakesThePlaceOfTheRuns) {
  const auto rules = RulesOf(
      "learning_rate: 0.5 adamw { weight_decay: 0.25 } "
      "group { variables: 'bias' weight_decay: 0 } group { variables: 'plain' }");
  // The first step of Adam is the learning rate.
  EXPECT_NEAR(Updated(rules.get(), "bias"), 1.5, 1e-6);
  EXPECT_NEAR(Updated(rules.get(), "plain"), 1.25, 1e-6);  // 2 - 0.5 * 0.25 * 2 - 0.5
  EXPECT_NEAR(Updated(rules.get(), "other"), 1.25, 1e-6);
}

TEST(UpdateRulesTest, CenteredRmsPropDividesByTheRootOfTheVariance) {
  const auto plain = RulesOf("learning_rate: 0.3 rmsprop { decay: 0.2 }");
  const auto centered = RulesOf("learning_rate: 0.3 rmsprop { decay: 0.2 centered: true }");
  // The mean square of the gradients is 0.2 * 1 + 0.8 * 1 = 1, and their mean is 0.8 * 1 = 0.8.
  EXPECT_NEAR(Updated(plain.get(), "a"), 1.7, 1e-6);     // 2 - 0.3 / sqrt(1)
  EXPECT_NEAR(Updated(centered.get(), "a"), 1.5, 1e-6);  // 2 - 0.3 / sqrt(1 - 0.8^2)
}

TEST(UpdateRulesTest, TheScheduleIsScaledWithItsEnd) {
  const auto rules = RulesOf(
      "learning_rate: 0.5 sgd {} schedule { kind: KIND_COSINE end: 0.125 warmup_steps: 3 } "
      "group { variables: 'a' learning_rate_multiplier: 4 }",
      20);
  for (const uint64_t step : {0, 1, 3, 10, 19, 20, 30}) {
    EXPECT_FLOAT_EQ(rules->LearningRate(1, step), 4 * rules->LearningRate(0, step)) << step;
  }
  EXPECT_EQ(rules->LearningRate(0, 30), 0.125f);
  EXPECT_EQ(rules->LearningRate(1, 30), 0.5f);
  EXPECT_EQ(rules->LearningRate(1, 3), 2);  // A step may be asked for again.
}

TEST(UpdateRulesTest, APolynomialScheduleWithCycleRisesAgain) {
  const std::string schedule = "kind: KIND_POLYNOMIAL decay_steps: 10 power: 2 end: 0.01";
  const auto once = RulesOf("learning_rate: 0.1 sgd {} schedule { " + schedule + " }");
  const auto again = RulesOf("learning_rate: 0.1 sgd {} schedule { " + schedule + " cycle: true }");
  EXPECT_FLOAT_EQ(once->LearningRate(0, 10), 0.01f);
  EXPECT_FLOAT_EQ(again->LearningRate(0, 10), 0.01f);
  EXPECT_FLOAT_EQ(once->LearningRate(0, 15), 0.01f);
  EXPECT_FLOAT_EQ(again->LearningRate(0, 15), 0.015625f);  // 15 of 20: 0.09 / 16 + 0.01
}

TEST(UpdateRulesTest, ErrorsNameTheField) {
  v1::OptimizerConfig optimizer;
  optimizer.mutable_sgd();
  optimizer.add_group()->set_variables("a(");
  EXPECT_THAT(std::string(UpdateSettingsFrom(optimizer, 0).status().message()),
              testing::HasSubstr("optimizer.group[0].variables"));
}

}  // namespace
}  // namespace shoal

#include "runtime/variables/owned_variables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "proto/v1/optimizer_config.pb.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatEq;

v1::VariableSpec Spec(const char* name, v1::UpdateKind update, double first) {
  v1::VariableSpec spec;
  spec.set_name(name);
  spec.add_shape(2);
  spec.set_update(update);
  spec.set_decay(0.5);
  spec.mutable_initializer()->set_kind(v1::Initializer::KIND_CONSTANT);
  spec.mutable_initializer()->set_a(first);
  return spec;
}

std::unique_ptr<OwnedVariables> Make(const v1::OptimizerConfig& optimizer) {
  auto variables = OwnedVariables::Create(
      {Spec("w", v1::UPDATE_KIND_OPTIMIZER, 1), Spec("mean", v1::UPDATE_KIND_MOVING_AVERAGE, 4)},
      &optimizer, 1);
  EXPECT_TRUE(variables.ok()) << variables.status();
  return *std::move(variables);
}

v1::OptimizerConfig Momentum() {
  v1::OptimizerConfig optimizer;
  optimizer.set_learning_rate(0.5);
  optimizer.mutable_momentum()->set_momentum(0.5);
  return optimizer;
}

TEST(OwnedVariablesTest, GroupsHaveSettingsOfTheirOwn) {
  v1::OptimizerConfig optimizer;
  optimizer.set_learning_rate(0.5);
  optimizer.mutable_sgd();
  optimizer.set_clip_by_global_norm(1e6);
  v1::OptimizerGroup* fast = optimizer.add_group();
  fast->set_variables("w2");
  fast->set_learning_rate_multiplier(2);
  v1::OptimizerGroup* frozen = optimizer.add_group();
  frozen->set_variables("w3");
  frozen->set_frozen(true);
  const auto make = [&optimizer] {
    return OwnedVariables::Create(
        {Spec("w1", v1::UPDATE_KIND_OPTIMIZER, 1), Spec("w2", v1::UPDATE_KIND_OPTIMIZER, 1),
         Spec("w3", v1::UPDATE_KIND_OPTIMIZER, 1)},
        &optimizer, 1);
  };
  const auto variables = make();
  ASSERT_TRUE(variables.ok()) << variables.status();
  const float gradient[] = {1, 2};
  // The gradient of a frozen variable is not looked at.
  const float nan[] = {std::nanf(""), 0};
  ASSERT_TRUE((*variables)->ApplyStep({gradient, gradient, nan}).ok());
  EXPECT_THAT((*variables)->value(0), ElementsAre(FloatEq(0.5), FloatEq(0)));
  EXPECT_THAT((*variables)->value(1), ElementsAre(FloatEq(0), FloatEq(-1)));
  EXPECT_THAT((*variables)->value(2), ElementsAre(1, 1));
  frozen->set_variables("w4");
  EXPECT_THAT(std::string(make().status().message()),
              testing::HasSubstr("optimizer.group[1].variables: \"w4\" matches the whole name of "
                                 "none of the variables w1, w2, w3"));
}

TEST(OwnedVariablesTest, AStepUpdatesWhatHasAContribution) {
  const auto variables = Make(Momentum());
  const float gradient[] = {1, 2};
  const float mean[] = {0, 8};
  ASSERT_TRUE(variables->ApplyStep({gradient, mean}).ok());
  EXPECT_THAT(variables->value(0), ElementsAre(FloatEq(0.5), FloatEq(0)));
  EXPECT_THAT(variables->value(1), ElementsAre(FloatEq(2), FloatEq(6)));
  ASSERT_TRUE(variables->ApplyStep({gradient, nullptr}).ok());
  // Momentum: 1.5 times the gradient.
  EXPECT_THAT(variables->value(0), ElementsAre(FloatEq(-0.25), FloatEq(-1.5)));
  EXPECT_THAT(variables->value(1), ElementsAre(FloatEq(2), FloatEq(6)));
  EXPECT_EQ(variables->step(), 2u);
}

TEST(OwnedVariablesTest, AGradientThatIsNotFiniteChangesNothing) {
  const auto variables = Make(Momentum());
  const float mean[] = {0, 8};
  const float bad[] = {1, std::numeric_limits<float>::quiet_NaN()};
  EXPECT_FALSE(variables->ApplyStep({bad, mean}).ok());
  EXPECT_THAT(variables->value(0), ElementsAre(1, 1));
  EXPECT_THAT(variables->value(1), ElementsAre(4, 4));
  const float gradient[] = {1, 2};
  ASSERT_TRUE(variables->ApplyStep({gradient, mean}).ok());
  EXPECT_THAT(variables->value(0), ElementsAre(FloatEq(0.5), FloatEq(0)));
}

TEST(OwnedVariablesTest, TheNormOfAllGradientsIsClipped) {
  v1::OptimizerConfig optimizer;
  optimizer.set_learning_rate(1);
  optimizer.mutable_sgd();
  optimizer.set_clip_by_global_norm(0.5);
  const auto variables = Make(optimizer);
  const float gradient[] = {3, 4};
  ASSERT_TRUE(variables->ApplyStep({gradient, nullptr}).ok());
  EXPECT_THAT(variables->value(0), ElementsAre(FloatEq(1 - 0.3f), FloatEq(1 - 0.4f)));
}

}  // namespace
}  // namespace shoal

#include "ml/optim/optimizer_config.h"

#include <string>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

#include "proto/v1/optimizer_config.pb.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;

v1::OptimizerConfig Parse(const std::string& text) {
  v1::OptimizerConfig config;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &config)) << text;
  return config;
}

TEST(OptimizerConfigTest, EveryRuleOfTheFileIsKnown) {
  const struct {
    const char* text;
    OptimizerKind kind;
  } cases[] = {
      {"sgd {}", OptimizerKind::kSgd},
      {"momentum {}", OptimizerKind::kMomentum},
      {"momentum { nesterov: true }", OptimizerKind::kNesterov},
      {"adagrad {}", OptimizerKind::kAdagrad},
      {"adadelta {}", OptimizerKind::kAdadelta},
      {"rmsprop {}", OptimizerKind::kRmsProp},
      {"adam {}", OptimizerKind::kAdam},
      {"adamw {}", OptimizerKind::kAdamW},
      {"ftrl {}", OptimizerKind::kFtrl},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(OptimizerOptionsFrom(Parse(c.text)).value().kind, c.kind) << c.text;
  }
}

TEST(OptimizerConfigTest, SetFieldsReplaceDefaults) {
  const OptimizerOptions adam = OptimizerOptionsFrom(Parse("adam { beta1: 0 epsilon: 1 }")).value();
  EXPECT_EQ(adam.beta1, 0);
  EXPECT_EQ(adam.beta2, OptimizerOptions().beta2);
  EXPECT_EQ(adam.adam_epsilon, 1);
  EXPECT_FALSE(adam.corrected_epsilon);
  for (const char* text :
       {"adam { corrected_epsilon: true }", "adamw { corrected_epsilon: true }"}) {
    EXPECT_TRUE(OptimizerOptionsFrom(Parse(text)).value().corrected_epsilon) << text;
  }
  EXPECT_EQ(OptimizerOptionsFrom(Parse("ftrl { l1: 0.5 }")).value().ftrl_l1, 0.5);
  const OptimizerOptions rmsprop = OptimizerOptionsFrom(Parse("rmsprop { decay: 0.5 }")).value();
  EXPECT_EQ(rmsprop.rmsprop_decay, 0.5);
  EXPECT_FALSE(rmsprop.rmsprop_centered);
  EXPECT_TRUE(OptimizerOptionsFrom(Parse("rmsprop { centered: true }")).value().rmsprop_centered);
}

TEST(OptimizerConfigTest, ErrorsNameTheField) {
  EXPECT_THAT(std::string(OptimizerOptionsFrom(Parse("")).status().message()),
              HasSubstr("optimizer has no rule"));
  EXPECT_THAT(std::string(OptimizerOptionsFrom(Parse("adam { beta1: 2 }")).status().message()),
              HasSubstr("optimizer.adam.beta1: must be at least 0 and less than 1, is 2"));
  EXPECT_THAT(std::string(ScheduleOptionsFrom(Parse("learning_rate: nan"), 0).status().message()),
              HasSubstr("learning_rate: must be"));
}

TEST(OptimizerConfigTest, DecayStepsFollowFromTheRunsLength) {
  const auto config = Parse("learning_rate: 0.1 schedule { kind: KIND_COSINE warmup_steps: 10 }");
  EXPECT_EQ(ScheduleOptionsFrom(config, 110).value().decay_steps, 100);
  EXPECT_FALSE(ScheduleOptionsFrom(config, 0).ok());
}

}  // namespace
}  // namespace shoal

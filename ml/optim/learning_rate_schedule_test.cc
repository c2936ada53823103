#include "ml/optim/learning_rate_schedule.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;

LearningRateSchedule Make(LearningRateScheduleOptions options) {
  return LearningRateSchedule::Create(std::move(options)).value();
}

TEST(LearningRateScheduleTest, ConstantStays) {
  LearningRateScheduleOptions options;
  options.learning_rate = 0.25;
  const LearningRateSchedule schedule = Make(options);
  EXPECT_FLOAT_EQ(schedule.At(0), 0.25f);
  EXPECT_FLOAT_EQ(schedule.At(1000000), 0.25f);
}

TEST(LearningRateScheduleTest, StepsChangeFromTheirBoundariesOn) {
  LearningRateScheduleOptions options;
  options.kind = ScheduleKind::kStep;
  options.learning_rate = 2;
  options.boundaries = {10, 20};
  options.factors = {0.5, 0.25};
  const LearningRateSchedule schedule = Make(options);
  EXPECT_FLOAT_EQ(schedule.At(0), 2);
  EXPECT_FLOAT_EQ(schedule.At(9), 2);
  EXPECT_FLOAT_EQ(schedule.At(10), 1);
  EXPECT_FLOAT_EQ(schedule.At(19), 1);
  EXPECT_FLOAT_EQ(schedule.At(20), 0.5);
}

TEST(LearningRateScheduleTest, ExponentialDecaysSmoothlyOrInStairs) {
  LearningRateScheduleOptions options;
  options.kind = ScheduleKind::kExponential;
  options.learning_rate = 0.1;
  options.decay_steps = 100;
  options.rate = 0.5;
  EXPECT_FLOAT_EQ(Make(options).At(0), 0.1f);
  EXPECT_FLOAT_EQ(Make(options).At(50), 0.0707106781f);
  EXPECT_FLOAT_EQ(Make(options).At(200), 0.025f);
  options.staircase = true;
  EXPECT_FLOAT_EQ(Make(options).At(99), 0.1f);
  EXPECT_FLOAT_EQ(Make(options).At(100), 0.05f);
}

TEST(LearningRateScheduleTest, PolynomialEndsAndCycles) {
  LearningRateScheduleOptions options;
  options.kind = ScheduleKind::kPolynomial;
  options.learning_rate = 0.1;
  options.end = 0.01;
  options.decay_steps = 10;
  options.power = 2;
  EXPECT_FLOAT_EQ(Make(options).At(0), 0.1f);
  EXPECT_FLOAT_EQ(Make(options).At(5), 0.0325f);  // 0.09/4 + 0.01
  EXPECT_FLOAT_EQ(Make(options).At(10), 0.01f);
  EXPECT_FLOAT_EQ(Make(options).At(1000), 0.01f);
  options.cycle = true;
  EXPECT_FLOAT_EQ(Make(options).At(0), 0.1f);
  EXPECT_FLOAT_EQ(Make(options).At(15), 0.015625f);  // 15 of 20: 0.09/16 + 0.01
}

TEST(LearningRateScheduleTest, CosineFallsToItsEnd) {
  LearningRateScheduleOptions options;
  options.kind = ScheduleKind::kCosine;
  options.learning_rate = 0.2;
  options.decay_steps = 100;
  options.end = 0.02;
  EXPECT_FLOAT_EQ(Make(options).At(0), 0.2f);
  EXPECT_FLOAT_EQ(Make(options).At(50), 0.11f);
  EXPECT_FLOAT_EQ(Make(options).At(100), 0.02f);
  EXPECT_FLOAT_EQ(Make(options).At(101), 0.02f);
}

TEST(LearningRateScheduleTest, WarmupClimbsAndThenTheScheduleBegins) {
  LearningRateScheduleOptions options;
  options.kind = ScheduleKind::kExponential;
  options.learning_rate = 0.1;
  options.decay_steps = 10;
  options.rate = 0.1;
  options.warmup_steps = 4;
  const LearningRateSchedule schedule = Make(options);
  EXPECT_FLOAT_EQ(schedule.At(0), 0.02f);
  EXPECT_FLOAT_EQ(schedule.At(3), 0.08f);
  EXPECT_FLOAT_EQ(schedule.At(4), 0.1f);
  EXPECT_FLOAT_EQ(schedule.At(14), 0.01f);
}

TEST(LearningRateScheduleTest, ErrorsNameTheField) {
  const auto message = [](LearningRateScheduleOptions options) {
    return std::string(LearningRateSchedule::Create(std::move(options)).status().message());
  };
  LearningRateScheduleOptions options;  // without a learning rate
  EXPECT_THAT(message(options), HasSubstr("learning_rate: must be a finite number >= 0, is nan"));
  options.learning_rate = 0.1;
  options.kind = ScheduleKind::kCosine;
  EXPECT_THAT(message(options), HasSubstr("decay_steps: must be >= 1 for this schedule, is 0"));
  options.decay_steps = 5;
  options.end = -2;
  EXPECT_THAT(message(options), HasSubstr("end: must be a finite number >= 0, is -2"));
  options.kind = ScheduleKind::kStep;
  options.boundaries = {5};
  EXPECT_THAT(message(options), HasSubstr("one value for every boundary"));
  options.factors = {0.1};
  options.warmup_steps = -1;
  EXPECT_THAT(message(options), HasSubstr("warmup_steps: must be >= 0, is -1"));
}

}  // namespace
}  // namespace shoal

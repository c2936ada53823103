#include "ml/tensor/initializer.h"

#include <cmath>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace shoal {
namespace {

std::vector<float> Initialized(const InitializerSpec& spec, uint64_t seed, absl::string_view name,
                               uint64_t begin, uint64_t end) {
  std::vector<float> values(end - begin);
  InitializeRange(spec, seed, VariableNameHash(name), begin, end, values.data());
  return values;
}

TEST(InitializerTest, AnyRangeHasTheBytesOfTheWhole) {
  for (const InitializerSpec& spec :
       {ZerosInitializer(), ConstantInitializer(3), UniformInitializer(-1, 2),
        NormalInitializer(1, 2), TruncatedNormalInitializer(0, 1)}) {
    const std::vector<float> whole = Initialized(spec, 7, "conv1/weights", 0, 1000);
    const std::vector<float> part = Initialized(spec, 7, "conv1/weights", 123, 877);
    EXPECT_EQ(part, std::vector<float>(whole.begin() + 123, whole.begin() + 877));
  }
}

TEST(InitializerTest, SeedAndNameChangeTheValues) {
  const InitializerSpec spec = NormalInitializer(0, 1);
  const std::vector<float> values = Initialized(spec, 7, "a/w", 0, 8);
  EXPECT_NE(values, Initialized(spec, 8, "a/w", 0, 8));
  EXPECT_NE(values, Initialized(spec, 7, "b/w", 0, 8));
}

TEST(InitializerTest, VarianceScalingHoldsAfterTruncation) {
  const Fan fan = FanOf({300, 100});
  const std::vector<float> values = Initialized(GlorotNormalInitializer(fan), 1, "w", 0, 30000);
  double square = 0;
  for (float value : values) square += static_cast<double>(value) * value;
  EXPECT_NEAR(std::sqrt(square / 30000), std::sqrt(2.0 / 400), 0.001);
  EXPECT_NEAR(GlorotUniformInitializer(fan).b, std::sqrt(6.0 / 400), 1e-12);
}

TEST(InitializerTest, FansOfAConvolutionCountItsWindow) {
  const Fan fan = FanOf({64, 32, 5, 5});
  EXPECT_EQ(fan.in, 32 * 25);
  EXPECT_EQ(fan.out, 64 * 25);
}

TEST(InitializerTest, BadBoundsAreNamed) {
  EXPECT_TRUE(ValidateInitializer(UniformInitializer(0, 1)).ok());
  EXPECT_EQ(ValidateInitializer(UniformInitializer(1, 0)),
            absl::InvalidArgumentError("initializer: uniform needs a <= b, has a=1 b=0"));
  EXPECT_EQ(ValidateInitializer(NormalInitializer(0, -1)),
            absl::InvalidArgumentError(
                "initializer: the standard deviation b must not be negative, is -1"));
  EXPECT_EQ(ValidateInitializer(ConstantInitializer(NAN)),
            absl::InvalidArgumentError("initializer: a and b must be finite numbers"));
  EXPECT_EQ(ValidateInitializer({static_cast<InitializerKind>(9), 0, 0}),
            absl::InvalidArgumentError("initializer: unknown kind 9"));
}

}  // namespace
}  // namespace shoal

#include "tools/draw_async_overshoot/overshoot.h"

#include <fstream>
#include <sstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/status_matchers.h"
#include "tools/draw_async_overshoot/picture.h"

namespace shoal {
namespace {

constexpr float kMinimum = 1;

ValueTrace Play(bool synchronous) {
  OvershootOptions options;
  options.synchronous = synchronous;
  absl::StatusOr<ValueTrace> trace = PlayOvershoot(options);
  EXPECT_OK(trace.status());
  return *trace;
}

TEST(OvershootTest, AsyncAppliesBothGradientsOfTheSameValueAndPassesTheMinimum) {
  const ValueTrace values = Play(/*synchronous=*/false);
  ASSERT_EQ(values.size(), 13u);
  // Gradients at 3: 2 * (3 - 0.75) = 4.5 and 2 * (3 - 1.25) = 3.5, each times 0.4.
  EXPECT_FLOAT_EQ(values[0], 3);
  EXPECT_FLOAT_EQ(values[1], 3 - 0.4f * 4.5f);
  EXPECT_GT(values[1], kMinimum);
  EXPECT_FLOAT_EQ(values[2], 3 - 0.4f * 4.5f - 0.4f * 3.5f);
  EXPECT_LT(values[2], kMinimum);
  // And so in every round: it swings around the minimum.
  for (size_t i = 2; i + 2 < values.size(); i += 2) {
    EXPECT_LT((values[i] - kMinimum) * (values[i + 2] - kMinimum), 0) << "round " << i / 2;
  }
}

TEST(OvershootTest, SyncLandsWhereOneAveragedStepLeads) {
  const ValueTrace values = Play(/*synchronous=*/true);
  ASSERT_EQ(values.size(), 7u);
  EXPECT_FLOAT_EQ(values[1], 3 - 0.4f * (4.5f + 3.5f) / 2);
  for (size_t i = 0; i + 1 < values.size(); ++i) {
    EXPECT_LT(values[i + 1], values[i]);
    EXPECT_GT(values[i + 1], kMinimum - 1e-6);
  }
  EXPECT_NEAR(values.back(), kMinimum, 1e-3);
}

TEST(OvershootTest, ThePictureInTheDocumentsIsWhatTheToolDraws) {
  std::ifstream file("docs/images/async_overshoot.svg");
  ASSERT_TRUE(file.is_open());
  std::ostringstream committed;
  committed << file.rdbuf();
  const std::string drawn =
      DrawOvershoot(OvershootOptions(), Play(/*synchronous=*/false), Play(/*synchronous=*/true));
  EXPECT_EQ(committed.str(), drawn) << "bazel run //tools/draw_async_overshoot, and look at it";
}

}  // namespace
}  // namespace shoal

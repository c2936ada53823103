#include "deploy/launch/restart_pauses.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;

constexpr absl::Duration kShortLife = absl::Seconds(2);
constexpr absl::Duration kLongLife = absl::Minutes(1);

// Returns the pauses in seconds after processes that lived for `lives`.
std::vector<double> PausesAfter(const std::vector<absl::Duration>& lives, absl::Duration patience) {
  RestartPauses pauses;
  std::vector<double> seconds;
  for (const absl::Duration life : lives) {
    seconds.push_back(absl::ToDoubleSeconds(pauses.Next(life, patience)));
  }
  return seconds;
}

TEST(RestartPausesTest, AFirstDeathNeedsNoPauseAndShortLivesNeedLongerOnes) {
  EXPECT_THAT(PausesAfter(std::vector<absl::Duration>(6, kShortLife), absl::Minutes(5)),
              ElementsAre(0, 5, 10, 20, 30, 30));
}

TEST(RestartPausesTest, ALongLifeNeedsNoPauseAndThePausesBeginAgain) {
  EXPECT_THAT(PausesAfter({kShortLife, kShortLife, kShortLife, kLongLife, kShortLife, kShortLife,
                           kLongLife, kLongLife},
                          absl::Minutes(5)),
              ElementsAre(0, 5, 10, 0, 5, 10, 0, 0));
}

TEST(RestartPausesTest, AStartThatFailsAfterADeathNeedsAPause) {
  EXPECT_THAT(PausesAfter({kLongLife, absl::ZeroDuration()}, absl::Minutes(5)), ElementsAre(0, 5));
}

TEST(RestartPausesTest, TheChiefDoesNotLosePatienceDuringAPause) {
  EXPECT_THAT(PausesAfter(std::vector<absl::Duration>(5, kShortLife), absl::Seconds(30)),
              ElementsAre(0, 5, 10, 10, 10));
  EXPECT_THAT(PausesAfter(std::vector<absl::Duration>(3, kShortLife), absl::Seconds(8)),
              ElementsAre(0, 2, 2));
}

}  // namespace
}  // namespace shoal

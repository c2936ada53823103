#include "worker/ps_ways.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const absl::Time kNow = absl::UnixEpoch() + absl::Seconds(100);

ChiefSession::Activity Report(const std::vector<RemoteExchanges::Way>& ways) {
  ChiefSession::Activity activity;
  AddWays(ways, kNow, &activity);
  return activity;
}

RemoteExchanges::Way Way(bool is_proven, absl::Duration silent_for = -absl::InfiniteDuration()) {
  RemoteExchanges::Way way;
  way.is_proven = is_proven;
  way.silent_since = kNow - silent_for;
  return way;
}

TEST(PsWaysTest, APsThatIsSilentForAWhileIsNamed) {
  EXPECT_THAT(Report({Way(true), Way(true, absl::Seconds(2))}).silent_ps, IsEmpty());
  EXPECT_THAT(Report({Way(true), Way(true, absl::Seconds(3))}).silent_ps, ElementsAre(1));
  EXPECT_THAT(Report({Way(false, absl::Minutes(1)), Way(false)}).silent_ps, ElementsAre(0));
}

TEST(PsWaysTest, AllAreReachedWhenEachHasAnsweredAndNoneIsSilent) {
  EXPECT_FALSE(Report({}).reaches_all_ps);  // Nothing is known yet.
  EXPECT_TRUE(Report({Way(true), Way(true, absl::Seconds(2))}).reaches_all_ps);
  EXPECT_FALSE(Report({Way(true), Way(true, absl::Seconds(4))}).reaches_all_ps);
  EXPECT_FALSE(Report({Way(false), Way(true)}).reaches_all_ps);
}

}  // namespace
}  // namespace shoal

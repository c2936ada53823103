#include "worker/heartbeat_links.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const absl::Time kNow = absl::UnixEpoch() + absl::Seconds(100);

ChiefSession::Activity Report(const std::vector<RemoteExchanges::Link>& links) {
  ChiefSession::Activity activity;
  AddLinks(links, kNow, &activity);
  return activity;
}

RemoteExchanges::Link Link(bool is_proven, absl::Duration silent_for = -absl::InfiniteDuration()) {
  RemoteExchanges::Link link;
  link.is_proven = is_proven;
  link.silent_since = kNow - silent_for;
  return link;
}

TEST(HeartbeatLinksTest, APsThatIsSilentForAWhileIsNamed) {
  EXPECT_THAT(Report({Link(true), Link(true, absl::Seconds(2))}).silent_ps, IsEmpty());
  EXPECT_THAT(Report({Link(true), Link(true, absl::Seconds(3))}).silent_ps, ElementsAre(1));
  EXPECT_THAT(Report({Link(false, absl::Minutes(1)), Link(false)}).silent_ps, ElementsAre(0));
}

TEST(HeartbeatLinksTest, AllAreReachedWhenEachHasAnsweredAndNoneIsSilent) {
  EXPECT_FALSE(Report({}).reaches_all_ps);  // Nothing is known yet.
  EXPECT_TRUE(Report({Link(true), Link(true, absl::Seconds(2))}).reaches_all_ps);
  EXPECT_FALSE(Report({Link(true), Link(true, absl::Seconds(4))}).reaches_all_ps);
  EXPECT_FALSE(Report({Link(false), Link(true)}).reaches_all_ps);
}

}  // namespace
}  // namespace shoal

#include "runtime/exchange/ps_links.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace shoal {
namespace {

class IdleChannel : public BulkChannel {
 public:
  void Start(BulkCall*) override {}
  void Cancel(BulkCall*) override {}
  bool needs_checksums() const override { return false; }
};

StoreView ViewOf(uint64_t number, std::vector<std::string> addresses,
                 std::vector<uint64_t> incarnations) {
  return {/*term=*/1, number, /*lineage=*/1, std::move(addresses), std::move(incarnations)};
}

// Takes the view, with a new channel to each ps that has moved and has an address.
std::vector<bool> Take(const StoreView& view, PsLinks* links) {
  const std::vector<bool> moved = links->FindMoved(view);
  std::vector<PsLinks::Channel> channels(moved.size());
  for (size_t ps = 0; ps < view.ps_addresses.size(); ++ps) {
    if (moved[ps] && !view.ps_addresses[ps].empty()) channels[ps] = std::make_shared<IdleChannel>();
  }
  links->Take(view, moved, channels);
  return moved;
}

TEST(PsLinksTest, APsThatMovedOrWasRestartedGetsANewChannel) {
  PsLinks links;
  EXPECT_FALSE(links.has_view());
  EXPECT_EQ(links.channel(0), nullptr);
  EXPECT_EQ(Take(ViewOf(1, {"a", "b", ""}, {1, 1, 0}), &links),
            (std::vector<bool>{true, true, true}));
  const PsLinks::Channel first = links.channel(0), second = links.channel(1);
  EXPECT_NE(first, nullptr);
  EXPECT_EQ(links.channel(2), nullptr);
  EXPECT_EQ(links.address(1), "b");
  EXPECT_EQ(links.address(3), "");
  // ps/1 was restarted, ps/2 has come.
  EXPECT_EQ(Take(ViewOf(2, {"a", "b", "c"}, {1, 2, 1}), &links),
            (std::vector<bool>{false, true, true}));
  EXPECT_EQ(links.channel(0), first);
  EXPECT_NE(links.channel(1), second);
  EXPECT_NE(links.channel(2), nullptr);
  EXPECT_EQ(links.incarnation(1), 2u);
  // ps/2 is gone.
  EXPECT_EQ(Take(ViewOf(3, {"a", "b"}, {1, 2}), &links), (std::vector<bool>{false, false, true}));
  EXPECT_EQ(links.channel(2), nullptr);
}

TEST(PsLinksTest, AnOlderViewIsOutdated) {
  PsLinks links;
  const StoreView old = ViewOf(1, {"a"}, {1});
  EXPECT_FALSE(links.IsOutdated(old));
  Take(ViewOf(2, {"a"}, {1}), &links);
  EXPECT_TRUE(links.IsOutdated(old));
  EXPECT_FALSE(links.IsOutdated(links.view()));
}

TEST(PsLinksTest, ALinkIsSilentSinceTheFirstCallWithoutAnAnswer) {
  PsLinks links;
  Take(ViewOf(1, {"a"}, {1}), &links);
  const PsLinks::Channel channel = links.channel(0);
  const absl::Time start = absl::FromUnixSeconds(100);
  const auto at = [&](int seconds) { return start + absl::Seconds(seconds); };
  links.NoteResult(0, channel, /*answered=*/false, at(1), at(3));
  EXPECT_FALSE(links.all()[0].is_proven);
  EXPECT_EQ(links.all()[0].silent_since, at(1));
  links.NoteResult(0, channel, /*answered=*/true, at(2), at(4));
  EXPECT_TRUE(links.all()[0].is_proven);
  EXPECT_EQ(links.all()[0].silent_since, absl::InfiniteFuture());
  // It answered another call after this one was sent.
  links.NoteResult(0, channel, /*answered=*/false, at(3), at(5));
  EXPECT_EQ(links.all()[0].silent_since, at(4));

  Take(ViewOf(2, {"a"}, {2}), &links);
  links.NoteResult(0, channel, /*answered=*/true, at(6), at(7));  // of the former process
  EXPECT_FALSE(links.all()[0].is_proven);
}

TEST(PsLinksTest, RetiredChannelsAreKeptWhileTheyAreUsed) {
  PsLinks links;
  Take(ViewOf(1, {"a", "b"}, {1, 1}), &links);
  PsLinks::Channel used = links.channel(0);
  links.Close();
  EXPECT_EQ(links.channel(1), nullptr);
  EXPECT_EQ(links.TakeUnused().size(), 1u);
  EXPECT_TRUE(links.has_retired());
  used = nullptr;
  EXPECT_EQ(links.TakeUnused().size(), 1u);
  EXPECT_FALSE(links.has_retired());
}

}  // namespace
}  // namespace shoal

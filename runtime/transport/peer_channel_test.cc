#include "runtime/transport/peer_channel.h"

#include <grpcpp/channel.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <gtest/gtest.h>

#include <chrono>

namespace shoal {
namespace {

// Nobody listens there.
constexpr char kNowhere[] = "unix:/nonexistent/peer";

class PeerChannelTest : public testing::Test {
 protected:
  PeerChannel::Make Make() {
    return [this] {
      ++made_;
      return grpc::CreateChannel(kNowhere, grpc::InsecureChannelCredentials());
    };
  }
  // Waits for the end of an attempt to connect.
  static void Fail(grpc::Channel* channel) {
    const auto deadline = std::chrono::system_clock::now() + std::chrono::seconds(20);
    grpc_connectivity_state state = channel->GetState(/*try_to_connect=*/true);
    while (state != GRPC_CHANNEL_TRANSIENT_FAILURE) {
      ASSERT_TRUE(channel->WaitForStateChange(state, deadline));
      state = channel->GetState(false);
    }
  }
  int made_ = 0;
};

TEST_F(PeerChannelTest, OneThatCannotConnectIsReplaced) {
  PeerChannel peer(Make(), absl::ZeroDuration());
  const auto first = peer.channel();
  Fail(first.get());
  EXPECT_NE(peer.channel(), first);
  EXPECT_EQ(made_, 2);
}

TEST_F(PeerChannelTest, OneThatWasMadeAMomentAgoIsKept) {
  PeerChannel peer(Make(), absl::Hours(1));
  const auto first = peer.channel();
  Fail(first.get());
  EXPECT_EQ(peer.channel(), first);
  EXPECT_EQ(made_, 1);
}

TEST_F(PeerChannelTest, OneThatWasNotUsedIsKept) {
  PeerChannel peer(Make(), absl::ZeroDuration());
  const auto first = peer.channel();
  EXPECT_EQ(peer.channel(), first);
  EXPECT_EQ(made_, 1);
}

}  // namespace
}  // namespace shoal

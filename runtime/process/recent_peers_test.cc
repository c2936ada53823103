#include "runtime/process/recent_peers.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/unique_fd.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

PeersWanted AllOfAnHour() {
  PeersWanted wanted;
  wanted.within = absl::Hours(1);
  return wanted;
}
const PeersWanted kAll = AllOfAnHour();

uint16_t OwnPort(int fd) {
  sockaddr_in6 name = {};
  socklen_t size = sizeof(name);
  EXPECT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&name), &size), 0);
  return ntohs(name.sin6_port);
}

// A server on the loopback interface.
class RecentPeersTest : public ::testing::Test {
 protected:
  RecentPeersTest() : listener_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in any = {};
    any.sin_family = AF_INET;
    any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(bind(listener_.get(), reinterpret_cast<sockaddr*>(&any), sizeof(any)), 0);
    EXPECT_EQ(listen(listener_.get(), 10), 0);
    at_ = any;
    at_.sin_port = htons(OwnPort(listener_.get()));
  }

  // Both ends of a connection of which the client has sent `bytes`, all received.
  struct Connection {
    UniqueFd client, server;
    std::string from() const { return absl::StrCat("from 127.0.0.1:", OwnPort(client.get())); }
    std::string to() const { return absl::StrCat("to 127.0.0.1:", OwnPort(server.get())); }
  };
  Connection Connect(size_t bytes) {
    Connection made{UniqueFd(socket(AF_INET, SOCK_STREAM, 0)), UniqueFd()};
    EXPECT_EQ(connect(made.client.get(), reinterpret_cast<sockaddr*>(&at_), sizeof(at_)), 0);
    made.server.Reset(accept(listener_.get(), nullptr, nullptr));
    const std::string data(bytes, 'x');
    std::string got(bytes, ' ');
    for (size_t sent = 0; sent < bytes; sent += got.size()) {
      got.resize(std::min<size_t>(bytes - sent, 4096));
      const auto part = static_cast<ssize_t>(got.size());
      EXPECT_EQ(send(made.client.get(), data.data(), got.size(), 0), part);
      EXPECT_EQ(recv(made.server.get(), got.data(), got.size(), MSG_WAITALL), part);
    }
    return made;
  }

  const UniqueFd listener_;
  sockaddr_in at_ = {};
};

TEST_F(RecentPeersTest, PeersAreListedInTheOrderOfBytesReceived) {
  EXPECT_THAT(RecentPeers(kAll), IsEmpty());
  const Connection silent = Connect(0), busy = Connect(300), quiet = Connect(1), more = Connect(20);
  EXPECT_THAT(RecentPeers(kAll), ElementsAre(quiet.from(), more.from(), busy.from()));
  PeersWanted wanted = kAll;
  wanted.at_most_bytes = 20;
  EXPECT_THAT(RecentPeers(wanted), ElementsAre(quiet.from(), more.from()));
  wanted.within = -absl::Seconds(1);
  EXPECT_THAT(RecentPeers(wanted), IsEmpty()) << "all of it is longer ago";
}

TEST_F(RecentPeersTest, PeersThatThisProcessDialledAreListedIfWanted) {
  const Connection made = Connect(1);
  ASSERT_EQ(send(made.server.get(), "answer", 6, 0), 6);
  char answer[6];
  ASSERT_EQ(recv(made.client.get(), answer, sizeof(answer), MSG_WAITALL), 6);
  EXPECT_THAT(RecentPeers(kAll), ElementsAre(made.from()));
  PeersWanted wanted = kAll;
  wanted.dialled = true;
  EXPECT_THAT(RecentPeers(wanted), ElementsAre(made.from(), made.to()));
}

TEST_F(RecentPeersTest, ALineEndsWithAFew) {
  EXPECT_EQ(CameFrom(kAll.within), "");
  EXPECT_EQ(WasWith(kAll.within), "");
  const Connection a = Connect(1);
  const Connection b = Connect(2), c = Connect(3), d = Connect(4), old = Connect(40000);
  EXPECT_EQ(CameFrom(kAll.within),
            absl::StrCat(", it came ", a.from(), " or ", b.from(), " or ", c.from()));
  EXPECT_THAT(WasWith(kAll.within),
              StartsWith(absl::StrCat(", the connection is ", a.from(), " or ")));
  EXPECT_THAT(WasWith(kAll.within), Not(HasSubstr(old.from())));
}

}  // namespace
}  // namespace shoal

#include "runtime/transport/local_socket.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "base/system_random.h"

namespace shoal {
namespace {

class LocalSocketTest : public ::testing::Test {
 protected:
  // Sandboxes share these names, and number their processes alike.
  const std::string name_ = absl::StrCat("shoal-test-", SystemRandomHex());
  const UniqueFd listener_ = std::move(ListenLocal(name_).value());
};

TEST_F(LocalSocketTest, OurOwnUserIsLetIn) {
  const auto client = ConnectLocal(name_);
  ASSERT_TRUE(client.ok()) << client.status();
  const UniqueFd served = AcceptLocal(listener_);
  ASSERT_TRUE(served.is_valid());
  const int sent = 7;
  ASSERT_TRUE(SendMessage(client->get(), &sent, sizeof(sent), UniqueFd()).ok());
  int got = 0;
  ASSERT_TRUE(ReceiveMessage(served.get(), &got, sizeof(got), nullptr).ok());
  EXPECT_EQ(got, sent);
}

TEST_F(LocalSocketTest, AnotherUsersConnectionIsClosedBeforeItIsRead) {
  const auto client = ConnectLocal(name_);
  ASSERT_TRUE(client.ok()) << client.status();
  EXPECT_FALSE(AcceptLocal(listener_, geteuid() + 1).is_valid());
  int got = 0;
  EXPECT_EQ(ReceiveMessage(client->get(), &got, sizeof(got), nullptr).code(),
            absl::StatusCode::kUnavailable);
}

TEST_F(LocalSocketTest, AnotherUsersServerIsNotSpokenTo) {
  EXPECT_EQ(ConnectLocal(name_, geteuid() + 1).status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(LocalSocketTest, AListenerThatAcceptsNoConnectionIsGivenUp) {
  std::vector<UniqueFd> waiting;
  absl::Status status;
  while (status.ok() && waiting.size() < 1000) {
    auto client = ConnectLocal(name_);
    status = client.status();
    if (client.ok()) waiting.push_back(std::move(*client));
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace shoal

#include "runtime/tls/credentials.h"

#include <gtest/gtest.h>

#include "runtime/cluster/address.h"

namespace shoal {
namespace {

TEST(CredentialsTest, OnlyThisMachineCountsAsLoopback) {
  for (const char* address :
       {"127.0.0.1:0", "127.8.9.1:80", "localhost:1", "[::1]:5", "unix:/a/b"}) {
    EXPECT_TRUE(IsLoopbackAddress(address)) << address;
  }
  for (const char* address : {"0.0.0.0:0", "[::]:5", "10.0.0.1:1", "example.org:1", "", ":1",
                              "127.0.0.1.example.org:2", "128.0.0.1:1"}) {
    EXPECT_FALSE(IsLoopbackAddress(address)) << address;
  }
}

TEST(CredentialsTest, AnOpenAddressNeedsTheUsersWord) {
  EXPECT_TRUE(CheckListenAddress("127.0.0.1:0", false).ok());
  EXPECT_EQ(CheckListenAddress("0.0.0.0:0", false).code(), absl::StatusCode::kPermissionDenied);
  EXPECT_TRUE(CheckListenAddress("0.0.0.0:0", true).ok());
}

}  // namespace
}  // namespace shoal

#include "runtime/cluster/address.h"

#include "gtest/gtest.h"

#include "base/host_name.h"

namespace shoal {
namespace {

TEST(AddressTest, HostAndPortComeApartAndTogether) {
  EXPECT_EQ(GetHost("host:1"), "host");
  EXPECT_EQ(GetHost("[::1]:1"), "::1");
  EXPECT_EQ(GetPort("[::1]:1"), "1");
  EXPECT_EQ(GetPort("unix:/a:1"), "");
  EXPECT_EQ(JoinHostPort("host", 2222), "host:2222");
  EXPECT_EQ(JoinHostPort("::1", "0"), "[::1]:0");
  EXPECT_EQ(JoinHostPort("[::1]", 7), "[::1]:7");
}

TEST(AddressTest, AnAddressIsCheckedForItsUse) {
  const auto error = [](const char* address, AddressUse use) {
    return std::string(CheckAddress("--x", address, use).message());
  };
  for (const char* good : {"a:1", "[::1]:65535"}) {
    for (const AddressUse use : {AddressUse::kCall, AddressUse::kListen, AddressUse::kListenHttp}) {
      EXPECT_EQ(error(good, use), "");
    }
  }
  EXPECT_EQ(error("unix:/a", AddressUse::kCall), "");
  EXPECT_EQ(error("unix:/a", AddressUse::kListen), "");
  EXPECT_EQ(error("unix:/a", AddressUse::kListenHttp),
            "--x: \"unix:/a\" is a unix socket; write host:port or [v6]:port");
  EXPECT_EQ(error("a:0", AddressUse::kCall),
            "--x: \"a:0\" has port 0, which others cannot call; write host:port, [v6]:port or "
            "unix:path");
  EXPECT_EQ(error("a:0", AddressUse::kListen), "");
  EXPECT_EQ(error("a:0", AddressUse::kListenHttp), "");
  EXPECT_EQ(error("a:65536", AddressUse::kCall),
            "--x: \"a:65536\" has a port that is not a number from 1 to 65535; write host:port, "
            "[v6]:port or unix:path");
  EXPECT_EQ(error("a:65536", AddressUse::kListen),
            "--x: \"a:65536\" has a port that is not a number from 1 to 65535, or 0 for any free "
            "one; write host:port, [v6]:port or unix:path");
  EXPECT_EQ(error("a:-1", AddressUse::kListenHttp),
            "--x: \"a:-1\" has a port that is not a number from 1 to 65535, or 0 for any free one; "
            "write host:port or [v6]:port");
}

TEST(AddressTest, AnotherPortLeavesTheHostAsItIs) {
  EXPECT_EQ(WithPort("host:0", 5), "host:5");
  EXPECT_EQ(WithPort("[fe80::1]:0", "5"), "[fe80::1]:5");
  EXPECT_EQ(WithPort("unix:/a:1", 5), "unix:/a:1");
}

TEST(AddressTest, AWildcardIsDialledByTheNameOfItsHost) {
  const std::string name = HostName().empty() ? "localhost" : HostName();
  EXPECT_EQ(DialledAddress("0.0.0.0:5"), name + ":5");
  EXPECT_EQ(DialledAddress("[::]:5"), name + ":5");
  EXPECT_EQ(DialledAddress("10.0.0.1:5"), "10.0.0.1:5");
  EXPECT_EQ(DialledAddress("unix:/a"), "unix:/a");
}

TEST(AddressTest, EverywhereIsNotForLoopback) {
  EXPECT_EQ(OnAllInterfaces("ps-0.run:5"), "0.0.0.0:5");
  EXPECT_EQ(OnAllInterfaces("localhost:5"), "localhost:5");
  EXPECT_EQ(OnAllInterfaces("127.0.0.2:5"), "127.0.0.2:5");
}

}  // namespace
}  // namespace shoal

#include "runtime/cluster/address.h"

#include "gtest/gtest.h"

#include "base/host_name.h"

namespace shoal {
namespace {

TEST(AddressTest, HostAndPortComeApartAndTogether) {
  EXPECT_EQ(HostOf("host:1"), "host");
  EXPECT_EQ(HostOf("[::1]:1"), "::1");
  EXPECT_EQ(PortOf("[::1]:1"), "1");
  EXPECT_EQ(PortOf("unix:/a:1"), "");
  EXPECT_EQ(JoinHostPort("host", 2222), "host:2222");
  EXPECT_EQ(JoinHostPort("::1", "0"), "[::1]:0");
  EXPECT_EQ(JoinHostPort("[::1]", 7), "[::1]:7");
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
  EXPECT_EQ(EverywhereAt("ps-0.run:5"), "0.0.0.0:5");
  EXPECT_EQ(EverywhereAt("localhost:5"), "localhost:5");
  EXPECT_EQ(EverywhereAt("127.0.0.2:5"), "127.0.0.2:5");
}

}  // namespace
}  // namespace shoal

#include "base/system_random.h"

#include "gtest/gtest.h"

namespace shoal {
namespace {

TEST(SystemRandomTest, IsHexAndNeverTheSame) {
  const std::string first = SystemRandomHex();
  EXPECT_EQ(first.size(), 32u);
  EXPECT_EQ(first.find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_NE(first, SystemRandomHex());
}

}  // namespace
}  // namespace shoal

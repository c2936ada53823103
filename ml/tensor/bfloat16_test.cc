#include "ml/tensor/bfloat16.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "gtest/gtest.h"

namespace shoal {
namespace {

float FloatOf(uint32_t word) {
  float value;
  std::memcpy(&value, &word, sizeof(value));
  return value;
}

uint16_t Rounded(uint32_t word) { return Bfloat16(FloatOf(word)).bits; }

TEST(Bfloat16Test, EveryValueComesBackFromFloat) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    Bfloat16 value;
    value.bits = static_cast<uint16_t>(bits);
    const bool is_nan = (bits & 0x7fff) > 0x7f80;
    if (is_nan) {
      EXPECT_TRUE(std::isnan(static_cast<float>(value))) << bits;
    } else {
      EXPECT_EQ(Bfloat16(static_cast<float>(value)).bits, bits);
    }
  }
}

TEST(Bfloat16Test, RoundsToTheNearest) {
  EXPECT_EQ(Rounded(0x3f800000), 0x3f80);  // 1
  EXPECT_EQ(Rounded(0x3f807fff), 0x3f80);  // just below the middle
  EXPECT_EQ(Rounded(0x3f808001), 0x3f81);  // just above
  EXPECT_EQ(Rounded(0xbf808001), 0xbf81);
  EXPECT_EQ(Rounded(0x3fffffff), 0x4000);  // carries into the exponent
}

TEST(Bfloat16Test, TiesGoToTheEvenNeighbour) {
  EXPECT_EQ(Rounded(0x3f808000), 0x3f80);
  EXPECT_EQ(Rounded(0x3f818000), 0x3f82);
  EXPECT_EQ(Rounded(0xbf808000), 0xbf80);
  EXPECT_EQ(Rounded(0xbf818000), 0xbf82);
}

TEST(Bfloat16Test, OverflowIsInfinityAndInfinityStays) {
  EXPECT_EQ(Rounded(0x7f800000), 0x7f80);
  EXPECT_EQ(Rounded(0xff800000), 0xff80);
  EXPECT_EQ(Rounded(0x7f7fffff), 0x7f80);  // the largest float is nearer to the next power of two
  EXPECT_EQ(Rounded(0x7f7f7fff), 0x7f7f);
}

TEST(Bfloat16Test, NanStaysNanOfItsSign) {
  EXPECT_EQ(Rounded(0x7fc00000), 0x7fc0);
  EXPECT_EQ(Rounded(0x7f800001), 0x7fc0);  // its only bit is in the half that goes
  EXPECT_EQ(Rounded(0xff800001), 0xffc0);
  EXPECT_EQ(Rounded(0x7fffffff), 0x7fff);  // rounding up would have made it -0
  EXPECT_EQ(Rounded(0xffffffff), 0xffff);
}

TEST(Bfloat16Test, DenormalsAreRoundedNotFlushed) {
  EXPECT_EQ(Rounded(0x00000000), 0x0000);
  EXPECT_EQ(Rounded(0x80000000), 0x8000);  // -0
  EXPECT_EQ(Rounded(0x00000001), 0x0000);
  EXPECT_EQ(Rounded(0x00008000), 0x0000);  // a tie with 0
  EXPECT_EQ(Rounded(0x00008001), 0x0001);
  EXPECT_EQ(Rounded(0x00018000), 0x0002);
  EXPECT_EQ(Rounded(0x807f8000), 0x8080);  // up to the smallest normal number
  EXPECT_EQ(static_cast<float>(Bfloat16(std::numeric_limits<float>::min())),
            std::numeric_limits<float>::min());
}

TEST(Bfloat16Test, TheErrorIsAtMostHalfAUnitInTheLastPlace) {
  for (uint32_t word = 0x30000000; word < 0x50000000; word += 0x12345) {
    const float value = FloatOf(word);
    EXPECT_LE(std::fabs(static_cast<float>(Bfloat16(value)) - value), value / 256) << word;
  }
}

}  // namespace
}  // namespace shoal

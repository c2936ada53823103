#include "base/crc32c.h"

#include <cstdint>
#include <string>

#include "gtest/gtest.h"

namespace shoal {
namespace {

// These are the values of RFC 3720, B.4, and the usual check value of "123456789".
TEST(Crc32cTest, MatchesThePublishedVectors) {
  EXPECT_EQ(Crc32c(""), 0u);
  EXPECT_EQ(Crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(Crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  std::string rising;
  for (int i = 0; i < 32; ++i) rising.push_back(static_cast<char>(i));
  EXPECT_EQ(Crc32c(rising), 0x46dd794eu);
}

// Bit by bit, from the polynomial.
uint32_t SlowCrc32c(const std::string& bytes) {
  uint32_t crc = ~0u;
  for (const char byte : bytes) {
    crc ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0u);
  }
  return ~crc;
}

TEST(Crc32cTest, EveryLengthAndAlignmentAgreesWithTheDefinition) {
  std::string bytes;
  for (int i = 0; i < 3000; ++i) bytes.push_back(static_cast<char>(i * i + i / 7));
  for (size_t offset = 0; offset < 9; ++offset) {
    for (size_t size = 0; size < 2900; size += size < 300 ? 1 : 211) {
      const std::string piece = bytes.substr(offset, size);
      ASSERT_EQ(Crc32c(bytes.data() + offset, size), SlowCrc32c(piece)) << offset << " " << size;
    }
  }
}

TEST(Crc32cTest, ExtendingEqualsTheWhole) {
  EXPECT_EQ(ExtendCrc32c(Crc32c("12345"), "6789", 4), Crc32c("123456789"));
}

}  // namespace
}  // namespace shoal

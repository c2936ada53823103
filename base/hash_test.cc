#include "base/hash.h"

#include <cstdint>
#include <set>
#include <string>

#include "gtest/gtest.h"

namespace shoal {
namespace {

// Computed with the published C code of MurmurHash64A on a little-endian machine.
TEST(Fingerprint64Test, MatchesThePublishedFunction) {
  EXPECT_EQ(Fingerprint64(""), 0x0u);
  EXPECT_EQ(Fingerprint64("a"), 0x71717d2d36b6b11u);
  EXPECT_EQ(Fingerprint64("hidden1/weights"), 0xb72fe309bc96ad8u);
  EXPECT_EQ(Fingerprint64("hidden1/weights", 7), 0x58351dd575c4a7fbu);
}

TEST(Fingerprint64Test, EveryByteAndTheLengthMatter) {
  std::set<uint64_t> seen = {Fingerprint64(std::string(20, '\0'))};
  for (int i = 0; i < 20; ++i) {
    std::string bytes(20, '\0');
    bytes[i] = 1;
    EXPECT_TRUE(seen.insert(Fingerprint64(bytes)).second) << i;
    EXPECT_TRUE(seen.insert(Fingerprint64(std::string(i, '\0'))).second) << i;
  }
}

TEST(CombineFingerprintsTest, OrderMatters) {
  EXPECT_NE(CombineFingerprints(1, 2), CombineFingerprints(2, 1));
  EXPECT_NE(CombineFingerprints(0, 0), 0u);
}

}  // namespace
}  // namespace shoal

#include "base/random.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <vector>

#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/hash.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;

// These are from the known-answer file of the authors' Random123 library.
TEST(PhiloxTest, MatchesThePublishedVectors) {
  EXPECT_THAT(Philox(0, 0, 0), ElementsAre(0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u));
  EXPECT_THAT(Philox(~0ull, ~0ull, ~0ull),
              ElementsAre(0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu));
  EXPECT_THAT(Philox(0x299f31d0a4093822u, 0x0370734413198a2eu, 0x85a308d3243f6a88u),
              ElementsAre(0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u));
}

TEST(RandomBelowTest, StaysBelowTheBoundAndReachesAll) {
  std::vector<int> counts(7);
  for (int i = 0; i < 7000; ++i) ++counts.at(RandomBelow(1, i, 7));
  for (const int count : counts) EXPECT_NEAR(count, 1000, 150);
}

TEST(DeriveKeyTest, PurposesHaveDifferentKeys) {
  EXPECT_NE(DeriveKey(1, 0), DeriveKey(1, 1));
  EXPECT_NE(DeriveKey(1, 0), DeriveKey(2, 0));
  EXPECT_NE(DeriveKey(DeriveKey(1, 2), 3), DeriveKey(DeriveKey(1, 3), 2));
}

struct Filler {
  void (*fill)(uint64_t, uint64_t, absl::Span<float>);
  double mean;
  double variance;
  double low;
  double high;
  uint64_t fingerprint;
};

class FillTest : public ::testing::TestWithParam<Filler> {};

TEST_P(FillTest, HasTheMomentsAndTheRangeOfItsDistribution) {
  std::vector<float> values(200000);
  GetParam().fill(42, 0, absl::MakeSpan(values));
  double sum = 0;
  double squares = 0;
  for (const float value : values) {
    ASSERT_GE(value, GetParam().low);
    ASSERT_LE(value, GetParam().high);
    sum += value;
    squares += double{value} * value;
  }
  const double mean = sum / values.size();
  EXPECT_NEAR(mean, GetParam().mean, 0.01);
  EXPECT_NEAR(squares / values.size() - mean * mean, GetParam().variance, 0.01);
}

TEST_P(FillTest, PiecesEqualTheWhole) {
  std::vector<float> whole(103);
  GetParam().fill(42, 5, absl::MakeSpan(whole));
  std::vector<float> pieces(whole.size());
  size_t done = 0;
  for (const size_t piece : {1u, 2u, 3u, 64u, 33u}) {
    GetParam().fill(42, 5 + done, absl::MakeSpan(pieces).subspan(done, piece));
    done += piece;
  }
  EXPECT_EQ(pieces, whole);
}

// Every compiler and CPU must give the same bytes, because checkpoints and equivalence tests depend
// on it.
TEST_P(FillTest, BytesNeverChange) {
  std::vector<float> values(10000);
  GetParam().fill(7, 3, absl::MakeSpan(values));
  const absl::string_view bytes(reinterpret_cast<const char*>(values.data()),
                                values.size() * sizeof(float));
  EXPECT_EQ(Fingerprint64(bytes), GetParam().fingerprint);
}

// The variance of a normal cut at two standard deviations is 0.7737.
INSTANTIATE_TEST_SUITE_P(
    Distributions, FillTest,
    ::testing::Values(Filler{FillUniform, 0.5, 1.0 / 12, 0.0, 0.99999995, 3146629448224848717u},
                      Filler{FillNormal, 0.0, 1.0, -7.0, 7.0, 10785837602518996072u},
                      Filler{FillTruncatedNormal, 0.0, 0.7737, -2.0, 2.0, 5519052382468708360u}));

// Kolmogorov-Smirnov distance to the normal distribution; 1.63 / sqrt(n) is the 1 % level.
TEST(FillNormalTest, FollowsTheNormalDistribution) {
  std::vector<float> values(100000);
  FillNormal(9, 0, absl::MakeSpan(values));
  std::sort(values.begin(), values.end());
  double distance = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double cdf = 0.5 * std::erfc(-values[i] / std::sqrt(2.0));
    distance = std::max(distance, std::abs(cdf - (i + 0.5) / values.size()));
  }
  EXPECT_LT(distance, 1.63 / std::sqrt(values.size()));
}

TEST(PermutationTest, EverySizeIsABijection) {
  for (const uint64_t size : {1, 2, 3, 4, 5, 7, 8, 9, 31, 64, 100, 1000, 60000}) {
    const Permutation permutation(size, 1, 2);
    std::vector<uint64_t> image(size);
    for (uint64_t i = 0; i < size; ++i) image[i] = permutation(i);
    std::sort(image.begin(), image.end());
    std::vector<uint64_t> identity(size);
    std::iota(identity.begin(), identity.end(), 0);
    ASSERT_EQ(image, identity) << "size " << size;
  }
}

TEST(PermutationTest, SeedAndEpochChangeIt) {
  constexpr uint64_t kSize = 1000;
  const Permutation base(kSize, 1, 0);
  for (const Permutation& other : {Permutation(kSize, 1, 1), Permutation(kSize, 2, 0)}) {
    uint64_t same = 0;
    for (uint64_t i = 0; i < kSize; ++i) same += base(i) == other(i);
    EXPECT_LT(same, 10u);
  }
}

// Each element lands in each tenth about equally often, and neighbours do not stay together.
TEST(PermutationTest, Spreads) {
  constexpr uint64_t kSize = 1000;
  std::vector<int> tenths(10);
  int neighbours = 0;
  for (uint64_t epoch = 0; epoch < 1000; ++epoch) {
    const Permutation permutation(kSize, 5, epoch);
    ++tenths[permutation(17) / 100];
    neighbours += permutation(18) == permutation(17) + 1;
  }
  for (const int count : tenths) EXPECT_NEAR(count, 100, 45);
  EXPECT_LT(neighbours, 10);
}

TEST(PermutationTest, HugeSizesWork) {
  const Permutation permutation(~0ull, 1, 0);
  EXPECT_LT(permutation(0), ~0ull);
  EXPECT_NE(permutation(0), permutation(1));
}

}  // namespace
}  // namespace shoal

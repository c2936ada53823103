#include "runtime/variables/fold.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace shoal {
namespace {

using testing::ElementsAre;

std::vector<char> Sparse(const std::vector<uint32_t>& rows, const std::vector<float>& values) {
  std::vector<char> bytes((1 + rows.size() + values.size()) * 4);
  const uint32_t count = static_cast<uint32_t>(rows.size());
  std::memcpy(bytes.data(), &count, 4);
  if (!rows.empty()) std::memcpy(bytes.data() + 4, rows.data(), rows.size() * 4);
  if (!values.empty())
    std::memcpy(bytes.data() + 4 + rows.size() * 4, values.data(), values.size() * 4);
  return bytes;
}

Payload SparsePayload(const std::vector<char>& bytes) {
  return {ContributionKind::kSparse, bytes.data(), bytes.size()};
}

TEST(FoldTest, AddsWeightedContributionsAtAnyAlignment) {
  constexpr size_t n = 1300;
  const SliceShape shape{n, 1};
  std::vector<float> a(n), b(n);
  for (size_t i = 0; i < n; ++i) {
    a[i] = 1.0f / static_cast<float>(i + 1);
    b[i] = 3.0f - static_cast<float>(i);
  }
  for (size_t shift : {0, 1, 2, 3}) {
    std::vector<char> bytes(n * 4 + 4);
    std::memcpy(bytes.data() + shift, b.data(), n * 4);
    std::vector<float> sum(n, 99.0f);
    FoldPayload({ContributionKind::kDense, a.data(), n * 4}, shape, 3, true, sum.data());
    FoldPayload({ContributionKind::kDense, bytes.data() + shift, n * 4}, shape, 5, false,
                sum.data());
    for (size_t i = 0; i < n; ++i) {
      volatile float first = 3.0f * a[i];
      volatile float second = 5.0f * b[i];
      ASSERT_EQ(sum[i], first + second);
    }
  }
}

TEST(FoldTest, SparseRowsLandInTheirPlacesAndEmptyOnesCountAsZero) {
  const SliceShape shape{6, 2};
  std::vector<float> sum(6, 99.0f);
  const auto rows = Sparse({0, 2}, {1, 2, 3, 4});
  const auto none = Sparse({}, {});
  ASSERT_TRUE(PayloadFits(SparsePayload(rows), shape));
  ASSERT_TRUE(PayloadFits(SparsePayload(none), shape));
  FoldPayload(SparsePayload(none), shape, 7, true, sum.data());
  EXPECT_THAT(sum, ElementsAre(0, 0, 0, 0, 0, 0));
  FoldPayload(SparsePayload(rows), shape, 2, false, sum.data());
  FoldPayload(SparsePayload(rows), shape, 1, false, sum.data());
  EXPECT_THAT(sum, ElementsAre(3, 6, 0, 0, 9, 12));
}

TEST(FoldTest, PayloadsThatDoNotFitAreSeen) {
  const SliceShape shape{6, 2};
  const float six[6] = {};
  EXPECT_TRUE(PayloadFits({ContributionKind::kDense, six, 24}, shape));
  EXPECT_FALSE(PayloadFits({ContributionKind::kDense, six, 20}, shape));
  EXPECT_FALSE(PayloadFits({ContributionKind::kSparse, six, 3}, shape));
  EXPECT_FALSE(PayloadFits(SparsePayload(Sparse({3}, {1, 2})), shape));
  EXPECT_FALSE(PayloadFits(SparsePayload(Sparse({1, 1}, {1, 2, 3, 4})), shape));
  EXPECT_FALSE(PayloadFits(SparsePayload(Sparse({2, 1}, {1, 2, 3, 4})), shape));
  EXPECT_FALSE(PayloadFits(SparsePayload(Sparse({1}, {1, 2, 3})), shape));
  EXPECT_FALSE(PayloadFits(SparsePayload(Sparse({0, 1, 2, 3}, {1, 2, 3, 4, 5, 6, 7, 8})), shape));
}

TEST(FoldTest, EveryNonFiniteNumberIsSeen) {
  const SliceShape shape{700, 1};
  std::vector<float> values(700, std::numeric_limits<float>::max());
  const Payload payload{ContributionKind::kDense, values.data(), 2800};
  EXPECT_TRUE(PayloadIsFinite(payload, shape));
  for (float bad : {std::nanf(""), std::numeric_limits<float>::infinity(),
                    -std::numeric_limits<float>::infinity()}) {
    for (size_t where : {0, 511, 512, 699}) {
      values[where] = bad;
      EXPECT_FALSE(PayloadIsFinite(payload, shape));
      values[where] = -0.0f;
    }
  }
  EXPECT_FALSE(PayloadIsFinite(SparsePayload(Sparse({2}, {NAN, 1})), {6, 2}));
  EXPECT_TRUE(PayloadIsFinite(SparsePayload(Sparse({}, {})), {6, 2}));
}

}  // namespace
}  // namespace shoal

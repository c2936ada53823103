#include "runtime/variables/row_payload.h"

#include <vector>

#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "runtime/variables/contribution.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;

TEST(RowPayloadTest, KeysMustRiseAndLengthsFit) {
  RowScratch scratch;
  const auto decodes = [&](std::vector<uint64_t> keys, size_t dim_of_reader) {
    const std::vector<float> gradients(keys.size() * 2, 1);
    std::vector<char> bytes(RowPayloadBytes(keys.size(), 2));
    EncodeRows({keys, gradients.data()}, 2, bytes.data());
    const auto rows =
        DecodeRows({ContributionKind::kRows, bytes.data(), bytes.size()}, dim_of_reader, &scratch);
    return rows.has_value() && rows->keys == absl::MakeConstSpan(keys);
  };
  EXPECT_TRUE(decodes({1, 2, 9}, 2));
  EXPECT_TRUE(decodes({}, 2));
  EXPECT_FALSE(decodes({1, 1, 9}, 2));
  EXPECT_FALSE(decodes({2, 1, 9}, 2));
  EXPECT_FALSE(decodes({1, 2, 9}, 3));
}

TEST(RowPayloadTest, APayloadAtAnyAddressIsDecoded) {
  const std::vector<uint64_t> keys = {3, 5};
  const std::vector<float> gradients = {1, 2};
  std::vector<char> bytes(RowPayloadBytes(2, 1) + 8);
  for (size_t shift = 0; shift < 8; ++shift) {
    EncodeRows({keys, gradients.data()}, 1, bytes.data() + shift);
    RowScratch scratch;
    const auto rows = DecodeRows(
        {ContributionKind::kRows, bytes.data() + shift, RowPayloadBytes(2, 1)}, 1, &scratch);
    ASSERT_TRUE(rows.has_value()) << shift;
    EXPECT_THAT(rows->keys, ElementsAre(3, 5));
    EXPECT_EQ(rows->gradients[1], 2);
  }
}

}  // namespace
}  // namespace shoal

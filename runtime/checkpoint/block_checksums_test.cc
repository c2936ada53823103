#include "runtime/checkpoint/block_checksums.h"

#include <string>

#include "gtest/gtest.h"

#include "base/crc32c.h"
#include "base/status_matchers.h"

namespace shoal {
namespace {

TEST(BlockChecksumsTest, PiecesOfAnySizeGiveTheSame) {
  std::string bytes;
  for (int k = 0; k < 100; ++k) bytes.push_back(static_cast<char>(k * 7));
  for (size_t piece : {1, 3, 16, 17, 100}) {
    BlockChecksums checksums(16);
    for (size_t at = 0; at < bytes.size(); at += piece) {
      checksums.Append(absl::string_view(bytes).substr(at, piece));
    }
    EXPECT_EQ(checksums.file_bytes(), 100u);
    EXPECT_EQ(checksums.file_crc32c(), Crc32c(bytes));
    ASSERT_EQ(checksums.num_blocks(), 7u);
    EXPECT_EQ(checksums.block(0), Crc32c(bytes.substr(0, 16)));
    EXPECT_EQ(checksums.block(6), Crc32c(bytes.substr(96)));
  }
}

TEST(BlockChecksumsTest, SidecarsOfAllSizesAreReadBack) {
  for (size_t size : {0, 1, 15, 16, 17, 32, 100}) {
    BlockChecksums checksums(16);
    checksums.Append(std::string(size, 'x'));
    ASSERT_OK_AND_ASSIGN(const BlockChecksums decoded, BlockChecksums::Decode(checksums.Encode()));
    EXPECT_EQ(decoded.file_bytes(), size);
    EXPECT_EQ(decoded.block_bytes(), 16u);
    ASSERT_EQ(decoded.num_blocks(), checksums.num_blocks());
    for (uint64_t k = 0; k < decoded.num_blocks(); ++k) {
      EXPECT_EQ(decoded.block(k), checksums.block(k));
    }
  }
}

TEST(BlockChecksumsTest, EveryTruncationAndFlippedBitIsSeen) {
  BlockChecksums checksums(16);
  checksums.Append(std::string(40, 'x'));
  const std::string sidecar = checksums.Encode();
  for (size_t size = 0; size < sidecar.size(); ++size) {
    EXPECT_FALSE(BlockChecksums::Decode(sidecar.substr(0, size)).ok()) << size;
  }
  for (size_t bit = 0; bit < sidecar.size() * 8; ++bit) {
    std::string damaged = sidecar;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    EXPECT_FALSE(BlockChecksums::Decode(damaged).ok()) << bit;
  }
}

}  // namespace
}  // namespace shoal

#include "ml/kernels/cpu/gemm.h"

#include <algorithm>

#include "gtest/gtest.h"

namespace shoal::cpu {
namespace {

int64_t ChunksOf(int64_t rows, int64_t chunk) { return (rows + chunk - 1) / chunk; }

TEST(RowsPerChunkTest, ChunksAreWholeTilesUnlessThatLeavesThreadsWithoutOne) {
  for (int64_t tile : {1, 6, 14}) {
    for (int threads : {1, 2, 4, 16}) {
      for (int64_t rows = 1; rows < 700; ++rows) {
        const int64_t any = RowsPerChunk(rows, 64, threads);
        const int64_t chunk = RowsPerChunk(rows, 64, threads, tile);
        EXPECT_GE(ChunksOf(rows, chunk), std::min<int64_t>(threads, ChunksOf(rows, any)))
            << rows << " rows, " << threads << " threads, tiles of " << tile;
        if (chunk % tile == 0) continue;
        EXPECT_EQ(chunk, any);
        EXPECT_LT(ChunksOf(rows, ChunksOf(any, tile) * tile), threads);
      }
    }
  }
}

}  // namespace
}  // namespace shoal::cpu

#include "runtime/tables/table_use.h"

#include <atomic>
#include <thread>

#include "gtest/gtest.h"

namespace shoal {
namespace {

TEST(TableCountsTest, AddsUpWhatBucketsHoldAndWhatIsRead) {
  TableCounts counts;
  counts.Add(5, 100);
  counts.Add(-2, -40);
  counts.AddReads(7, 3);
  counts.AddReads(1, 1);
  EXPECT_EQ(counts.rows(), 3u);
  EXPECT_EQ(counts.bytes(), 60u);
  EXPECT_EQ(counts.reads().keys, 8u);
  EXPECT_EQ(counts.reads().found, 4u);
}

// A page of metrics subtracts the rows that were found from the keys while a ps reads rows.
TEST(TableCountsTest, NeverHasMoreRowsFoundThanKeysRead) {
  TableCounts counts;
  std::atomic<bool> is_done = false;
  std::thread reader([&] {
    for (int i = 0; i < 3000000; ++i) counts.AddReads(64, 64);
    is_done = true;
  });
  uint64_t wrong = 0;
  while (!is_done) {
    const TableCounts::Reads reads = counts.reads();
    if (reads.found > reads.keys) ++wrong;
  }
  reader.join();
  EXPECT_EQ(wrong, 0u);
  EXPECT_EQ(counts.reads().found, counts.reads().keys);
}

}  // namespace
}  // namespace shoal

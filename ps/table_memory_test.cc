#include "ps/table_memory.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/memory_limit.h"
#include "proto/v1/chief_service.pb.h"
#include "ps/memory_check.h"
#include "runtime/tables/table_use.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kMebibyte = 1 << 20;

MemoryBounds BoundsOf(uint64_t mebibytes) {
  return ComputeMemoryBounds(mebibytes * kMebibyte, {65536 * kMebibyte, "the machine", 1 << 30});
}

// Everything but the tables needs 50 MiB.
MemoryNeed Need() {
  MemoryNeed need;
  need.values = 18 * kMebibyte;
  need.process = 32 * kMebibyte;
  return need;
}

std::vector<TableUse> Tables() {
  return {{1, 1000, 30 * kMebibyte, 500, 400}, {3, 7, 1 * kMebibyte, 9, 9}};
}

TEST(TableMemoryTest, AReportHasEveryTableAndAddsThemToTheOtherNeeds) {
  TableMemory memory;
  memory.StartLineage(Need(), BoundsOf(300), {"w", "item", "b", "user"});
  const v1::PsMemory report = memory.Describe(Tables());
  EXPECT_EQ(report.used(), (50 + 30 + 1) * kMebibyte);
  EXPECT_EQ(report.limit(), 300 * kMebibyte);
  EXPECT_EQ(report.limit_set_by(), "cluster.ps_memory");
  ASSERT_EQ(report.tables_size(), 2);
  EXPECT_EQ(report.tables(0).name(), "item");
  EXPECT_EQ(report.tables(0).rows(), 1000u);
  EXPECT_EQ(report.tables(0).bytes(), 30 * kMebibyte);
  EXPECT_EQ(report.tables(0).keys_read(), 500u);
  EXPECT_EQ(report.tables(0).rows_found(), 400u);
  EXPECT_EQ(report.tables(1).name(), "user");
  EXPECT_EQ(report.tables(1).rows(), 7u);
}

TEST(TableMemoryTest, AnotherLineageHasOtherNeeds) {
  TableMemory memory;
  memory.StartLineage(Need(), BoundsOf(300), {"w", "item"});
  MemoryNeed more = Need();
  more.slots = 10 * kMebibyte;
  memory.StartLineage(more, BoundsOf(200), {"w", "thing"});
  const v1::PsMemory report = memory.Describe(Tables());
  EXPECT_EQ(report.limit(), 200 * kMebibyte);
  EXPECT_EQ(report.used(), (60 + 31) * kMebibyte);
  EXPECT_EQ(report.tables(0).name(), "thing");
}

TEST(TableMemoryTest, RowsThatDoNotFitAreRefusedWithTheRemedy) {
  EXPECT_TRUE(CheckTables(Need(), Tables(), BoundsOf(81)).ok());
  const absl::Status refused = CheckTables(Need(), Tables(), BoundsOf(80));
  EXPECT_TRUE(absl::IsFailedPrecondition(refused));
  EXPECT_THAT(refused.message(), HasSubstr("tables need 31 MiB"));
  EXPECT_THAT(refused.message(), HasSubstr("everything else 50 MiB"));
  EXPECT_THAT(refused.message(), HasSubstr("cluster.ps_memory allows 80 MiB; use more ps tasks"));
}

}  // namespace
}  // namespace shoal

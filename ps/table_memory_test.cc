#include "ps/table_memory.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/memory_limit.h"
#include "base/status_matchers.h"
#include "proto/v1/chief_service.pb.h"
#include "proto/v1/variable.pb.h"
#include "ps/memory_check.h"
#include "runtime/plan/slice_table.h"
#include "runtime/plan/step_plan.h"
#include "runtime/tables/table_use.h"
#include "runtime/variables/slice_source.h"
#include "runtime/variables/slice_store.h"

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

// The machine sets the limit of a ps without --ps_memory, and several ps that grow on it share it.
TEST(TableMemoryTest, TheLimitIsAtMostWhatThePsUsesAndWhatIsFreeWithEachReport) {
  MemoryLimit kernel{1000 * kMebibyte, "the machine", 1000 * kMebibyte};
  TableMemory memory([&kernel] { return kernel; }, [] { return 0; });
  memory.StartLineage(Need(), ComputeMemoryBounds(0, kernel), {"w", "item", "b", "user"});
  EXPECT_EQ(memory.Describe(Tables()).limit(), 1000 * kMebibyte);
  EXPECT_EQ(memory.Describe(Tables()).limit_set_by(), "the machine");
  kernel.available = 85 * kMebibyte;
  EXPECT_EQ(memory.Describe(Tables()).limit(), 85 * kMebibyte);
  EXPECT_EQ(memory.Describe(Tables()).limit_set_by(), "the free memory of the machine");
  kernel.available = 400 * kMebibyte;
  EXPECT_EQ(memory.Describe(Tables()).limit(), 400 * kMebibyte);
}

// The kernel kills a ps for what it has, not for what it counts.
TEST(TableMemoryTest, TheUseIsAtLeastThatOfTheProcessWhereTheKernelSetsTheLimit) {
  MemoryLimit kernel{1000 * kMebibyte, "the machine", 1000 * kMebibyte};
  uint64_t use = 80 * kMebibyte;
  TableMemory memory([&kernel] { return kernel; }, [&use] { return use; });
  memory.StartLineage(Need(), ComputeMemoryBounds(0, kernel), {"w", "item", "b", "user"});
  EXPECT_EQ(memory.Describe(Tables()).used(), 81 * kMebibyte);
  use = 950 * kMebibyte;
  EXPECT_EQ(memory.Describe(Tables()).used(), 950 * kMebibyte);
  memory.StartLineage(Need(), BoundsOf(300), {"w", "item", "b", "user"});
  EXPECT_EQ(memory.Describe(Tables()).limit_set_by(), "cluster.ps_memory");
  EXPECT_EQ(memory.Describe(Tables()).used(), 81 * kMebibyte);
  kernel.available = 200 * kMebibyte;
  EXPECT_EQ(memory.Describe(Tables()).limit_set_by(), "the free memory of the machine");
  EXPECT_EQ(memory.Describe(Tables()).used(), 950 * kMebibyte);
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
  const MemoryBounds shared =
      ComputeMemoryBounds(0, {65536 * kMebibyte, "the machine", 80 * kMebibyte});
  EXPECT_THAT(CheckTables(Need(), Tables(), shared).message(),
              HasSubstr("the free memory of the machine allows 80 MiB; use more ps tasks"));
}

// The chief asks again after RESOURCE_EXHAUSTED; the process that this ps replaces may still end.
TEST(TableMemoryTest, OnlyRowsThatExceedTheLimitItselfAreRefusedForGood) {
  const auto check = [](uint64_t limit, uint64_t available) {
    const MemoryBounds bounds =
        ComputeMemoryBounds(0, {limit * kMebibyte, "the machine", available * kMebibyte});
    return CheckTables(Need(), Tables(), bounds).code();
  };
  EXPECT_EQ(check(81, 81), absl::StatusCode::kOk);
  EXPECT_EQ(check(81, 80), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(check(65536, 80), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(check(80, 80), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(check(80, 10), absl::StatusCode::kFailedPrecondition);
}

// Buckets with one row of one float each; it counts those that were read.
class SmallBuckets : public SliceSource {
 public:
  absl::Status Fill(uint32_t, Contents*) override { return absl::OkStatus(); }
  absl::Status FillBucket(uint32_t slice, BucketContents* contents) override {
    ++num_read;
    contents->rows.keys = {slice};
    contents->rows.touched = {0};
    contents->rows.rows = {1};
    return absl::OkStatus();
  }

  uint64_t num_read = 0;
};

TEST(TableMemoryTest, ALoadEndsWhenItsRowsAreTooMany) {
  v1::VariableSpec item;
  item.set_name("item");
  item.add_shape(1);
  item.set_dtype(v1::DATA_TYPE_FLOAT32);
  item.set_update(v1::UPDATE_KIND_OPTIMIZER);
  item.mutable_table()->set_buckets(100);
  ASSERT_OK_AND_ASSIGN(const SliceTable table, SliceTable::Create({&item, 1}, 64));
  std::vector<uint32_t> owned;
  for (uint32_t slice = 0; slice < 100; ++slice) owned.push_back(slice);
  SliceStoreOptions options;
  options.update.schedule.learning_rate = 0.5;
  ASSERT_OK_AND_ASSIGN(const auto store, SliceStore::Create(options, {&item, 1}, table, owned));
  const SliceStore::LoadOptions load{1, 0, StepPlan::Create({0, 0, 1000, 1, 1}).value(), {}};
  for (const uint64_t most : {1000, 10}) {
    SmallBuckets buckets;
    BoundedSlices bounded(&buckets, [&] {
      // Each bucket stands for one of a real ps.
      const std::vector<TableUse> tables = {{0, 0, buckets.num_read * kMebibyte, 0, 0}};
      return CheckTables(Need(), tables, BoundsOf(50 + most), /*are_all=*/false);
    });
    const absl::Status loaded = store->Load(load, bounded);
    EXPECT_EQ(buckets.num_read, most == 10 ? 11u : 100u);
    if (most == 1000) {
      EXPECT_OK(loaded);
      EXPECT_EQ(store->TablesInUse()[0].rows, 100u);
      continue;
    }
    EXPECT_THAT(loaded, StatusIs(absl::StatusCode::kFailedPrecondition,
                                 HasSubstr("the rows of this ps's tables need more than 11 MiB")));
  }
}

}  // namespace
}  // namespace shoal

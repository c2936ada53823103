#include "chief/ledgers/table_memory_ledger.h"

#include <string>

#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "proto/v1/chief_service.pb.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr uint64_t kMebibyte = 1 << 20;
const absl::Time kStart = absl::UnixEpoch();

// A ps with 1000 MiB for the table "item" and the small table "user".
v1::PsMemory MemoryOf(uint64_t used, uint64_t rows) {
  v1::PsMemory memory;
  memory.set_used(used * kMebibyte);
  memory.set_limit(1000 * kMebibyte);
  memory.set_limit_set_by("cluster.ps_memory");
  v1::PsMemory::Table* user = memory.add_tables();
  user->set_name("user");
  user->set_rows(5);
  user->set_bytes(kMebibyte);
  v1::PsMemory::Table* item = memory.add_tables();
  item->set_name("item");
  item->set_rows(rows);
  item->set_bytes(used / 2 * kMebibyte);
  item->set_keys_read(2 * rows);
  item->set_rows_found(rows);
  return memory;
}

TEST(TableMemoryLedgerTest, KnowsNothingBeforeTheFirstReport) {
  const TableMemoryLedger ledger;
  v1::GetRunStatusResponse status;
  ledger.Describe(&status);
  EXPECT_EQ(status.tables_size(), 0);
  EXPECT_THAT(status.memory_warning(), IsEmpty());
  EXPECT_THAT(ledger.WhyFull(), IsEmpty());
}

TEST(TableMemoryLedgerTest, AddsUpTheTablesOfAllPsAndTheirGrowth) {
  TableMemoryLedger ledger;
  for (int second = 0; second <= 4; ++second) {
    const absl::Time now = kStart + absl::Seconds(second);
    ledger.OnReport(now, 0, 1, MemoryOf(100, 1000 + 100 * second));
    ledger.OnReport(now, 1, 1, MemoryOf(200, 3000 + 10 * second));
  }
  v1::GetRunStatusResponse status;
  ledger.Describe(&status);
  ASSERT_EQ(status.tables_size(), 2);
  const v1::GetRunStatusResponse::Table& item = status.tables(0);
  EXPECT_EQ(item.name(), "item");
  EXPECT_EQ(item.rows(), 1400u + 3040u);
  EXPECT_EQ(item.bytes(), 150 * kMebibyte);
  EXPECT_EQ(item.rows_per_second(), 110);
  EXPECT_EQ(item.keys_read(), 2 * item.rows());
  EXPECT_EQ(item.rows_found(), item.rows());
  EXPECT_EQ(status.tables(1).name(), "user");
  EXPECT_EQ(status.tables(1).rows(), 10u);
  EXPECT_EQ(status.tables(1).rows_per_second(), 0);
  EXPECT_THAT(status.memory_warning(), IsEmpty());
}

TEST(TableMemoryLedgerTest, ALineEveryTenSecondsAndThoseOfEvaluatedStepsHaveTheTables) {
  TableMemoryLedger ledger;
  EXPECT_THAT(ledger.TakeForLine(/*is_evaluated=*/true), IsEmpty());
  ledger.OnReport(kStart, 0, 1, MemoryOf(100, 1000));
  const auto tables = ledger.TakeForLine(/*is_evaluated=*/false);
  ASSERT_EQ(tables.size(), 2u);
  EXPECT_EQ(tables[0].name(), "item");
  EXPECT_EQ(tables[0].rows(), 1000u);
  EXPECT_THAT(ledger.TakeForLine(/*is_evaluated=*/false), IsEmpty());
  ledger.OnReport(kStart + absl::Seconds(9), 0, 1, MemoryOf(100, 2000));
  EXPECT_THAT(ledger.TakeForLine(/*is_evaluated=*/false), IsEmpty());
  ledger.OnReport(kStart + absl::Seconds(10), 0, 1, MemoryOf(100, 3000));
  EXPECT_EQ(ledger.TakeForLine(/*is_evaluated=*/false).at(0).rows(), 3000u);
  EXPECT_THAT(ledger.TakeForLine(/*is_evaluated=*/false), IsEmpty());
  EXPECT_EQ(ledger.TakeForLine(/*is_evaluated=*/true).at(0).rows(), 3000u);
}

TEST(TableMemoryLedgerTest, WarnsFromNineTenthsOnWithTheTablesTheTimeAndTheRemedy) {
  TableMemoryLedger ledger;
  ledger.OnReport(kStart, 0, 1, MemoryOf(500, 1000));
  ledger.OnReport(kStart, 1, 1, MemoryOf(899, 1000));
  EXPECT_THAT(ledger.Warning(), IsEmpty());
  for (int second = 0; second <= 10; ++second) {
    ledger.OnReport(kStart + absl::Seconds(second), 1, 1, MemoryOf(900 + 2 * second, 7000));
  }
  const std::string warning = ledger.Warning();
  EXPECT_THAT(warning,
              HasSubstr("ps/1 uses 920 MiB of the 1000 MiB that cluster.ps_memory allows"));
  EXPECT_THAT(warning, HasSubstr("item with 7000 rows (460 MiB), user with 5 rows (1 MiB)"));
  EXPECT_THAT(
      warning,
      HasSubstr("its room shrinks by 2.1 MiB per second, and it will be full in about 39s"));
  EXPECT_THAT(warning, HasSubstr("use more ps (--num_ps_tasks), raise --ps_memory, or begin "
                                 "a new run whose tables have `expiry` or `admission` "
                                 "(--init_state --init_from=DIRECTORY of this run keep rows, slots "
                                 "and counts)"));
  EXPECT_THAT(ledger.WhyFull(), IsEmpty());
  v1::GetRunStatusResponse status;
  ledger.Describe(&status);
  EXPECT_EQ(status.memory_warning(), warning);
}

TEST(TableMemoryLedgerTest, ATableThatMorePsCannotDivideNeedsMoreBuckets) {
  TableMemoryLedger ledger;
  ledger.OnReport(kStart, 1, 1, MemoryOf(950, 7000));
  ledger.SetBuckets(/*num_ps=*/2, {{"item", 3}, {"user", 1}});
  EXPECT_THAT(ledger.Warning(), HasSubstr("use more ps (--num_ps_tasks), raise --ps_memory, or "));
  ledger.SetBuckets(/*num_ps=*/2, {{"item", 2}, {"user", 8}});
  const std::string warning = ledger.Warning();
  EXPECT_THAT(warning, Not(HasSubstr("use more ps")));
  EXPECT_THAT(warning,
              HasSubstr("raise --ps_memory. Or begin a new run with --init_state "
                        "--init_from=DIRECTORY of this run, which keep rows, slots and counts, and "
                        "give table item more than 2 buckets, so that more ps "
                        "(--num_ps_tasks) can share it, or give the tables `expiry` or "
                        "`admission`"));
}

TEST(TableMemoryLedgerTest, APsIsFullTwoSecondsBeforeItWouldPassItsLimit) {
  TableMemoryLedger ledger;
  for (int second = 0; second <= 4; ++second) {
    ledger.OnReport(kStart + absl::Seconds(second), 0, 1, MemoryOf(860 + 20 * second, 1000));
  }
  EXPECT_THAT(ledger.WhyFull(), IsEmpty());  // 940 MiB, and 40 in two seconds.
  ledger.OnReport(kStart + absl::Seconds(5), 0, 1, MemoryOf(965, 1000));
  const std::string why = ledger.WhyFull();
  EXPECT_THAT(why, HasSubstr("ps/0 is full"));
  EXPECT_THAT(why, HasSubstr("965 MiB of the 1000 MiB"));
  EXPECT_THAT(why, HasSubstr("use more ps (--num_ps_tasks)"));
}

// A checkpoint can only be cut two steps later, and the tables grow until then.
TEST(TableMemoryLedgerTest, APsIsFullThreeStepsBeforeItWouldPassItsLimit) {
  for (const int seconds_per_step : {1, 5, 15}) {
    SCOPED_TRACE(seconds_per_step);
    TableMemoryLedger ledger;
    // Each step adds 2 MiB for each second that it takes.
    int full_at = 0;
    for (int second = 0; second <= 200 && full_at == 0; ++second) {
      const absl::Time now = kStart + absl::Seconds(second);
      const int steps = second / seconds_per_step;
      ledger.OnStep(now, static_cast<uint64_t>(steps));
      ledger.OnReport(now, 0, 1, MemoryOf(700 + 2 * steps * seconds_per_step, 1000));
      if (!ledger.WhyFull().empty()) full_at = 700 + 2 * steps * seconds_per_step;
    }
    const int growth_of_steps = 3 * 2 * seconds_per_step;
    EXPECT_GT(full_at, 0);
    EXPECT_LE(full_at, 1000 - growth_of_steps);
    EXPECT_GE(full_at, 1000 - 2 * growth_of_steps - 10);
  }
}

// The first step comes long after the start, and steps repeat after a rollback.
TEST(TableMemoryLedgerTest, AStartAndARollbackAreNotLongSteps) {
  TableMemoryLedger ledger;
  ledger.OnStep(kStart, 40);
  const absl::Time later = kStart + absl::Seconds(300);
  const auto report = [&ledger](absl::Time now, uint64_t step, int used) {
    ledger.OnStep(now, step);
    ledger.OnReport(now, 0, 1, MemoryOf(static_cast<uint64_t>(used), 1000));
  };
  for (int second = 0; second <= 4; ++second) {
    report(later + absl::Seconds(second), 50 + 10 * second, 920 + 2 * second);
    EXPECT_THAT(ledger.WhyFull(), IsEmpty());
  }
  const absl::Time again = later + absl::Seconds(100);
  for (int second = 0; second <= 4; ++second) {
    report(again + absl::Seconds(second), 20 + 10 * second, 920 + 2 * second);
    EXPECT_THAT(ledger.WhyFull(), IsEmpty());
  }
}

TEST(TableMemoryLedgerTest, APsThatDoesNotGrowIsFullOnlyAboveItsLimit) {
  TableMemoryLedger ledger;
  for (int second = 0; second <= 20; ++second) {
    ledger.OnReport(kStart + absl::Seconds(second), 0, 1, MemoryOf(1000, 7));
  }
  EXPECT_THAT(ledger.WhyFull(), IsEmpty());
  EXPECT_THAT(ledger.Warning(), HasSubstr("its room does not shrink now"));
  ledger.OnReport(kStart + absl::Seconds(21), 0, 1, MemoryOf(1001, 7));
  EXPECT_THAT(ledger.WhyFull(), HasSubstr("ps/0 is full"));
}

// Rows that are loaded at once are not growth.
TEST(TableMemoryLedgerTest, GrowthBeginsAnewWithALineageAndInAnotherProcess) {
  TableMemoryLedger ledger;
  ledger.OnReport(kStart, 0, 1, MemoryOf(100, 10));
  ledger.OnReport(kStart + absl::Seconds(1), 0, 2, MemoryOf(950, 10000));
  EXPECT_THAT(ledger.Warning(), HasSubstr("its room does not shrink now"));
  ledger.OnPsLost(0);
  EXPECT_THAT(ledger.Warning(), IsEmpty());
  ledger.OnReport(kStart + absl::Seconds(2), 0, 2, MemoryOf(990, 10000));
  EXPECT_THAT(ledger.WhyFull(), IsEmpty());
}

TEST(TableMemoryLedgerTest, GrowthIsThatOfTheLastSeconds) {
  TableMemoryLedger ledger;
  for (int second = 0; second <= 60; ++second) {
    const uint64_t used = second < 30 ? 30 * second : 900;
    ledger.OnReport(kStart + absl::Seconds(second), 0, 1, MemoryOf(used, 100 * used));
  }
  EXPECT_THAT(ledger.Warning(), HasSubstr("its room does not shrink now"));
  EXPECT_THAT(ledger.Warning(), Not(HasSubstr("per second")));
}

// Four ps that share a machine: each grows by 5 MiB in a second and loses 20 MiB of room.
TEST(TableMemoryLedgerTest, APsIsFullInTimeAlsoWhereOthersTakeTheMemory) {
  TableMemoryLedger ledger;
  for (int second = 0; second <= 6; ++second) {
    v1::PsMemory memory = MemoryOf(900 + 5 * second, 10);
    memory.set_limit((1050 - 15 * second) * kMebibyte);
    ledger.OnReport(kStart + absl::Seconds(second), 0, 1, memory);
    EXPECT_EQ(ledger.WhyFull().empty(), second < 6);  // 930 of 960 MiB: 30 MiB are left.
  }
  EXPECT_THAT(ledger.Warning(), HasSubstr("its room shrinks by 20.0 MiB per second"));
}

TEST(TableMemoryLedgerTest, AnotherLimitThanThatOfTheRunHasItsOwnRemedy) {
  TableMemoryLedger ledger;
  v1::PsMemory memory = MemoryOf(950, 10);
  memory.set_limit_set_by("the machine");
  ledger.OnReport(kStart, 0, 1, memory);
  EXPECT_THAT(ledger.Warning(), HasSubstr("that the machine allows"));
  EXPECT_THAT(ledger.Warning(), HasSubstr("use machines with more memory"));
}

}  // namespace
}  // namespace shoal

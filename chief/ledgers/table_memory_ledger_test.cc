#include "chief/ledgers/table_memory_ledger.h"

#include <algorithm>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/memory_limit.h"
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
  EXPECT_TRUE(ledger.WhyFull().ok());
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
  EXPECT_TRUE(ledger.WhyFull().ok());
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

TEST(TableMemoryLedgerTest, ATableThatNearlyHasTheMostRowsOfItsBucketsNeedsMoreBuckets) {
  TableMemoryLedger ledger;
  ledger.SetBuckets(/*num_ps=*/2, {{"item", 4}, {"user", 4}});
  constexpr uint64_t kMost = uint64_t{4} << 31;
  ledger.OnReport(kStart, 0, 1, MemoryOf(500, kMost / 2));
  ledger.OnReport(kStart, 1, 1, MemoryOf(500, kMost / 2 - kMost / 40));
  EXPECT_TRUE(ledger.WhyFull().ok());
  ledger.OnReport(kStart, 1, 1, MemoryOf(500, kMost / 2 - kMost / 60));
  const absl::Status status = ledger.WhyFull();
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("table item is full"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("set the table's buckets to 8"));
}

TEST(TableMemoryLedgerTest, APsIsFullTwoSecondsBeforeItWouldPassItsLimit) {
  TableMemoryLedger ledger;
  for (int second = 0; second <= 4; ++second) {
    ledger.OnReport(kStart + absl::Seconds(second), 0, 1, MemoryOf(860 + 20 * second, 1000));
  }
  EXPECT_TRUE(ledger.WhyFull().ok());  // 940 MiB, and 40 in two seconds.
  ledger.OnReport(kStart + absl::Seconds(5), 0, 1, MemoryOf(965, 1000));
  const absl::Status full = ledger.WhyFull();
  EXPECT_TRUE(absl::IsFailedPrecondition(full));
  const std::string why(full.message());
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
      if (!ledger.WhyFull().ok()) full_at = 700 + 2 * steps * seconds_per_step;
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
    EXPECT_TRUE(ledger.WhyFull().ok());
  }
  const absl::Time again = later + absl::Seconds(100);
  for (int second = 0; second <= 4; ++second) {
    report(again + absl::Seconds(second), 20 + 10 * second, 920 + 2 * second);
    EXPECT_TRUE(ledger.WhyFull().ok());
  }
}

TEST(TableMemoryLedgerTest, APsThatDoesNotGrowIsFullOnlyAboveItsLimit) {
  TableMemoryLedger ledger;
  for (int second = 0; second <= 20; ++second) {
    ledger.OnReport(kStart + absl::Seconds(second), 0, 1, MemoryOf(1000, 7));
  }
  EXPECT_TRUE(ledger.WhyFull().ok());
  EXPECT_THAT(ledger.Warning(), HasSubstr("its room does not shrink now"));
  ledger.OnReport(kStart + absl::Seconds(21), 0, 1, MemoryOf(1001, 7));
  EXPECT_THAT(std::string(ledger.WhyFull().message()), HasSubstr("ps/0 is full"));
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
  EXPECT_TRUE(ledger.WhyFull().ok());
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
    EXPECT_EQ(ledger.WhyFull().ok(), second < 6);  // 930 of 960 MiB: 30 MiB are left.
  }
  EXPECT_THAT(ledger.Warning(), HasSubstr("its room shrinks by 20.0 MiB per second"));
}

// A ps whose limit is what other processes leave it.
v1::PsMemory MemoryBesideOthers(uint64_t used, uint64_t limit) {
  v1::PsMemory memory = MemoryOf(used, 10);
  memory.set_limit(limit * kMebibyte);
  memory.set_limit_set_by(kFreeMemory);
  return memory;
}

// A compiler takes 3500 of the machine's 14,000 MiB within seven seconds, beside a ps of 10,000.
TEST(TableMemoryLedgerTest, MemoryThatOthersTakeAtOnceAndThatSufficesDoesNotEndTheRun) {
  TableMemoryLedger ledger;
  for (int second = 0; second <= 60; ++second) {
    const int taken = 500 * std::clamp(second - 20, 0, 7);
    ledger.OnReport(kStart + absl::Seconds(second), 0, 1,
                    MemoryBesideOthers(10000 + 2 * second, 14000 - taken));
    EXPECT_TRUE(ledger.WhyFull().ok()) << second << ": " << ledger.WhyFull();
  }
}

TEST(TableMemoryLedgerTest, AShortageThatOthersCauseAndThatLastsEndsTheRunUntilItIsStartedAgain) {
  for (const bool passes : {true, false}) {
    SCOPED_TRACE(passes);
    TableMemoryLedger ledger;
    int ends_at = 0;
    for (int second = 0; second <= 60 && ends_at == 0; ++second) {
      const bool is_short = second >= 20 && !(passes && second % 10 == 9);
      ledger.OnReport(kStart + absl::Seconds(second), 0, 1,
                      MemoryBesideOthers(10000 + 10 * second, is_short ? 10000 : 14000));
      if (!ledger.WhyFull().ok()) ends_at = second;
    }
    EXPECT_EQ(ends_at, passes ? 0 : 40);
    if (passes) continue;
    const absl::Status status = ledger.WhyFull();
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("ps/0 lacks memory for more rows, with 10400 MiB of the 10000 MiB that "
                          "the free memory of the machine allows"));
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("Other processes of its machine have taken the rest"));
    EXPECT_THAT(std::string(status.message()), HasSubstr("If the run is started again"));
  }
}

// They leave 20 MiB less each second: the run ends before there are none.
TEST(TableMemoryLedgerTest, MemoryThatOthersTakeEverMoreOfEndsTheRunInTime) {
  TableMemoryLedger ledger;
  int room = 0;
  for (int second = 0; second <= 100 && ledger.WhyFull().ok(); ++second) {
    room = 2000 - 20 * second;
    ledger.OnReport(kStart + absl::Seconds(second), 0, 1, MemoryBesideOthers(8000, 8000 + room));
  }
  EXPECT_TRUE(absl::IsUnavailable(ledger.WhyFull()));
  EXPECT_GE(room, 20 * 2);
  EXPECT_LE(room, 20 * 5);
}

TEST(TableMemoryLedgerTest, TablesThatFillAMachineByThemselvesEndTheRunForGood) {
  for (const uint32_t num_ps : {1, 4}) {
    SCOPED_TRACE(num_ps);
    TableMemoryLedger ledger;
    for (uint64_t second = 0; second <= 200 && ledger.WhyFull().ok(); ++second) {
      const uint64_t used = (200 + 10 * second) / num_ps;
      for (uint32_t ps = 0; ps < num_ps; ++ps) {
        ledger.OnReport(kStart + absl::Seconds(second), ps, 1,
                        MemoryBesideOthers(used, 1900 - used * (num_ps - 1)), "a");
      }
    }
    EXPECT_TRUE(absl::IsFailedPrecondition(ledger.WhyFull())) << ledger.WhyFull();
  }
}

// Ps of other machines do not explain where the memory of this one is.
TEST(TableMemoryLedgerTest, PsOfOtherMachinesDoNotTakeTheMemoryOfThisOne) {
  TableMemoryLedger ledger;
  for (uint64_t second = 0; second <= 60 && ledger.WhyFull().ok(); ++second) {
    for (const uint32_t ps : {0, 1}) {
      const bool is_short = ps == 1 && second >= 20;
      ledger.OnReport(kStart + absl::Seconds(second), ps, 1,
                      MemoryBesideOthers(1000 + 10 * second, is_short ? 1000 : 14000),
                      ps == 0 ? "a" : "b");
    }
  }
  EXPECT_TRUE(absl::IsUnavailable(ledger.WhyFull()));
  EXPECT_THAT(std::string(ledger.WhyFull().message()), HasSubstr("ps/1 lacks memory"));
}

// It may be a run that has filled the machine by itself and was started again.
TEST(TableMemoryLedgerTest, APsWithoutRoomFromItsStartOnIsFull) {
  TableMemoryLedger ledger;
  for (int second = 0; second <= 60 && ledger.WhyFull().ok(); ++second) {
    ledger.OnReport(kStart + absl::Seconds(second), 0, 1,
                    MemoryBesideOthers(990 + second / 2, 1000));
  }
  const absl::Status full = ledger.WhyFull();
  EXPECT_TRUE(absl::IsFailedPrecondition(full)) << full;
  EXPECT_THAT(std::string(full.message()),
              HasSubstr("ps/0 is full, with 1000 MiB of the 1000 MiB that the free memory of the "
                        "machine allows: item with 10 rows (500 MiB), user with 5 rows (1 MiB)"));
  EXPECT_THAT(std::string(full.message()),
              HasSubstr("use more ps (--num_ps_tasks), use machines with more memory or fewer "
                        "other processes, or begin a new run"));
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

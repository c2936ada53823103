#include "chief/ledgers/export_ledger.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(ExportLedgerTest, EveryNthCutGetsAnExportAndACutThatMustHaveOne) {
  ExportLedger exports(2);
  for (uint64_t version = 1; version <= 5; ++version) {
    exports.OnShard(version, /*must_have_one=*/version == 5);
    exports.OnShard(version, /*must_have_one=*/true);  // Only the first shard decides.
  }
  EXPECT_FALSE(exports.IsWanted(1));
  EXPECT_TRUE(exports.IsWanted(2));
  EXPECT_FALSE(exports.IsWanted(3));
  EXPECT_TRUE(exports.IsWanted(4));
  EXPECT_TRUE(exports.IsWanted(5));
  EXPECT_FALSE(exports.IsWanted(6)) << "it has no shard yet";
}

TEST(ExportLedgerTest, WithoutAPeriodOnlyCutsThatMustHaveOneGetAnExport) {
  ExportLedger exports(0);
  exports.OnShard(1, /*must_have_one=*/false);
  exports.OnShard(2, /*must_have_one=*/true);
  EXPECT_FALSE(exports.IsWanted(1));
  EXPECT_TRUE(exports.IsWanted(2));
}

TEST(ExportLedgerTest, NamesThePsWhosePartsAreMissing) {
  ExportLedger exports(1);
  exports.OnShard(3, false);
  EXPECT_THAT(exports.Missing(3, {0, 1, 2}), ElementsAre(0, 1, 2));
  exports.AddPart(1, 3);
  exports.AddPart(1, 3);  // repeated
  EXPECT_THAT(exports.Missing(3, {0, 1, 2}), ElementsAre(0, 2));
  exports.AddPart(0, 3);
  exports.AddPart(2, 3);
  EXPECT_THAT(exports.Missing(3, {0, 1, 2}), IsEmpty());
}

TEST(ExportLedgerTest, ALostPsEndsTheExportsThatLackItsPart) {
  ExportLedger exports(1);
  exports.OnShard(3, false);
  exports.OnShard(4, false);
  exports.AddPart(1, 3);
  exports.OnPsLost(1);
  EXPECT_TRUE(exports.IsWanted(3));
  EXPECT_FALSE(exports.IsWanted(4));
}

TEST(ExportLedgerTest, AnExportThatFailedOrWasForgottenIsNotWanted) {
  ExportLedger exports(1);
  for (uint64_t version = 1; version <= 4; ++version) exports.OnShard(version, false);
  exports.Fail(2);
  EXPECT_FALSE(exports.IsWanted(2));
  exports.ForgetBelow(2);
  EXPECT_FALSE(exports.IsWanted(1));
  exports.Forget(3);
  EXPECT_FALSE(exports.IsWanted(3));
  EXPECT_TRUE(exports.IsWanted(4));
  exports.OnRollback();
  EXPECT_FALSE(exports.IsWanted(4));
}

}  // namespace
}  // namespace shoal

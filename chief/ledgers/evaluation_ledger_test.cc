#include "chief/ledgers/evaluation_ledger.h"

#include "gtest/gtest.h"

namespace shoal {
namespace {

TEST(EvaluationLedgerTest, BlocksAreAddedInOrderAndCountOnce) {
  EvaluationLedger ledger(2);
  EXPECT_TRUE(ledger.Add(5, 1, {1e16, 3, 10}));
  EXPECT_TRUE(ledger.Add(5, 1, {7, 7, 7}));
  EXPECT_FALSE(ledger.Total(5).has_value());
  EXPECT_FALSE(ledger.Add(5, 2, {0, 0, 1}));
  EXPECT_TRUE(ledger.Add(5, 0, {1, 2, 10}));
  ASSERT_TRUE(ledger.Total(5).has_value());
  EXPECT_EQ(ledger.Total(5)->loss_sum, 1 + 1e16);
  EXPECT_EQ(ledger.Total(5)->correct, 5u);
  EXPECT_EQ(ledger.Total(5)->examples, 20u);
  ledger.ForgetAbove(4);
  EXPECT_EQ(ledger.NumMissing(5), 2u);
}

TEST(EvaluationLedgerTest, MetricsAreSumsOverTheBlocks) {
  EvaluationLedger ledger(2);
  const MetricSums first = {{0.5, 2, {}}, {0, 0, {{10, 1, 0}, {20, 0, 1}}}};
  const MetricSums second = {{1, 4, {}}, {0, 0, {{5, 0, 1}}}};
  EXPECT_TRUE(ledger.Add(5, 1, {0, 0, 2, second}));
  EXPECT_TRUE(ledger.Add(5, 1, {0, 0, 2, second}));
  EXPECT_TRUE(ledger.Add(5, 0, {0, 0, 4, first}));
  const MetricSums total = ledger.Total(5)->metrics;
  ASSERT_EQ(total.size(), 2u);
  EXPECT_EQ(MetricValue(total[0]), 0.25);
  // One of the two pairs of a positive and a negative example is in order.
  EXPECT_EQ(total[1].sum, 1);
  EXPECT_EQ(total[1].weight, 2);
}

}  // namespace
}  // namespace shoal

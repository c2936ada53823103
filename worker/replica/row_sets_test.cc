#include "worker/replica/row_sets.h"

#include <cmath>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "ml/data/ragged_rows.h"
#include "runtime/variables/exchange_groups.h"
#include "worker/replica/replica.h"
#include "worker/replica/two_tables_testing.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// The loss depends on the first table. The gradient of a row is minus its value.
class TableProgram : public TwoTablesProgram {
 public:
  const std::vector<TableLookups>& lookups() const override { return lookups_; }
  void UseRows(absl::Span<const TableRows> rows) override { rows_ = rows; }
  const float* RowGradients(size_t lookup) const override {
    return lookup == 0 ? gradients_.data() : nullptr;
  }
  absl::Status Train(const TrainArguments& arguments, BatchResult* result, OnFinal on_final,
                     absl::FunctionRef<void()> on_result) override {
    gradients_.clear();
    for (size_t i = 0; i < rows_[0].keys->keys.size() * kTestDim; ++i) {
      gradients_.push_back(-rows_[0].values[i]);
    }
    EXPECT_GE(rows_[0].capacity, static_cast<int64_t>(rows_[0].keys->keys.size()));
    FinishTraining(arguments, result, on_final, on_result);
    return absl::OkStatus();
  }
  absl::Status Evaluate(const LoadedBatch& /*batch*/, absl::Span<const float* const> /*parameters*/,
                        absl::Span<const uint64_t> /*versions*/, BatchResult* result) override {
    result->loss_sum = rows_[0].values[0];
    return absl::OkStatus();
  }
  std::string compute_fingerprint() const override { return "tables"; }

 private:
  const std::vector<TableLookups> lookups_ = {{1, {{0}}}, {2, {{0}}}};
  absl::Span<const TableRows> rows_;
  std::vector<float> gradients_;
};

class RowSetsTest : public ::testing::Test {
 protected:
  // Makes a batch of one example with these keys.
  void MakeBatch(int64_t index, std::vector<int64_t> keys) {
    ragged_.Clear();
    ragged_.AddExample(keys);
    digest_ = replica_.MakeDigest();
    batch_ = LoadedBatch();
    batch_.index = index;
    batch_.num_examples = 1;
    batch_.fields = {&ragged_};
    ASSERT_TRUE(digest_->Update(batch_).ok());
    batch_.digest = digest_.get();
  }

  void Pull(uint32_t set) { FillPulledRows(*replica_.rows(), table_, groups_, set); }

  struct Pushed : PushedRows {
    std::vector<bool> finite;  // one for each group of buckets
  };
  Pushed Train(Replica* replica, uint32_t set) {
    Pushed pushed;
    const absl::Status status = replica->Train(
        batch_, set, set, [&](uint32_t group, bool finite, const BatchReport& /*report*/) {
          if (!groups_[group].buckets) return;
          pushed.finite.push_back(finite);
          for (size_t i = 0; i < groups_[group].slices.size(); ++i) {
            EXPECT_NE(replica->push_data(set, group)[i], nullptr);
          }
          AddPushedRows(*replica, table_, groups_[group], group, set, &pushed);
        });
    EXPECT_TRUE(status.ok()) << status;
    return pushed;
  }

  TableProgram program_;
  const SliceTable table_ = *SliceTable::Create(program_.variables(), 4096);
  // Two ps, each with some buckets of both tables.
  const std::vector<ExchangeGroup> groups_ = MakeExchangeGroups(table_, {0, 0, 1, 0, 1, 1, 0});
  Replica replica_ = Replica(&program_, &table_, &groups_);
  RaggedRows ragged_;
  std::unique_ptr<BatchDigest> digest_;
  LoadedBatch batch_;
};

TEST_F(RowSetsTest, KeysOfABucketThatDoNotFitAMessageAreAnErrorWithTheRemedy) {
  std::vector<int64_t> keys(400'000);
  std::iota(keys.begin(), keys.end(), 0);
  MakeBatch(3, keys);
  EXPECT_EQ(replica_.rows()->CheckFits(GetKeys(batch_)), absl::OkStatus());
  keys.resize(600'000);
  std::iota(keys.begin(), keys.end(), 0);
  MakeBatch(4, keys);
  const absl::Status status = replica_.rows()->CheckFits(GetKeys(batch_));
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("table b: batch 4 has 300"));
  EXPECT_THAT(std::string(status.message()), HasSubstr(" keys in one of 2 buckets; with their rows "
                                                       "of 2 numbers they have 4"));
  EXPECT_THAT(
      std::string(status.message()),
      HasSubstr(
          "a message holds 4194304; set the table's buckets to 6 (--set=table[0].buckets=6 if it "
          "is the run file's first table), or make batch_size smaller; a run that has a "
          "checkpoint keeps its buckets"));
  const std::string of_a_block(
      replica_.rows()->CheckFits(GetKeys(batch_), /*is_evaluated=*/true).message());
  EXPECT_THAT(of_a_block, HasSubstr("table b: block 4 of the test data has 300"));
  EXPECT_THAT(of_a_block, HasSubstr(", or make data.evaluation_block smaller"));
}

TEST(RemedyForFullBucketTest, ATableHasAtMost65536Buckets) {
  const uint64_t message = 4194304;
  EXPECT_EQ(
      RemedyForFullBucket(21845, message, "batch_size"),
      "set the table's buckets to 65535 (--set=table[0].buckets=65535 if it is the run file's "
      "first table), or make batch_size smaller; a run that has a checkpoint keeps its buckets, so "
      "a new run must continue it, with --init_state --init_from=DIRECTORY of this run, which "
      "keep its rows, slots and counts");
  EXPECT_EQ(
      RemedyForFullBucket(21846, message, "batch_size"),
      "set the table's buckets to 65536 (--set=table[0].buckets=65536 if it is the run file's "
      "first table), and make batch_size smaller; a run that has a checkpoint keeps its buckets, "
      "so "
      "a new run must continue it, with --init_state --init_from=DIRECTORY of this run, which "
      "keep its rows, slots and counts");
  EXPECT_EQ(RemedyForFullBucket(65536, message, "batch_size"),
            "make batch_size smaller, since a table cannot have more buckets");
}

TEST_F(RowSetsTest, ABatchPushesTheGradientsOfItsRowsToTheirBuckets) {
  for (const std::vector<int64_t>& keys :
       {std::vector<int64_t>{5, 3, 5, 9, 12, 40}, {7}, {}, {1, 2, 3, 4, 5, 6, 7, 8, 9}}) {
    MakeBatch(static_cast<int64_t>(keys.size()), keys);
    RowSets& rows = *replica_.rows();
    EXPECT_FALSE(rows.IsPreparedFor(1, GetKeys(batch_)));
    rows.Prepare(1, &GetKeys(batch_));
    EXPECT_TRUE(rows.IsPreparedFor(1, GetKeys(batch_)));
    EXPECT_FALSE(rows.IsPreparedFor(0, GetKeys(batch_)));
    Pull(1);
    const Pushed pushed = Train(&replica_, 1);
    EXPECT_THAT(pushed.finite, ElementsAre(true, true));
    std::map<uint64_t, std::vector<float>> expected;
    for (const int64_t key : keys) {
      const auto first = static_cast<float>(-10 * key);
      expected[static_cast<uint64_t>(key)] = {first, first - 1};
    }
    EXPECT_EQ(pushed.tables[0], expected);
    EXPECT_THAT(pushed.tables[1], IsEmpty());
  }
}

TEST_F(RowSetsTest, WithoutABatchASetPullsVersionsOnly) {
  MakeBatch(1, {1, 2, 3});
  replica_.rows()->Prepare(0, &GetKeys(batch_));
  replica_.rows()->Prepare(0, nullptr);
  EXPECT_FALSE(replica_.rows()->IsPreparedFor(0, GetKeys(batch_)));
  for (uint32_t g = 0; g < groups_.size(); ++g) {
    for (size_t i = 0; groups_[g].buckets && i < groups_[g].slices.size(); ++i) {
      EXPECT_EQ(replica_.rows()->pulls(0, g)[i].num_keys, 0u);
    }
  }
}

TEST_F(RowSetsTest, EvaluationHasItsOwnRows) {
  MakeBatch(1, {6});
  replica_.rows()->Prepare(RowSets::kEvaluationSet, &GetKeys(batch_));
  Pull(RowSets::kEvaluationSet);
  MakeBatch(2, {4});
  replica_.rows()->Prepare(0, &GetKeys(batch_));
  Pull(0);
  BatchResult result;
  ASSERT_TRUE(replica_.Evaluate(batch_, 0, &result).ok());
  EXPECT_EQ(result.loss_sum, 60);
}

TEST_F(RowSetsTest, AGroupWithAGradientThatIsNotFiniteIsNotFinite) {
  MakeBatch(1, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  replica_.rows()->Prepare(0, &GetKeys(batch_));
  Pull(0);
  int num_broken = 0;
  for (uint32_t g = 0; g < groups_.size(); ++g) {
    for (size_t i = 0; groups_[g].buckets && i < groups_[g].slices.size(); ++i) {
      const RowPull& pull = replica_.rows()->pulls(0, g)[i];
      const bool is_first_table = table_[groups_[g].slices[i]].variable == 1;
      if (groups_[g].ps == 0 || !is_first_table || pull.num_keys == 0) continue;
      pull.values[0] = INFINITY;
      ++num_broken;
    }
  }
  ASSERT_GT(num_broken, 0);
  const Pushed pushed = Train(&replica_, 0);
  size_t next = 0;
  for (const ExchangeGroup& group : groups_) {
    if (!group.buckets) continue;
    EXPECT_EQ(pushed.finite[next++], group.ps == 0);
  }
}

// The norm is that of the weight's gradient (3, 3) and of the row's (-20, -21).
TEST_F(RowSetsTest, RowsAreClippedTogetherWithTheOtherGradients) {
  Replica clipping(&program_, &table_, &groups_, /*clip_by_global_norm=*/1);
  MakeBatch(1, {2});
  clipping.rows()->Prepare(0, &GetKeys(batch_));
  replica_.rows()->Prepare(0, &GetKeys(batch_));
  Pull(0);
  for (uint32_t g = 0; g < groups_.size(); ++g) {
    for (size_t i = 0; groups_[g].buckets && i < groups_[g].slices.size(); ++i) {
      const RowPull& from = replica_.rows()->pulls(0, g)[i];
      const RowPull& to = clipping.rows()->pulls(0, g)[i];
      for (uint64_t k = 0; k < from.num_keys * kTestDim; ++k) to.values[k] = from.values[k];
    }
  }
  const double norm = std::sqrt(9 + 9 + 400 + 441);
  const std::vector<float> row = Train(&clipping, 0).tables[0].at(2);
  EXPECT_NEAR(row[0], -20 / norm, 1e-6);
  EXPECT_NEAR(row[1], -21 / norm, 1e-6);
}

}  // namespace
}  // namespace shoal

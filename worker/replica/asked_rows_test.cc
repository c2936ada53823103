#include "worker/replica/asked_rows.h"

#include <map>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "runtime/variables/exchange_groups.h"
#include "worker/replica/replica.h"
#include "worker/replica/two_tables_testing.h"

namespace shoal {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::Lt;
using ::testing::Pair;

// A batch asks for rows as `calls` say; the gradient of row i of call c is 100 * c + i.
class AskingProgram : public TwoTablesProgram {
 public:
  using Call = std::map<size_t, std::vector<uint64_t>>;  // keys by lookup

  const std::vector<TableLookups>& lookups() const override { return lookups_; }
  bool asks_for_rows() const override { return true; }
  void UseAskedRows(AskedRows* asked) override { asked_ = asked; }
  const float* RowGradients(size_t lookup) const override { return asked_->gradients(lookup); }
  absl::Status Train(const TrainArguments& arguments, BatchResult* result, OnFinal on_final,
                     absl::FunctionRef<void()> on_result) override {
    Ask();
    FinishTraining(arguments, result, on_final, on_result);
    return absl::OkStatus();
  }
  absl::Status Evaluate(const LoadedBatch& /*batch*/, absl::Span<const float* const> /*parameters*/,
                        absl::Span<const uint64_t> /*versions*/, BatchResult* /*result*/) override {
    Ask();
    return absl::OkStatus();
  }
  std::string compute_fingerprint() const override { return "asks"; }

  std::vector<Call> calls;
  std::vector<std::vector<float>> received;  // indexed by call and table

 private:
  void Ask() {
    received.clear();
    gradients_.clear();
    for (const Call& call : calls) gradients_.resize(gradients_.size() + call.size());
    size_t next = 0;
    for (size_t c = 0; c < calls.size(); ++c) {
      std::vector<AskedRows::Request> requests;
      const size_t first = received.size();
      for (const auto& [lookup, keys] : calls[c]) {
        received.emplace_back(keys.size() * kTestDim, -1.0f);
        for (size_t i = 0; i < keys.size() * kTestDim; ++i) {
          gradients_[next].push_back(100.0f * static_cast<float>(c) +
                                     static_cast<float>(i / kTestDim));
        }
        ++next;
      }
      size_t at = first;
      for (const auto& [lookup, keys] : calls[c]) {
        requests.push_back({lookup, keys, received[at].data(), gradients_[at].data()});
        ++at;
      }
      asked_->Get(requests);
    }
  }

  const std::vector<TableLookups> lookups_ = {{1, {}}, {2, {}}};
  AskedRows* asked_ = nullptr;
  std::vector<std::vector<float>> gradients_;
};

class AskedRowsTest : public ::testing::Test {
 protected:
  // Does what a trainer does: pulls rows whose values are 10 * key and 10 * key + 1.
  void Begin(uint32_t set) {
    pulls_ = 0;
    replica_.asked_rows()->Begin(batch_, set, [this, set](const BatchKeys& keys) {
      ++pulls_;
      Pull(set, keys);
      return are_there_;
    });
  }

  void Pull(uint32_t set, const BatchKeys& keys) {
    replica_.rows()->Prepare(set, &keys);
    FillPulledRows(*replica_.rows(), table_, groups_, set);
  }

  // Names keys for the batch, which is (0, 4) from then on, and pulls them into set 1.
  void PullAhead(const std::vector<uint64_t>& a, const std::vector<uint64_t>& b) {
    AskedRows& asked = *replica_.asked_rows();
    asked.NameAhead({0, 4}, {a, b});
    ASSERT_NE(asked.KeysAhead({0, 4}), nullptr);
    Pull(/*set=*/1, *asked.KeysAhead({0, 4}));
    batch_.index = 4;
  }

  // The first number of each row that a batch pushes, by table and key.
  std::map<uint64_t, float> pushed_[2];
  int groups_handed_over_ = 0;

  void Train() {
    PushedRows pushed;
    groups_handed_over_ = 0;
    Begin(/*set=*/1);
    const absl::Status status =
        replica_.Train(batch_, 1, 0, [&](uint32_t g, bool finite, const BatchReport&) {
          ++groups_handed_over_;
          EXPECT_TRUE(finite);
          if (groups_[g].buckets) AddPushedRows(replica_, table_, groups_[g], g, 0, &pushed);
        });
    EXPECT_TRUE(status.ok()) << status;
    for (size_t t = 0; t < 2; ++t) {
      pushed_[t].clear();
      for (const auto& [key, row] : pushed.tables[t]) pushed_[t][key] = row[0];
    }
  }

  AskingProgram program_;
  const SliceTable table_ = SliceTable::Create(program_.variables(), 1 << 10).value();
  const std::vector<ExchangeGroup> groups_ =
      MakeExchangeGroups(table_, std::vector<uint32_t>(table_.size(), 0));
  Replica replica_{&program_, &table_, &groups_};
  LoadedBatch batch_;
  bool are_there_ = true;
  int pulls_ = 0;
};

TEST_F(AskedRowsTest, RowsComeInTheOrderOfTheKeys) {
  EXPECT_EQ(replica_.MakeDigest(), nullptr);
  program_.calls = {{{0, {3, 5, 900}}, {1, {7}}}};
  Train();
  EXPECT_EQ(pulls_, 1);
  EXPECT_THAT(program_.received[0], ElementsAre(30, 31, 50, 51, 9000, 9001));
  EXPECT_THAT(program_.received[1], ElementsAre(70, 71));
  EXPECT_THAT(pushed_[0], ElementsAre(Pair(3, 0), Pair(5, 1), Pair(900, 2)));
  EXPECT_THAT(pushed_[1], ElementsAre(Pair(7, 0)));
}

TEST_F(AskedRowsTest, GradientsOfAKeyAreSummedOverTheCalls) {
  program_.calls = {{{0, {3, 5}}}, {{0, {1, 3}}, {1, {2}}}, {{0, {3}}}};
  Train();
  EXPECT_EQ(pulls_, 3);
  EXPECT_THAT(pushed_[0], ElementsAre(Pair(1, 100), Pair(3, 0 + 101 + 200), Pair(5, 1)));
  EXPECT_THAT(pushed_[1], ElementsAre(Pair(2, 100)));
  program_.calls = {{{1, {9}}}};  // Nothing is left of the batch before.
  Train();
  EXPECT_TRUE(pushed_[0].empty());
  EXPECT_THAT(pushed_[1], ElementsAre(Pair(9, 0)));
}

TEST_F(AskedRowsTest, ABatchThatAsksForNothingContributesNoRows) {
  Train();
  EXPECT_TRUE(pushed_[0].empty() && pushed_[1].empty());
  EXPECT_EQ(groups_handed_over_, static_cast<int>(groups_.size()));
}

TEST_F(AskedRowsTest, ABatchWhoseRowsAreGoneContributesNothing) {
  are_there_ = false;
  program_.calls = {{{0, {3}}}, {{0, {4}}}};
  Train();
  EXPECT_TRUE(replica_.asked_rows()->are_gone());
  EXPECT_EQ(pulls_, 1) << "nothing is pulled for a batch that is dropped";
  // A program that divides by the norm of a row gets numbers.
  for (const std::vector<float>& values : program_.received) {
    EXPECT_THAT(values, ElementsAre(AllOf(Ge(0.5f), Lt(1.0f)), AllOf(Ge(0.5f), Lt(1.0f))));
  }
  EXPECT_NE(program_.received[0], program_.received[1]);
  EXPECT_EQ(groups_handed_over_, 0);
  are_there_ = true;
  Train();
  EXPECT_FALSE(replica_.asked_rows()->are_gone());
  EXPECT_EQ(groups_handed_over_, static_cast<int>(groups_.size()));
}

TEST_F(AskedRowsTest, RowsOfKeysThatWereNamedAheadAreThere) {
  PullAhead({1, 3, 5, 900}, {2, 7});
  program_.calls = {{{0, {3, 900}}}, {{0, {5}}, {1, {7}}}};
  Train();
  EXPECT_EQ(pulls_, 0);
  EXPECT_THAT(program_.received[0], ElementsAre(30, 31, 9000, 9001));
  EXPECT_THAT(program_.received[1], ElementsAre(50, 51));
  EXPECT_THAT(program_.received[2], ElementsAre(70, 71));
  // Rows that are named and not asked for are not touched.
  EXPECT_THAT(pushed_[0], ElementsAre(Pair(3, 0), Pair(5, 100), Pair(900, 1)));
  EXPECT_THAT(pushed_[1], ElementsAre(Pair(7, 100)));
}

TEST_F(AskedRowsTest, KeysThatWereNotNamedAreStillPulled) {
  PullAhead({3, 5}, {});
  program_.calls = {{{0, {5}}}, {{0, {3, 4}}, {1, {7}}}, {{0, {3}}}};
  Train();
  EXPECT_EQ(pulls_, 2) << "the pull of the second call replaces what was there";
  EXPECT_THAT(program_.received[1], ElementsAre(30, 31, 40, 41));
  EXPECT_THAT(program_.received[2], ElementsAre(70, 71));
  EXPECT_THAT(program_.received[3], ElementsAre(30, 31));
  EXPECT_THAT(pushed_[0], ElementsAre(Pair(3, 100 + 200), Pair(4, 101), Pair(5, 0)));
}

TEST_F(AskedRowsTest, RowsAreOfOneBatchAndOneSet) {
  program_.calls = {{{0, {3}}}};
  PullAhead({3}, {});
  batch_.index = 5;
  Train();
  EXPECT_EQ(pulls_, 1) << "another batch";
  batch_.index = 4;
  Train();
  EXPECT_EQ(pulls_, 1) << "the set has the rows of the call before";
  PullAhead({3}, {});
  batch_.epoch = 1;
  Train();
  EXPECT_EQ(pulls_, 1) << "another epoch";
  PullAhead({3}, {});
  batch_.epoch = 0;
  Begin(RowSets::kEvaluationSet);
  BatchResult result;
  ASSERT_TRUE(replica_.Evaluate(batch_, 0, &result).ok());
  EXPECT_EQ(pulls_, 1) << "another set";
  EXPECT_EQ(replica_.asked_rows()->KeysAhead({0, 5}), nullptr);
}

TEST_F(AskedRowsTest, AnEvaluationHasRowsToo) {
  program_.calls = {{{1, {8}}}};
  Begin(RowSets::kEvaluationSet);
  BatchResult result;
  ASSERT_TRUE(replica_.Evaluate(batch_, 0, &result).ok());
  EXPECT_THAT(program_.received[0], ElementsAre(80, 81));
}

}  // namespace
}  // namespace shoal

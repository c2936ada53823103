#include "runtime/tables/bucket.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/random.h"
#include "base/status_matchers.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr uint32_t kDim = 5;
constexpr uint64_t kSeed = 7;
constexpr float kRate = 0.1f;

TableOptions Options(OptimizerKind kind) {
  TableOptions options;
  options.name = "item";
  options.dim = kDim;
  options.optimizer.kind = kind;
  options.initializer = NormalInitializer(0, 0.5);
  return options;
}

struct Contribution {
  std::vector<uint64_t> keys;
  std::vector<float> gradients;
  uint32_t examples = 1;

  RowGradients view() const { return {keys, gradients.data()}; }
};

// The definition of a bucket, row by row, with nothing shared and nothing reused.
class SimpleBucket {
 public:
  explicit SimpleBucket(const TableUpdater* updater) : updater_(*updater), scratch_(*updater) {}

  struct Row {
    uint64_t touched = 0;
    uint32_t count = 0;
    std::vector<float> floats;  // empty: not stored
  };

  void Apply(const std::vector<Contribution>& contributions) {
    std::map<uint64_t, std::vector<float>> sums;
    uint64_t examples = 0;
    for (const Contribution& one : contributions) {
      examples += one.examples;
      for (size_t i = 0; i < one.keys.size(); ++i) {
        std::vector<float>& sum = sums[one.keys[i]];
        const bool is_first = sum.empty();
        sum.resize(kDim);
        for (size_t e = 0; e < kDim; ++e) {
          const float term = static_cast<float>(one.examples) * one.gradients[i * kDim + e];
          sum[e] = is_first ? term : sum[e] + term;
        }
      }
    }
    if (contributions.empty()) {
      ++version_;
      return;
    }
    TableUpdater::Update update;
    update.step = static_cast<int64_t>(version_) + 1;
    update.learning_rate = kRate;
    update.scale = 1.0f / static_cast<float>(examples);
    for (const auto& [key, sum] : sums) {
      Row& row = rows_[key];
      if (!row.floats.empty() && IsIdle(row, version_)) row = Row();
      if (row.floats.empty()) {
        if (++row.count < updater_.options().min_count) continue;
        row.floats.resize(updater_.row_floats());
        updater_.FillInitialRow(key, row.floats.data());
      }
      float* const floats = row.floats.data();
      ASSERT_TRUE(updater_.Apply(update, sum.data(), {&floats, 1}, &scratch_));
      row.touched = version_ + 1;
    }
    ++version_;
  }

  std::vector<float> Read(uint64_t key) const {
    std::vector<float> value(kDim);
    const auto row = rows_.find(key);
    if (row == rows_.end() || row->second.floats.empty() || IsIdle(row->second, version_)) {
      updater_.FillInitialValue(key, value.data());
    } else {
      std::copy_n(row->second.floats.begin(), kDim, value.begin());
    }
    return value;
  }

  std::map<uint64_t, std::vector<float>> Stored() const {
    std::map<uint64_t, std::vector<float>> stored;
    for (const auto& [key, row] : rows_) {
      if (!row.floats.empty() && !IsIdle(row, version_)) stored[key] = row.floats;
    }
    return stored;
  }

 private:
  bool IsIdle(const Row& row, uint64_t version) const {
    const uint32_t most = updater_.options().idle_updates;
    return most > 0 && version > row.touched + most;
  }

  const TableUpdater& updater_;
  TableUpdater::Scratch scratch_;
  uint64_t version_ = 0;
  std::map<uint64_t, Row> rows_;
};

std::map<uint64_t, std::vector<float>> Stored(const Bucket& bucket, size_t row_floats) {
  std::map<uint64_t, std::vector<float>> stored;
  bucket.ForEach([&](uint64_t key, uint64_t,
                     const float* row) { stored[key] = std::vector<float>(row, row + row_floats); },
                 [](uint64_t, uint32_t) {});
  return stored;
}

// The rows with the versions that made them.
std::map<uint64_t, std::pair<uint64_t, std::vector<float>>> Contents(const Bucket& bucket,
                                                                     size_t row_floats) {
  std::map<uint64_t, std::pair<uint64_t, std::vector<float>>> contents;
  bucket.ForEach(
      [&](uint64_t key, uint64_t touched, const float* row) {
        contents[key] = {touched, std::vector<float>(row, row + row_floats)};
      },
      [](uint64_t, uint32_t) {});
  return contents;
}

class BucketTest : public ::testing::Test {
 protected:
  void Make(const TableOptions& options, uint32_t positions = 1) {
    updater_ = TableUpdater::Create(options, kSeed).value();
    pool_ = std::make_unique<SlabPool>(updater_->row_floats());
    bucket_ = std::make_unique<Bucket>(updater_.get(), pool_.get(), 8);
    bucket_->Reset(0, positions);
  }

  uint64_t Random(uint64_t bound) { return RandomBelow(kSeed, ++drawn_, bound); }

  Contribution RandomContribution(uint64_t num_keys, uint64_t size) {
    std::set<uint64_t> keys;
    while (keys.size() < size) keys.insert(Random(num_keys) * 0x123456789abcdef1u);
    Contribution made;
    made.keys.assign(keys.begin(), keys.end());
    made.gradients.resize(size * kDim);
    FillNormal(kSeed, drawn_ += size * kDim, absl::MakeSpan(made.gradients));
    made.examples = 1 + static_cast<uint32_t>(Random(4));
    return made;
  }

  std::vector<float> Read(uint64_t version, uint64_t key) const {
    std::vector<float> value(kDim);
    bucket_->Read(version, {&key, 1}, value.data());
    return value;
  }

  void PushOne(uint64_t step, const Contribution& one) {
    ASSERT_EQ(bucket_->Push(step, 0, one.examples, one.view()), PushOutcome::kAccepted);
    ASSERT_TRUE(bucket_->Apply(kRate, true, 1));
  }

  std::unique_ptr<TableUpdater> updater_;
  std::unique_ptr<SlabPool> pool_;
  std::unique_ptr<Bucket> bucket_;
  uint64_t drawn_ = 0;
};

struct Rule {
  const char* name;
  OptimizerKind kind;
  bool rowwise;
  double l2;
  uint32_t min_count;
  uint32_t idle_updates;
};

class BucketRuleTest : public BucketTest, public ::testing::WithParamInterface<Rule> {};

// The contributions arrive in random order and repeatedly, some batches are skipped, and both
// versions are read between the arrivals.
TEST_P(BucketRuleTest, HasTheBytesOfItsDefinitionWhateverTheOrderOfArrival) {
  constexpr uint32_t kPositions = 4;
  constexpr uint64_t kNumKeys = 700;
  TableOptions options = Options(GetParam().kind);
  options.rowwise = GetParam().rowwise;
  options.l2 = GetParam().l2;
  options.min_count = GetParam().min_count;
  options.idle_updates = GetParam().idle_updates;
  Make(options, kPositions);
  SimpleBucket simple(updater_.get());
  std::map<uint64_t, SimpleBucket> before;  // by step
  for (uint64_t step = 0; step < 60; ++step) {
    std::vector<Contribution> contributions;
    std::vector<uint32_t> arrivals;
    std::vector<Contribution> added;
    for (uint32_t p = 0; p < kPositions; ++p) {
      contributions.push_back(RandomContribution(kNumKeys, Random(3) == 0 ? 0 : Random(150)));
      const bool is_skipped = step % 7 == 6 || Random(6) == 0;
      if (is_skipped) {
        bucket_->PassOver(p);
        EXPECT_EQ(bucket_->Push(step, p, 1, contributions[p].view()), PushOutcome::kWithheld);
      } else {
        added.push_back(contributions.back());
        for (uint64_t copies = 1 + Random(2); copies > 0; --copies) {
          arrivals.insert(arrivals.begin() + Random(arrivals.size() + 1), p);
        }
      }
    }
    before.emplace(step, simple);
    std::set<uint32_t> arrived;
    for (const uint32_t p : arrivals) {
      const Contribution& one = contributions[p];
      EXPECT_EQ(bucket_->Push(step, p, one.examples, one.view()),
                arrived.insert(p).second ? PushOutcome::kAccepted : PushOutcome::kDuplicate);
    }
    EXPECT_EQ(bucket_->Push(step + 1, 0, 1, contributions[0].view()), PushOutcome::kAhead);
    ASSERT_TRUE(bucket_->IsComplete());
    ASSERT_TRUE(bucket_->Apply(kRate, true, kPositions));
    simple.Apply(added);
    EXPECT_EQ(bucket_->Find(step + 1), Bucket::Value::kCurrent);
    for (uint64_t k = 0; k < kNumKeys; k += 3) {
      const uint64_t key = k * 0x123456789abcdef1u;
      ASSERT_EQ(Read(step + 1, key), simple.Read(key)) << "step " << step << ", key " << k;
      // A step of which all batches are skipped makes no new value, so two versions may be
      // readable.
      for (uint64_t version = step - std::min<uint64_t>(step, 2); version <= step; ++version) {
        if (bucket_->Find(version) == Bucket::Value::kGone) continue;
        ASSERT_EQ(Read(version, key), before.at(version).Read(key))
            << "version " << version << " after step " << step << ", key " << k;
      }
    }
    ASSERT_EQ(Stored(*bucket_, updater_->row_floats()), simple.Stored()) << "step " << step;
  }
  EXPECT_GT(simple.Stored().size(), 100u);
}

INSTANTIATE_TEST_SUITE_P(
    Rules, BucketRuleTest,
    ::testing::Values(Rule{"sgd", OptimizerKind::kSgd, false, 0, 0, 0},
                      Rule{"adagrad_with_l2", OptimizerKind::kAdagrad, false, 0.01, 1, 0},
                      Rule{"rowwise_adagrad", OptimizerKind::kAdagrad, true, 0, 0, 0},
                      Rule{"adam", OptimizerKind::kAdam, false, 0, 0, 0},
                      Rule{"ftrl", OptimizerKind::kFtrl, false, 0, 0, 0},
                      Rule{"admission", OptimizerKind::kAdagrad, false, 0, 3, 0},
                      Rule{"expiry", OptimizerKind::kAdagrad, true, 0, 0, 5},
                      Rule{"admission_and_expiry", OptimizerKind::kAdam, false, 0, 2, 8}),
    [](const ::testing::TestParamInfo<Rule>& info) { return std::string(info.param.name); });

TEST_F(BucketTest, ARowThatWasNeverTouchedIsAFunctionOfSeedTableAndKey) {
  Make(Options(OptimizerKind::kSgd));
  const std::vector<float> value = Read(0, 5);
  EXPECT_EQ(bucket_->num_rows(), 0u);
  EXPECT_NE(value, Read(0, 6));
  TableOptions other = Options(OptimizerKind::kSgd);
  other.name = "user";
  std::vector<float> of_other(kDim);
  TableUpdater::Create(other, kSeed).value()->FillInitialValue(5, of_other.data());
  EXPECT_NE(value, of_other);
}

TEST_F(BucketTest, AStepThatTouchesNothingStillMakesAVersion) {
  Make(Options(OptimizerKind::kSgd));
  PushOne(0, Contribution());
  EXPECT_EQ(bucket_->version(), 1u);
  EXPECT_EQ(bucket_->Push(0, 0, 1, Contribution().view()), PushOutcome::kDuplicate);
  EXPECT_EQ(bucket_->Find(0), Bucket::Value::kPrevious);
  PushOne(1, Contribution());
  EXPECT_EQ(bucket_->Find(0), Bucket::Value::kGone);
}

TEST_F(BucketTest, AnUpdateThatIsNotFiniteChangesNothing) {
  TableOptions options = Options(OptimizerKind::kAdagrad);
  options.min_count = 2;
  Make(options);
  Contribution many;
  for (uint64_t key = 0; key < 200; ++key) many.keys.push_back(key);
  many.gradients.assign(many.keys.size() * kDim, 1);
  for (uint64_t step = 0; step < 2; ++step) PushOne(step, many);
  const auto before = Contents(*bucket_, updater_->row_floats());
  ASSERT_EQ(before.size(), 200u);
  many.keys.back() = 500;  // a key that is only counted
  many.gradients[150 * kDim] = 3e38f;
  many.examples = 1000;
  ASSERT_EQ(bucket_->Push(2, 0, many.examples, many.view()), PushOutcome::kAccepted);
  EXPECT_FALSE(bucket_->Apply(kRate, true, 1));
  EXPECT_EQ(Contents(*bucket_, updater_->row_floats()), before);
  EXPECT_EQ(bucket_->version(), 2u);
  EXPECT_EQ(bucket_->Find(1), Bucket::Value::kGone);
  size_t counted = 0;
  bucket_->ForEach([](uint64_t, uint64_t, const float*) {}, [&](uint64_t, uint32_t) { ++counted; });
  EXPECT_EQ(counted, 0u);
}

TEST_F(BucketTest, ACheckpointOfRowsAndCountsContinuesWithTheSameBytes) {
  TableOptions options = Options(OptimizerKind::kAdam);
  options.min_count = 2;
  options.idle_updates = 9;
  Make(options);
  std::vector<Contribution> contributions;
  for (int i = 0; i < 40; ++i) contributions.push_back(RandomContribution(300, 60));
  for (uint64_t step = 0; step < 20; ++step) PushOne(step, contributions[step]);
  Bucket copy(updater_.get(), pool_.get(), 8);
  copy.Reset(20, 1);
  bucket_->ForEach(
      [&](uint64_t key, uint64_t touched, const float* row) {
        copy.Load(key, touched, {row, updater_->row_floats()});
      },
      [&](uint64_t key, uint32_t count) { copy.LoadCount(key, count); });
  for (uint64_t step = 20; step < 40; ++step) {
    const Contribution& one = contributions[step];
    PushOne(step, one);
    ASSERT_EQ(copy.Push(step, 0, one.examples, one.view()), PushOutcome::kAccepted);
    ASSERT_TRUE(copy.Apply(kRate, true, 1));
  }
  EXPECT_EQ(Stored(copy, updater_->row_floats()), Stored(*bucket_, updater_->row_floats()));
}

TEST_F(BucketTest, RowsThatComeAndGoReuseTheirMemory) {
  TableOptions options = Options(OptimizerKind::kAdagrad);
  options.idle_updates = 3;
  Make(options);
  uint64_t bytes = 0;
  for (uint64_t step = 0; step < 400; ++step) {
    Contribution one;
    for (uint64_t i = 0; i < 100; ++i) one.keys.push_back(step * 100 + i);
    one.gradients.assign(one.keys.size() * kDim, 1);
    PushOne(step, one);
    if (step == 100) bytes = bucket_->bytes();
  }
  EXPECT_LT(bucket_->num_rows(), 2000u);
  EXPECT_LE(bucket_->bytes(), 2 * bytes);
}

TEST_F(BucketTest, AsynchronousContributionsAreAppliedAtOnce) {
  Make(Options(OptimizerKind::kSgd));
  const Contribution one{{3}, std::vector<float>(kDim, 1), 1};
  std::vector<float> expected = Read(0, 3);
  for (float& element : expected) element -= kRate;
  ASSERT_TRUE(bucket_->ApplyNow(one.view(), kRate));
  EXPECT_EQ(bucket_->version(), 1u);
  EXPECT_EQ(Read(1, 3), expected);
}

TEST(RowGradientsTest, KeysMustRiseAndGradientsBeFinite) {
  const std::vector<float> gradients = {1, 2, 3};
  const auto check = [&](std::vector<uint64_t> keys, std::vector<float> values) {
    return CheckRowGradients({keys, values.data()}, 1);
  };
  EXPECT_EQ(check({1, 2, 9}, {1, 2, 3}), PushOutcome::kAccepted);
  EXPECT_EQ(check({1, 1, 9}, {1, 2, 3}), PushOutcome::kCorrupt);
  EXPECT_EQ(check({2, 1, 9}, {1, 2, 3}), PushOutcome::kCorrupt);
  EXPECT_EQ(check({1, 2, 9}, {1, std::numeric_limits<float>::infinity(), 3}),
            PushOutcome::kNonFinite);
  EXPECT_EQ(check({}, {}), PushOutcome::kAccepted);
}

TEST(TableUpdaterTest, WhatATableCannotBeIsRefusedByItsField) {
  TableOptions options = Options(OptimizerKind::kSgd);
  options.dim = 0;
  EXPECT_THAT(TableUpdater::Create(options, 1),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("table \"item\": dim")));
  options = Options(OptimizerKind::kMomentum);
  EXPECT_THAT(TableUpdater::Create(options, 1), StatusIs(absl::StatusCode::kInvalidArgument,
                                                         HasSubstr("optimizer: a table can use")));
  options = Options(OptimizerKind::kSgd);
  options.rowwise = true;
  EXPECT_THAT(TableUpdater::Create(options, 1),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("only adagrad")));
  options = Options(OptimizerKind::kSgd);
  options.l2 = -1;
  EXPECT_THAT(TableUpdater::Create(options, 1),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("l2")));
}

// The formula gives a = 0.1 + (3^2 + 4^2) / 2 = 12.6 and v = 1 - 0.1 * g / sqrt(12.6).
TEST(TableUpdaterTest, RowwiseAdagradHasOneAccumulator) {
  TableOptions options;
  options.name = "t";
  options.dim = 2;
  options.optimizer.kind = OptimizerKind::kAdagrad;
  options.rowwise = true;
  options.initializer = ConstantInitializer(1);
  const auto updater = TableUpdater::Create(options, 1).value();
  ASSERT_EQ(updater->row_floats(), 3u);
  std::vector<float> row(3);
  updater->FillInitialRow(9, row.data());
  EXPECT_THAT(row, ElementsAre(1, 1, 0.1f));
  TableUpdater::Scratch scratch(*updater);
  const float gradients[] = {3, 4};
  float* const floats = row.data();
  TableUpdater::Update update;
  update.learning_rate = 0.1f;
  ASSERT_TRUE(updater->Apply(update, gradients, {&floats, 1}, &scratch));
  EXPECT_FLOAT_EQ(row[0], 1 - 0.1f * 3 / std::sqrt(12.6f));
  EXPECT_FLOAT_EQ(row[1], 1 - 0.1f * 4 / std::sqrt(12.6f));
  EXPECT_FLOAT_EQ(row[2], 12.6f);
}

}  // namespace
}  // namespace shoal

#include "runtime/variables/bucket.h"

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
#include "runtime/tables/bucket_rows.h"
#include "runtime/tables/stored_rows.h"
#include "runtime/tables/table_use.h"
#include "runtime/variables/bucket_testing.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;

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
        sum.resize(kBucketDim);
        for (size_t e = 0; e < kBucketDim; ++e) {
          const float term = static_cast<float>(one.examples) * one.gradients[i * kBucketDim + e];
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
    update.learning_rate = kBucketRate;
    update.scale = 1.0f / static_cast<float>(examples);
    for (const auto& [key, sum] : sums) {
      Row& row = rows_[key];
      if (IsIdle(row, version_)) row = Row();
      row.touched = version_ + 1;
      if (row.floats.empty()) {
        if (++row.count < updater_.options().min_count) continue;
        row.floats.resize(updater_.row_floats());
        updater_.FillInitialRow(key, row.floats.data());
      }
      float* const floats = row.floats.data();
      ASSERT_TRUE(updater_.Apply(update, sum.data(), {&floats, 1}, &scratch_));
    }
    ++version_;
  }

  std::vector<float> Read(uint64_t key) const {
    std::vector<float> value(kBucketDim);
    const auto row = rows_.find(key);
    if (row == rows_.end() || row->second.floats.empty() || IsIdle(row->second, version_)) {
      updater_.FillInitialValue(key, value.data());
    } else {
      std::copy_n(row->second.floats.begin(), kBucketDim, value.begin());
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

  // The count of each key that is not stored, and the version that touched it.
  std::map<uint64_t, std::pair<uint32_t, uint64_t>> Counted() const {
    std::map<uint64_t, std::pair<uint32_t, uint64_t>> counted;
    for (const auto& [key, row] : rows_) {
      if (row.floats.empty() && !IsIdle(row, version_)) counted[key] = {row.count, row.touched};
    }
    return counted;
  }

 private:
  bool IsIdle(const Row& row, uint64_t version) const {
    const uint32_t most = updater_.options().idle_updates;
    return most > 0 && row.count > 0 && version > row.touched + most;
  }

  const TableUpdater& updater_;
  TableUpdater::Scratch scratch_;
  uint64_t version_ = 0;
  std::map<uint64_t, Row> rows_;
};

std::map<uint64_t, std::vector<float>> Stored(const BucketRows& saved) {
  std::map<uint64_t, std::vector<float>> stored;
  const size_t row_floats = saved.keys.empty() ? 0 : saved.rows.size() / saved.keys.size();
  for (size_t i = 0; i < saved.keys.size(); ++i) {
    const float* const row = saved.rows.data() + i * row_floats;
    stored[saved.keys[i]] = std::vector<float>(row, row + row_floats);
  }
  return stored;
}

std::map<uint64_t, std::pair<uint32_t, uint64_t>> Counted(const BucketRows& saved) {
  std::map<uint64_t, std::pair<uint32_t, uint64_t>> counted;
  for (size_t i = 0; i < saved.counted_keys.size(); ++i) {
    counted[saved.counted_keys[i]] = {saved.counts[i], saved.counted_touched[i]};
  }
  return counted;
}

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
// versions are read between the arrivals. Cuts are read some steps after they were taken.
TEST_P(BucketRuleTest, HasTheBytesOfItsDefinitionWhateverTheOrderOfArrival) {
  constexpr uint32_t kPositions = 4;
  constexpr uint64_t kNumKeys = 700;
  TableOptions options = BucketOptions(GetParam().kind);
  options.rowwise = GetParam().rowwise;
  options.l2 = GetParam().l2;
  options.min_count = GetParam().min_count;
  options.idle_updates = GetParam().idle_updates;
  Make(options, kPositions);
  SimpleBucket simple(updater_.get());
  std::map<uint64_t, SimpleBucket> before;  // by step
  struct Held {
    std::shared_ptr<BucketCut> cut;
    BucketRows rows;
    BucketCut::Selection selection;
    uint64_t since = 0;
    BucketRows changes;  // the rows that were touched after version `since`
  };
  std::vector<Held> held;
  for (uint64_t step = 0; step < 60; ++step) {
    std::vector<Contribution> contributions;
    std::vector<uint32_t> arrivals;
    std::vector<Contribution> added;
    std::set<uint32_t> skipped;
    for (uint32_t p = 0; p < kPositions; ++p) {
      contributions.push_back(RandomContribution(kNumKeys, Random(3) == 0 ? 0 : Random(150)));
      const bool is_skipped = step % 7 == 6 || Random(6) == 0;
      if (is_skipped) {
        skipped.insert(p);
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
      EXPECT_EQ(bucket_->Push(step, p, contributions[p]),
                arrived.insert(p).second ? PushOutcome::kAccepted : PushOutcome::kDuplicate);
      bucket_->IsComplete(skipped);
    }
    EXPECT_EQ(bucket_->Push(step + 1, 0, contributions[0]), PushOutcome::kAhead);
    ASSERT_TRUE(bucket_->IsComplete(skipped));
    ASSERT_TRUE(bucket_->Apply(kPositions));
    simple.Apply(added);
    for (uint64_t k = 0; k < kNumKeys; k += 3) {
      const uint64_t key = k * 0x123456789abcdef1u;
      ASSERT_EQ(bucket_->Read(step + 1, key), simple.Read(key)) << "step " << step << ", key " << k;
      // A step of which all batches are skipped makes no new value, so two versions may be
      // readable.
      for (uint64_t version = step - std::min<uint64_t>(step, 2); version <= step; ++version) {
        if (!bucket_->IsReadable(version)) continue;
        ASSERT_EQ(bucket_->Read(version, key), before.at(version).Read(key))
            << "version " << version << " after step " << step << ", key " << k;
      }
    }
    ASSERT_EQ(Stored(bucket_->Save()), simple.Stored()) << "step " << step;
    ASSERT_EQ(Counted(bucket_->Save()), simple.Counted()) << "step " << step;
    for (const Held& one : held) {
      ExpectSame(one.cut->ReadAll(), one.rows);
      EXPECT_EQ(one.cut->GetSize(std::nullopt).rows, one.rows.keys.size());
      EXPECT_EQ(one.cut->GetSize(std::nullopt).counted, one.rows.counted_keys.size());
      BucketRows selected;
      one.cut->Read(one.selection, &selected);
      ExpectSame(selected, one.rows);
      EXPECT_EQ(one.cut->GetSize(one.since).rows, one.changes.keys.size());
      EXPECT_EQ(one.cut->GetSize(one.since).counted, one.changes.counted_keys.size());
      BucketRows changes;
      one.cut->Read(one.cut->Select(one.since), &changes);
      ExpectSame(changes, one.changes);
    }
    if (!held.empty() && Random(3) == 0) held.erase(held.begin() + Random(held.size()));
    if (held.size() < 4 && Random(2) == 0) {
      const std::shared_ptr<BucketCut> cut = bucket_->Cut();
      const uint64_t since = Random(step + 1);
      BucketRows changes;
      cut->Read(cut->Select(since), &changes);
      held.push_back({cut, cut->ReadAll(), cut->Select(std::nullopt), since, changes});
    }
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
  Make(BucketOptions(OptimizerKind::kSgd));
  const std::vector<float> value = bucket_->Read(0, 5);
  EXPECT_EQ(bucket_->rows().num_rows(), 0u);
  EXPECT_NE(value, bucket_->Read(0, 6));
  TableOptions other = BucketOptions(OptimizerKind::kSgd);
  other.name = "user";
  std::vector<float> of_other(kBucketDim);
  TableUpdater::Create(other, kBucketSeed).value()->FillInitialValue(5, of_other.data());
  EXPECT_NE(value, of_other);
}

TEST_F(BucketTest, AStepThatTouchesNothingStillMakesAVersion) {
  Make(BucketOptions(OptimizerKind::kSgd));
  PushOne(0, Contribution(), bucket_.get());
  EXPECT_EQ(bucket_->version(), 1u);
  EXPECT_EQ(bucket_->Push(0, 0, Contribution()), PushOutcome::kDuplicate);
  EXPECT_TRUE(bucket_->IsReadable(0));
  PushOne(1, Contribution(), bucket_.get());
  EXPECT_FALSE(bucket_->IsReadable(0));
}

TEST_F(BucketTest, AnUpdateThatIsNotFiniteChangesNothing) {
  TableOptions options = BucketOptions(OptimizerKind::kAdagrad);
  options.min_count = 2;
  Make(options);
  Contribution many;
  for (uint64_t key = 0; key < 200; ++key) many.keys.push_back(key);
  many.gradients.assign(many.keys.size() * kBucketDim, 1);
  for (uint64_t step = 0; step < 2; ++step) PushOne(step, many, bucket_.get());
  const std::shared_ptr<BucketCut> cut = bucket_->Cut();
  const BucketCut::Selection selection = cut->Select(std::nullopt);
  const BucketRows before = cut->ReadAll();
  ASSERT_EQ(before.keys.size(), 200u);
  many.keys.back() = 500;  // a key that is only counted
  many.gradients[150 * kBucketDim] = 3e38f;
  ASSERT_EQ(bucket_->Push(2, 0, many), PushOutcome::kAccepted);
  EXPECT_FALSE(bucket_->Apply(1));
  const BucketRows after = bucket_->Save();
  EXPECT_EQ(after.keys, before.keys);
  EXPECT_EQ(after.touched, before.touched);
  EXPECT_EQ(after.rows, before.rows);
  EXPECT_TRUE(after.counted_keys.empty());
  BucketRows selected;
  cut->Read(selection, &selected);
  ExpectSame(selected, before);
}

// Rows that were stored, counted, idle or unknown before the update are as before, those of the
// block with the number that is not finite and those of the blocks before it.
TEST_F(BucketTest, AnUpdateThatIsNotFiniteBringsBackWhatAllItsBlocksHaveChanged) {
  constexpr uint64_t kSteps = 24;
  for (const uint32_t min_count : {1, 2}) {
    TableOptions options = BucketOptions(OptimizerKind::kAdagrad);
    options.min_count = min_count;
    options.idle_updates = 3;
    Make(options);
    for (uint64_t step = 0; step < kSteps; ++step) {
      PushOne(step, RandomContribution(500, 100), bucket_.get());
    }
    const std::shared_ptr<BucketCut> cut = bucket_->Cut();
    const BucketRows before = cut->ReadAll();
    const size_t num_rows = bucket_->rows().num_rows();
    Contribution bad = RandomContribution(1000, 400);
    for (size_t i = 150 * kBucketDim; i < bad.gradients.size(); ++i) bad.gradients[i] = 3e38f;
    ASSERT_EQ(bucket_->Push(kSteps, 0, bad), PushOutcome::kAccepted);
    EXPECT_FALSE(bucket_->Apply(1));
    ExpectSame(bucket_->Save(), before);
    ExpectSame(cut->ReadAll(), before);
    EXPECT_EQ(bucket_->rows().num_rows(), num_rows);
  }
}

// An update looks the keys of the next block up while it changes a block, and keys that are new
// move entries of the index.
TEST_F(BucketTest, UpdatesOfWholeBlocksHaveTheBytesOfTheirDefinition) {
  Make(BucketOptions(OptimizerKind::kAdagrad));
  SimpleBucket simple(updater_.get());
  constexpr size_t kBlock = TableUpdater::kBlockRows;
  uint64_t step = 0;
  for (const size_t size : {size_t{1}, kBlock - 1, kBlock, kBlock + 1, 2 * kBlock, 2 * kBlock + 1,
                            3 * kBlock, 4 * kBlock}) {
    Contribution one = RandomContribution(size * (step + 1), size);
    one.examples = 1;  // The only contribution of a step has the weight 1.
    PushOne(step++, one, bucket_.get());
    simple.Apply({one});
    ASSERT_EQ(Stored(bucket_->Save()), simple.Stored()) << size << " keys";
  }
}

TEST_F(BucketTest, ACheckpointOfRowsAndCountsContinuesWithTheSameBytes) {
  TableOptions options = BucketOptions(OptimizerKind::kAdam);
  options.min_count = 2;
  options.idle_updates = 9;
  Make(options);
  std::vector<Contribution> contributions;
  for (int i = 0; i < 40; ++i) contributions.push_back(RandomContribution(300, 60));
  for (uint64_t step = 0; step < 20; ++step) PushOne(step, contributions[step], bucket_.get());
  TableCounts counts;
  SyncBucket copy(updater_.get(), pool_, &counts);
  ASSERT_OK(copy.Load(20, bucket_->Save(), 1));
  for (uint64_t step = 20; step < 40; ++step) {
    PushOne(step, contributions[step], bucket_.get());
    PushOne(step, contributions[step], &copy);
  }
  ExpectSame(copy.Save(), bucket_->Save());
  EXPECT_FALSE(copy.Save().counts.empty());
}

// An index that grows has two arrays until all its entries have moved.
TEST_F(BucketTest, AGrowthOfItsIndexEndsWithoutNewKeys) {
  Make(BucketOptions(OptimizerKind::kSgd));
  uint64_t step = 0, key = 1;
  const auto push = [&](uint64_t pushed) {
    PushOne(step++, {{pushed}, std::vector<float>(kBucketDim, 1), 1}, bucket_.get());
  };
  uint64_t before = 0;
  do {
    before = bucket_->rows().bytes();
    push(key++);
  } while (key < 4096 || bucket_->rows().bytes() < before + before / 2);
  const uint64_t growing = bucket_->rows().bytes();
  for (int i = 0; i < 200; ++i) push(1);
  EXPECT_LE(bucket_->rows().bytes(), growing - before / 2);
  TableCounts counts;
  SyncBucket loaded(updater_.get(), pool_, &counts);
  ASSERT_OK(loaded.Load(step, bucket_->Save(), 1));
  EXPECT_LE(loaded.rows().bytes(), bucket_->rows().bytes());
  ExpectSame(loaded.Save(), bucket_->Save());
}

TEST_F(BucketTest, ARowsMemoryIsReusedAfterALoad) {
  Make(BucketOptions(OptimizerKind::kSgd));
  const Contribution many = RandomContribution(100000, 20000);
  PushOne(0, many, bucket_.get());
  const uint64_t bytes = pool_->bytes();
  for (int i = 0; i < 5; ++i) {
    ASSERT_OK(bucket_->Load(0, BucketRows(), 1));
    PushOne(0, many, bucket_.get());
  }
  EXPECT_EQ(pool_->bytes(), bytes);
}

TEST_F(BucketTest, RowsOfVersionZeroAreStored) {
  Make(BucketOptions(OptimizerKind::kSgd));
  const BucketRows given{{1, 2}, {0, 0}, std::vector<float>(2 * kBucketDim, 1), {}, {}, {}};
  ASSERT_OK(bucket_->Load(0, given, 1));
  EXPECT_EQ(bucket_->Read(0, 2), std::vector<float>(kBucketDim, 1));
  ExpectSame(bucket_->Save(), given);
  PushOne(0, {{2}, std::vector<float>(kBucketDim, 1), 1}, bucket_.get());
  EXPECT_EQ(bucket_->Read(0, 2), std::vector<float>(kBucketDim, 1));
  EXPECT_EQ(bucket_->Read(1, 2), std::vector<float>(kBucketDim, 1 - kBucketRate));
  EXPECT_THAT(bucket_->Save().touched, ElementsAre(0, 1));
}

TEST(SortByKeyTest, SortsKeysOfAllSizes) {
  for (const size_t size : {0, 1, 100, 5000}) {
    for (const uint64_t factor : {uint64_t{1}, uint64_t{0x123456789abcdef1}}) {
      std::vector<RowIndex::Entry> entries(size);
      for (size_t i = 0; i < size; ++i) {
        entries[i].key = (i * 7919 % 5003) * factor;
        entries[i].stamp = static_cast<uint32_t>(i);
      }
      std::vector<RowIndex::Entry> sorted = entries;
      std::sort(sorted.begin(), sorted.end(),
                [](const RowIndex::Entry& a, const RowIndex::Entry& b) { return a.key < b.key; });
      SortByKey(&entries);
      for (size_t i = 0; i < size; ++i) {
        ASSERT_EQ(entries[i].key, sorted[i].key);
        ASSERT_EQ(entries[i].stamp, sorted[i].stamp);
      }
    }
  }
}

TEST_F(BucketTest, RowsThatCannotBeThoseOfABucketAreRefused) {
  Make(BucketOptions(OptimizerKind::kSgd));
  const BucketRows good{{1, 2}, {3, 4}, std::vector<float>(2 * kBucketDim, 1), {7}, {1}, {4}};
  EXPECT_OK(bucket_->Load(4, good, 1));
  const auto refused = [&](const BucketRows& rows) {
    return bucket_->Load(4, rows, 1).code() == absl::StatusCode::kDataLoss;
  };
  BucketRows bad = good;
  bad.touched[1] = 5;
  EXPECT_TRUE(refused(bad)) << "a row of a later version";
  bad.touched[1] = UINT32_MAX;
  EXPECT_TRUE(refused(bad)) << "the index would have no entry for it";
  bad = good;
  bad.rows.pop_back();
  EXPECT_TRUE(refused(bad)) << "half a row";
  bad = good;
  bad.keys = {2, 1};
  EXPECT_TRUE(refused(bad)) << "keys out of order";
  bad = good;
  bad.counted_keys = {2};
  EXPECT_TRUE(refused(bad)) << "a stored key that is counted too";
  bad = good;
  bad.counts[0] = UINT32_MAX;
  EXPECT_TRUE(refused(bad)) << "a count above all bounds";
  bad = good;
  bad.counted_touched[0] = 5;
  EXPECT_TRUE(refused(bad)) << "a key that was counted at a later version";
  bad = good;
  bad.counted_touched.clear();
  EXPECT_TRUE(refused(bad)) << "a count without its version";
  bad = good;
  bad.rows[0] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(refused(bad)) << "not a number";
}

TEST_F(BucketTest, RowsThatComeAndGoReuseTheirMemory) {
  TableOptions options = BucketOptions(OptimizerKind::kAdagrad);
  options.idle_updates = 3;
  Make(options);
  const uint64_t bytes = PushNewKeys();
  EXPECT_LT(bucket_->rows().num_rows(), 2000u);
  EXPECT_LE(bucket_->rows().bytes(), 2 * bytes);
  EXPECT_EQ(counts_.rows(), bucket_->rows().num_rows());
}

TEST_F(BucketTest, TheCountsOfATableAreTheSumsOfItsBuckets) {
  TableOptions options = BucketOptions(OptimizerKind::kAdagrad);
  options.min_count = 2;
  Make(options);
  SyncBucket other(updater_.get(), pool_, &counts_);
  ASSERT_OK(other.Load(0, {{1, 2}, {0, 0}, std::vector<float>(4 * kBucketDim, 1), {}, {}, {}}, 1));
  EXPECT_EQ(counts_.rows(), 2u);
  for (uint64_t step = 0; step < 200; ++step) {
    PushOne(step, RandomContribution(3000, 100), bucket_.get());
    PushOne(step, RandomContribution(300, 50), &other);
    ASSERT_EQ(counts_.rows(), bucket_->rows().num_rows() + other.rows().num_rows());
    ASSERT_EQ(counts_.bytes(), bucket_->rows().bytes() + other.rows().bytes());
  }
  EXPECT_GT(counts_.rows(), 2000u);
  const uint64_t rows_of_other = other.rows().num_rows();
  ASSERT_OK(bucket_->Load(0, BucketRows(), 1));
  EXPECT_EQ(counts_.rows(), rows_of_other);
}

TEST_F(BucketTest, KeysThatAreReadAreCountedAndWhetherTheyHaveARow) {
  Make(BucketOptions(OptimizerKind::kSgd));
  PushOne(0, {{3, 5}, std::vector<float>(2 * kBucketDim, 1)}, bucket_.get());
  EXPECT_EQ(counts_.reads().keys, 0u);
  std::vector<float> values(3 * kBucketDim);
  const std::vector<uint64_t> keys = {3, 4, 5};
  bucket_->rows().Read(1, false, keys, values.data());
  EXPECT_EQ(counts_.reads().keys, 3u);
  EXPECT_EQ(counts_.reads().found, 2u);
  bucket_->rows().Read(0, true, keys, values.data());
  EXPECT_EQ(counts_.reads().keys, 6u);
  EXPECT_EQ(counts_.reads().found, 2u) << "before the step no key had a row";
}

}  // namespace
}  // namespace shoal

// (testonly) Buckets of a table of kBucketDim floats in a row, with the bookkeeping of their
// slices.
#ifndef SHOAL_RUNTIME_VARIABLES_BUCKET_TESTING_H_
#define SHOAL_RUNTIME_VARIABLES_BUCKET_TESTING_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <vector>

#include "absl/types/span.h"
#include "gtest/gtest.h"

#include "base/random.h"
#include "base/status_matchers.h"
#include "ml/optim/optimizer_options.h"
#include "ml/tensor/initializer.h"
#include "runtime/tables/bucket_rows.h"
#include "runtime/tables/row_slabs.h"
#include "runtime/tables/stored_rows.h"
#include "runtime/tables/table_updater.h"
#include "runtime/tables/table_use.h"
#include "runtime/variables/bucket.h"
#include "runtime/variables/row_payload.h"
#include "runtime/variables/staging_pool.h"
#include "runtime/variables/step_contributions.h"
#include "runtime/variables/sync_slice.h"

namespace shoal {

inline constexpr uint32_t kBucketDim = 5;
inline constexpr uint64_t kBucketSeed = 7;
inline constexpr float kBucketRate = 0.1f;

inline TableOptions BucketOptions(OptimizerKind kind) {
  TableOptions options;
  options.name = "item";
  options.dim = kBucketDim;
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

// A bucket with the bookkeeping of its slice, as SliceStore combines them.
class SyncBucket {
 public:
  SyncBucket(const TableUpdater* updater, const std::shared_ptr<SlabPool>& pool,
             TableCounts* counts)
      : scratch_(*updater), bucket_(updater, pool, counts, &scratch_) {}

  absl::Status Load(uint64_t version, const BucketRows& rows, uint32_t num_positions) {
    sync_.Reset(version, version, num_positions);
    contributions_.Restart(8, &staging_);
    return bucket_.Load(version, rows);
  }
  uint64_t version() const { return sync_.version(); }
  const Bucket& rows() const { return bucket_; }
  std::shared_ptr<BucketCut> Cut() const { return bucket_.Cut(version()); }
  BucketRows Save() const { return Cut()->ReadAll(); }

  PushOutcome Push(uint64_t step, uint32_t position, const Contribution& one) {
    std::vector<char> bytes(RowPayloadBytes(one.keys.size(), kBucketDim));
    EncodeRows(one.view(), kBucketDim, bytes.data());
    const Payload payload{ContributionKind::kRows, bytes.data(), bytes.size()};
    switch (sync_.Classify(step, position)) {
      case SyncSlice::Arrival::kDuplicate:
        return PushOutcome::kDuplicate;
      case SyncSlice::Arrival::kAhead:
        return PushOutcome::kAhead;
      case SyncSlice::Arrival::kLater:
        EXPECT_TRUE(contributions_.Keep(position, payload, one.examples));
        return PushOutcome::kAccepted;
      case SyncSlice::Arrival::kNext:
        contributions_.AddNext(payload, one.examples);
        return PushOutcome::kAccepted;
    }
    return PushOutcome::kNone;
  }
  // Returns whether the step has all positions that are not skipped.
  bool IsComplete(const std::set<uint32_t>& skipped = {}) {
    return contributions_.AddReady([&](uint32_t position) { return skipped.count(position) > 0; });
  }
  bool Apply(uint32_t num_positions_of_next_step) {
    const bool makes_value = sync_.num_added() > 0;
    const Bucket::Step step{version(), sync_.value_version(), kBucketRate,
                            contributions_.MeanScale()};
    if (makes_value && !bucket_.Apply(step)) return false;
    sync_.Advance(makes_value, num_positions_of_next_step);
    return true;
  }
  bool IsReadable(uint64_t version) const {
    return sync_.Find(version) == SyncSlice::Value::kCurrent ||
           sync_.Find(version) == SyncSlice::Value::kPrevious;
  }
  std::vector<float> Read(uint64_t version, uint64_t key) const {
    std::vector<float> value(kBucketDim);
    bucket_.Read(version, sync_.Find(version) == SyncSlice::Value::kPrevious, {&key, 1},
                 value.data());
    return value;
  }

 private:
  BucketScratch scratch_;
  Bucket bucket_;
  SyncSlice sync_{8};
  StagingPool staging_{1 << 20};
  StepContributions contributions_{&sync_, &bucket_};
};

inline void ExpectSame(const BucketRows& one, const BucketRows& other) {
  EXPECT_EQ(one.keys, other.keys);
  EXPECT_EQ(one.touched, other.touched);
  EXPECT_EQ(one.rows, other.rows);
  EXPECT_EQ(one.counted_keys, other.counted_keys);
  EXPECT_EQ(one.counts, other.counts);
  EXPECT_EQ(one.counted_touched, other.counted_touched);
}

class BucketTest : public ::testing::Test {
 protected:
  void Make(const TableOptions& options, uint32_t positions = 1) {
    updater_ = TableUpdater::Create(options, kBucketSeed).value();
    pool_ = std::make_shared<SlabPool>(updater_->row_floats());
    bucket_ = std::make_unique<SyncBucket>(updater_.get(), pool_, &counts_);
    ASSERT_OK(bucket_->Load(0, BucketRows(), positions));
  }

  uint64_t Random(uint64_t bound) { return RandomBelow(kBucketSeed, ++drawn_, bound); }

  Contribution RandomContribution(uint64_t num_keys, uint64_t size) {
    std::set<uint64_t> keys;
    while (keys.size() < size) keys.insert(Random(num_keys) * 0x123456789abcdef1u);
    Contribution made;
    made.keys.assign(keys.begin(), keys.end());
    made.gradients.resize(size * kBucketDim);
    FillNormal(kBucketSeed, drawn_ += size * kBucketDim, absl::MakeSpan(made.gradients));
    made.examples = 1 + static_cast<uint32_t>(Random(4));
    return made;
  }

  static void PushOne(uint64_t step, const Contribution& one, SyncBucket* bucket) {
    ASSERT_EQ(bucket->Push(step, 0, one), PushOutcome::kAccepted);
    ASSERT_TRUE(bucket->Apply(1));
  }

  // Pushes 400 steps of 100 keys, each key once. Returns the bucket's bytes after 101 steps.
  uint64_t PushNewKeys() {
    uint64_t bytes = 0;
    for (uint64_t step = 0; step < 400; ++step) {
      Contribution one;
      for (uint64_t i = 0; i < 100; ++i) one.keys.push_back(step * 100 + i);
      one.gradients.assign(one.keys.size() * kBucketDim, 1);
      PushOne(step, one, bucket_.get());
      if (step == 100) bytes = bucket_->rows().bytes();
    }
    return bytes;
  }

  std::unique_ptr<TableUpdater> updater_;
  std::shared_ptr<SlabPool> pool_;
  TableCounts counts_;
  std::unique_ptr<SyncBucket> bucket_;
  uint64_t drawn_ = 0;
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_VARIABLES_BUCKET_TESTING_H_

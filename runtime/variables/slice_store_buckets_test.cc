#include <map>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "runtime/tables/bucket_rows.h"
#include "runtime/variables/row_payload.h"
#include "runtime/variables/slice_store.h"
#include "runtime/variables/slice_store_testing.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kDim = 2;

v1::VariableSpec TableSpecOf(const std::string& name, uint32_t buckets) {
  v1::VariableSpec spec = SpecOf(name, kDim);
  spec.mutable_table()->set_buckets(buckets);
  return spec;  // Rows start as zeros.
}

// A dense variable of one slice, and a table of two buckets.
struct TableUnderTest : StoreUnderTest {
  explicit TableUnderTest(SliceStoreOptions options = {},
                          StepPlan::Options steps = {0, 0, 1000, 1, 2})
      : StoreUnderTest({SpecOf("v", 1), TableSpecOf("item", 2)}, std::move(options), steps) {}

  // Returns the first key from `from` on of the bucket.
  uint64_t KeyOf(uint32_t slice, uint64_t from = 0) const {
    while (store->table().BucketOf(1, from) != slice) ++from;
    return from;
  }
  PushOutcome PushRows(uint32_t slice, uint64_t step, uint32_t position,
                       const std::map<uint64_t, float>& gradients, uint64_t pulled_version = 0) {
    std::vector<uint64_t> keys;
    std::vector<float> rows;
    for (const auto& [key, gradient] : gradients) {
      keys.push_back(key);
      rows.insert(rows.end(), kDim, gradient);
    }
    std::vector<char> payload(RowPayloadBytes(keys.size(), kDim));
    EncodeRows({keys, rows.data()}, kDim, payload.data());
    SlicePush push;
    push.slice = slice;
    push.kind = ContributionKind::kRows;
    push.batch = plan.BatchAt(step, position);
    push.step = step;
    push.position = position;
    push.examples = plan.ExamplesIn(push.batch);
    push.pulled_version = pulled_version;
    push.data = payload.data();
    push.bytes = payload.size();
    return store->Push(push);
  }
  // Returns whether a contribution of so many bytes would be taken. It then has room.
  bool MakeRoom(uint32_t slice, uint64_t step, uint32_t position, uint64_t bytes) {
    SlicePush push;
    push.slice = slice;
    push.batch = plan.BatchAt(step, position);
    push.step = step;
    push.position = position;
    push.bytes = bytes;
    return store->MakeRoom(push);
  }
  float Read(uint64_t version, uint64_t key) const {
    float row[kDim];
    const PullAnswer answer =
        store->ReadRows(store->table().BucketOf(1, key), version, {&key, 1}, row);
    EXPECT_EQ(answer.state, PullAnswer::kValue) << "key " << key << " at version " << version;
    return row[0];
  }
};

TEST(SliceStoreBucketsTest, ATableHasASliceForEachBucket) {
  TableUnderTest t;
  const SliceTable& table = t.store->table();
  ASSERT_EQ(table.size(), 3u);
  EXPECT_FALSE(table[0].is_bucket);
  EXPECT_TRUE(table[1].is_bucket);
  EXPECT_TRUE(table.is_table(1));
  EXPECT_EQ(table.num_buckets_of(1), 2u);
  int in_first = 0;
  for (uint64_t key = 0; key < 1000; ++key) in_first += table.BucketOf(1, key) == 1;
  EXPECT_GT(in_first, 400);
  EXPECT_LT(in_first, 600);
}

TEST(SliceStoreBucketsTest, ABucketAppliesTheMeanOfAStepToTheTouchedRows) {
  TableUnderTest t;
  const uint64_t a = t.KeyOf(1), b = t.KeyOf(1, a + 1);
  EXPECT_EQ(t.PushRows(1, 0, 1, {{a, 3}}), PushOutcome::kAccepted) << "it waits for position 0";
  EXPECT_EQ(t.store->TryPull(1, 1).state, PullAnswer::kNotYet);
  EXPECT_EQ(t.PushRows(1, 0, 0, {{a, 1}, {b, 4}}), PushOutcome::kAccepted);
  EXPECT_EQ(t.Read(1, a), -2);
  EXPECT_EQ(t.Read(1, b), -2);
  EXPECT_EQ(t.Read(0, a), 0) << "the previous version is kept";
  EXPECT_EQ(t.PushRows(1, 0, 0, {{a, 1}}), PushOutcome::kDuplicate);
  EXPECT_EQ(t.store->newest_version(2), 0u) << "the other bucket has its own version";
  EXPECT_EQ(t.store->TablesInUse()[0].rows, 2u);
}

TEST(SliceStoreBucketsTest, AnEmptyContributionCompletesAStep) {
  TableUnderTest t;
  EXPECT_EQ(t.PushRows(2, 0, 0, {}), PushOutcome::kAccepted);
  EXPECT_EQ(t.store->newest_version(2), 0u);
  EXPECT_EQ(t.PushRows(2, 0, 1, {}), PushOutcome::kAccepted);
  EXPECT_EQ(t.store->newest_version(2), 1u);
  EXPECT_EQ(t.store->TablesInUse()[0].rows, 0u);
}

TEST(SliceStoreBucketsTest, AContributionThatDoesNotFitTheBucketIsCorrupt) {
  TableUnderTest t;
  EXPECT_EQ(t.PushRows(1, 0, 0, {{t.KeyOf(2), 1}}), PushOutcome::kCorrupt) << "of another bucket";
  EXPECT_EQ(t.Push(1, 0, 0, 1), PushOutcome::kCorrupt) << "a dense contribution";
  EXPECT_EQ(t.PushRows(0, 0, 0, {{t.KeyOf(1), 1}}), PushOutcome::kCorrupt) << "rows for a variable";
  EXPECT_EQ(t.PushRows(1, 0, 0, {{t.KeyOf(1), HUGE_VALF}}), PushOutcome::kNonFinite);
  EXPECT_EQ(t.PushRows(1, 0, 0, {{t.KeyOf(1), 1}}), PushOutcome::kAccepted);
}

TEST(SliceStoreBucketsTest, ContributionsBeforeTheirTurnUseTheStagingMemory) {
  SliceStoreOptions options;
  options.staging_bytes = 64;
  TableUnderTest t(options, {0, 0, 1000, 1, 3});
  const uint64_t a = t.KeyOf(1);
  EXPECT_EQ(t.PushRows(1, 0, 2, {{a, 1}}), PushOutcome::kAccepted);
  EXPECT_EQ(SliceStorePeer::FreeStagingBytes(*t.store), 0u);
  EXPECT_EQ(t.PushRows(1, 0, 1, {{a, 1}}), PushOutcome::kBusy);
  EXPECT_EQ(t.PushRows(1, 0, 0, {{a, 1}}), PushOutcome::kAccepted);
  EXPECT_EQ(t.PushRows(1, 0, 1, {{a, 4}}), PushOutcome::kAccepted);
  EXPECT_EQ(t.Read(1, a), -2);
}

// Both kinds share the memory. If one kind has filled it, the other is added when it is its turn.
TEST(SliceStoreBucketsTest, DenseContributionsCannotStopThoseToBucketsNorTheReverse) {
  SliceStoreOptions options;
  options.staging_bytes = 64;  // One contribution.
  TableUnderTest t(options, {0, 0, 1000, 1, 4});
  const uint64_t a = t.KeyOf(1);
  const auto push = [&](uint32_t slice, uint64_t step, uint32_t position) {
    return slice == 0 ? t.Push(0, step, position, 1) : t.PushRows(1, step, position, {{a, 1}});
  };
  for (uint64_t step = 0; step < 4; ++step) {
    const uint32_t full = step % 2, other = 1 - full;
    SCOPED_TRACE(full == 0 ? "the dense slice fills the memory" : "the bucket fills the memory");
    EXPECT_EQ(push(full, step, 3), PushOutcome::kAccepted);
    EXPECT_EQ(SliceStorePeer::FreeStagingBytes(*t.store), 0u);
    for (uint32_t position = 0; position < 4; ++position) {
      for (uint32_t later = position + 1; later < 4; ++later) {
        EXPECT_EQ(push(other, step, later), PushOutcome::kBusy);
        EXPECT_FALSE(t.MakeRoom(other, step, later, 8));
      }
      EXPECT_TRUE(t.MakeRoom(other, step, position, 8));
      EXPECT_EQ(push(other, step, position), PushOutcome::kAccepted);
    }
    EXPECT_EQ(t.store->newest_version(other), step + 1) << "one slice may be a version ahead";
    for (uint32_t position = 0; position < 3; ++position) {
      EXPECT_EQ(push(full, step, position), PushOutcome::kAccepted);
    }
    EXPECT_EQ(t.store->newest_version(full), step + 1);
    EXPECT_EQ(SliceStorePeer::FreeStagingBytes(*t.store), 64u);
  }
  EXPECT_EQ(t.ValueAt(0, 4), -4);
  EXPECT_EQ(t.Read(4, a), -4);
}

TEST(SliceStoreBucketsTest, AContributionThatIsLargerThanTheStagingMemoryWaitsForItsTurn) {
  SliceStoreOptions options;
  options.staging_bytes = 64;
  TableUnderTest t(options);
  std::map<uint64_t, float> many;
  for (uint64_t key = 0; many.size() < 40; ++key) many[key = t.KeyOf(1, key)] = 2;
  const uint64_t bytes = RowPayloadBytes(many.size(), kDim);
  EXPECT_EQ(t.PushRows(1, 0, 1, many), PushOutcome::kBusy);
  EXPECT_FALSE(t.MakeRoom(1, 0, 1, bytes));
  EXPECT_EQ(t.Push(0, 0, 1, 1), PushOutcome::kAccepted) << "it leaves room for others";
  EXPECT_EQ(t.PushRows(1, 0, 0, {}), PushOutcome::kAccepted);
  EXPECT_TRUE(t.MakeRoom(1, 0, 1, bytes));
  EXPECT_EQ(t.PushRows(1, 0, 1, many), PushOutcome::kAccepted);
  EXPECT_EQ(t.store->newest_version(1), 1u);
}

TEST(SliceStoreBucketsTest, SkippedBatchesDoNotCount) {
  TableUnderTest t;
  const uint64_t a = t.KeyOf(1);
  const BatchKey skipped = t.plan.BatchAt(0, 1);
  t.PushRows(1, 0, 0, {{a, 4}});
  t.store->Withhold(skipped, 1);
  t.store->Decide(skipped, 1, /*skip=*/true);
  EXPECT_EQ(t.store->newest_version(1), 1u);
  EXPECT_EQ(t.Read(1, a), -4);
}

TEST(SliceStoreBucketsTest, RowsHaveTheirOwnOptimizerAndRate) {
  v1::VariableSpec table = TableSpecOf("item", 1);
  table.mutable_table()->mutable_optimizer()->mutable_sgd();
  table.mutable_table()->mutable_optimizer()->set_learning_rate(0.25);
  StoreUnderTest t({SpecOf("v", 1), table}, {}, {0, 0, 1000, 1, 1});
  EXPECT_EQ(t.Push(0, 0, 0, 1), PushOutcome::kAccepted);
  EXPECT_EQ(t.ValueAt(0, 1), -1);
  const uint64_t key = 5;
  const float row[] = {4, 8};
  std::vector<char> payload(RowPayloadBytes(1, kDim));
  EncodeRows({{&key, 1}, row}, kDim, payload.data());
  SlicePush push;
  push.slice = 1;
  push.kind = ContributionKind::kRows;
  push.batch = t.plan.BatchAt(0, 0);
  push.examples = 1;
  push.data = payload.data();
  push.bytes = payload.size();
  EXPECT_EQ(t.store->Push(push), PushOutcome::kAccepted);
  float value[kDim];
  t.store->ReadRows(1, 1, {&key, 1}, value);
  EXPECT_THAT(value, ElementsAre(-1, -2));
}

TEST(SliceStoreBucketsTest, AnUpdateThatIsNotFinitePoisonsTheBucket) {
  TableUnderTest t;
  const uint64_t a = t.KeyOf(1);
  t.PushRows(1, 0, 0, {{a, 3e38f}});
  t.PushRows(1, 0, 1, {{a, 3e38f}});
  EXPECT_EQ(t.store->newest_version(1), 0u);
  EXPECT_EQ(t.Read(0, a), 0);
  const SliceStoreEvents& events = t.TakeEvents();
  ASSERT_EQ(events.poisoned.size(), 1u);
  EXPECT_EQ(events.poisoned[0].slice, 1u);
}

TEST(SliceStoreBucketsTest, ANormCoversTheSumsOfRows) {
  SliceStoreOptions options;
  options.update.clip_by_global_norm = 1;
  TableUnderTest t(options);
  const uint64_t a = t.KeyOf(1);
  t.PushRows(1, 0, 0, {{a, 2}});
  t.PushRows(1, 0, 1, {{a, 4}});
  const SliceStoreEvents events = t.TakeEvents();
  ASSERT_EQ(events.norms.size(), 1u);
  EXPECT_EQ(events.norms[0].squared_norm, 9 + 9);
  t.store->ApplyScale(0, 0.5);
  EXPECT_EQ(t.Read(1, a), -1.5f);
}

// The rows of a cut, given back by a source, continue with the same values.
class RowsSource : public ConstantSource {
 public:
  explicit RowsSource(std::map<uint32_t, BucketRows> rows)
      : ConstantSource(0), rows_(std::move(rows)) {}
  absl::Status FillBucket(uint32_t slice, BucketContents* contents) override {
    contents->rows = rows_[slice];
    return absl::OkStatus();
  }

 private:
  std::map<uint32_t, BucketRows> rows_;
};

TEST(SliceStoreBucketsTest, ACutContainsTheRowsAndALoadRestoresThem) {
  SliceStoreOptions options;
  options.cuts = VersionSchedule{2, 100};
  TableUnderTest t(options, {0, 0, 1000, 1, 1});
  const uint64_t a = t.KeyOf(1), b = t.KeyOf(2);
  for (uint64_t step = 0; step < 2; ++step) {
    t.Push(0, step, 0, 1);
    t.PushRows(1, step, 0, {{a, 1}});
    t.PushRows(2, step, 0, {{b, static_cast<float>(step)}});
  }
  std::map<uint32_t, BucketRows> rows;
  for (const SliceStoreEvents::CutPart& part : t.TakeEvents().cuts) {
    EXPECT_EQ(part.cut, 2u);
    EXPECT_EQ(part.rows == nullptr, part.slice == 0) << "slice " << part.slice;
    if (part.rows != nullptr) rows[part.slice] = part.rows->ReadAll();
  }
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_THAT(rows[1].keys, ElementsAre(a));
  EXPECT_THAT(rows[1].touched, ElementsAre(2));
  EXPECT_THAT(rows[1].rows, ElementsAre(-2, -2));
  TableUnderTest restored(options, {0, 0, 1000, 1, 1});
  RowsSource source(rows);
  ASSERT_TRUE(restored.store->Load({7, 2, restored.plan, {}}, source).ok());
  EXPECT_EQ(restored.Read(2, a), -2);
  EXPECT_EQ(restored.Read(2, b), -1);
  rows[1].touched[0] = 3;
  RowsSource damaged(rows);
  EXPECT_EQ(restored.store->Load({8, 2, restored.plan, {}}, damaged).code(),
            absl::StatusCode::kDataLoss);
}

TEST(SliceStoreBucketsTest, AsynchronousRowsAreAppliedOncePerBatchOnArrival) {
  SliceStoreOptions options;
  options.synchronous = false;
  TableUnderTest t(options);
  const uint64_t a = t.KeyOf(1);
  EXPECT_EQ(t.PushRows(1, 0, 1, {{a, 2}}), PushOutcome::kAccepted);
  EXPECT_EQ(t.PushRows(1, 0, 1, {{a, 2}}), PushOutcome::kDuplicate);
  EXPECT_EQ(t.Read(1, a), -2);
  EXPECT_EQ(t.PushRows(1, 0, 0, {{a, 1}}), PushOutcome::kAccepted);
  EXPECT_EQ(t.Read(2, a), -3);
  EXPECT_EQ(t.store->newest_version(1), 2u);
  EXPECT_EQ(t.store->newest_version(2), 0u);
}

TEST(SliceStoreBucketsTest, ATableThatCannotBeIsRefusedByItsField) {
  const auto refusal = [](const v1::VariableSpec& spec, SliceStoreOptions options = {}) {
    const std::vector<v1::VariableSpec> specs = {spec};
    const absl::StatusOr<SliceTable> table = SliceTable::Create(specs, 64);
    if (!table.ok()) return std::string(table.status().message());
    const std::vector<uint32_t> owned = {0};
    options.update.schedule.learning_rate = 1;
    return std::string(SliceStore::Create(options, specs, *table, owned).status().message());
  };
  EXPECT_THAT(refusal(TableSpecOf("item", 0)), HasSubstr("\"item\": table.buckets is 0"));
  v1::VariableSpec square = TableSpecOf("item", 1);
  square.add_shape(3);
  EXPECT_THAT(refusal(square), HasSubstr("the shape of a table must be one dimension"));
  v1::VariableSpec momentum = TableSpecOf("item", 1);
  momentum.mutable_table()->mutable_optimizer()->mutable_momentum();
  EXPECT_THAT(refusal(momentum), HasSubstr("a table can use sgd, adagrad"));
  SliceStoreOptions averages;
  averages.update.moving_average_decay = 0.9;
  EXPECT_THAT(refusal(TableSpecOf("item", 1), averages), HasSubstr("moving_average_decay"));
}

// After the update the version of a row would be that of a row from before the run.
TEST(SliceStoreBucketsTest, ABucketWithTheMostUpdatesIsPoisonedAndLosesNoRow) {
  constexpr uint64_t kMost = kMostTableUpdates;
  for (const bool synchronous : {true, false}) {
    SliceStoreOptions options;
    options.synchronous = synchronous;
    TableUnderTest t(options, {0, 0, 1'000'000'000'000, 1, 1});
    t.Load(kMost - 1);
    const uint64_t a = t.KeyOf(1);
    EXPECT_EQ(t.PushRows(1, kMost - 1, 0, {{a, 1}}, kMost - 1), PushOutcome::kAccepted);
    EXPECT_EQ(t.Read(kMost, a), -1);
    EXPECT_TRUE(t.TakeEvents().poisoned.empty());
    t.PushRows(1, kMost, 0, {{a, 1}}, kMost);
    EXPECT_EQ(t.Read(kMost, a), -1);
    ASSERT_EQ(t.TakeEvents().poisoned.size(), 1u);
    EXPECT_EQ(t.events.poisoned[0].step, kMost + 1);
    EXPECT_EQ(t.store->newest_version(1), kMost);
    EXPECT_EQ(t.store->TablesInUse()[0].rows, 1u);
  }
}

}  // namespace
}  // namespace shoal

#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "runtime/variables/slice_store.h"
#include "runtime/variables/slice_store_testing.h"

namespace shoal {
namespace {

using testing::ElementsAre;

SliceStoreOptions Async(int64_t max_staleness = -1) {
  SliceStoreOptions options;
  options.synchronous = false;
  options.max_staleness = max_staleness;
  return options;
}

TEST(SliceStoreAsyncTest, AppliesOnArrivalOncePerBatchAndSlice) {
  StoreUnderTest t({SpecOf("a", 1), SpecOf("b", 1)}, Async());
  EXPECT_EQ(t.PushAsync(0, {0, 5}, 0, 1), PushOutcome::kAccepted);
  EXPECT_EQ(t.PushAsync(0, {0, 5}, 0, 1), PushOutcome::kDuplicate);
  EXPECT_EQ(t.PushAsync(0, {1, 5}, 0, 1), PushOutcome::kAccepted) << "another epoch";
  EXPECT_EQ(t.PushAsync(1, {0, 5}, 0, 1), PushOutcome::kAccepted) << "another slice";
  const PullAnswer answer = t.store->PullNewest(0);
  EXPECT_EQ(answer.version, 2u);
  EXPECT_EQ(answer.value->data()[0], -2);
  EXPECT_EQ(t.store->newest_version(1), 1u);
}

TEST(SliceStoreAsyncTest, RefusesWhatIsOlderThanTheBound) {
  StoreUnderTest t({SpecOf("v", 1)}, Async(1));
  for (uint64_t i = 0; i < 2; ++i) t.PushAsync(0, {0, i}, i, 1);
  EXPECT_EQ(t.PushAsync(0, {0, 2}, 0, 1), PushOutcome::kStale);
  EXPECT_EQ(t.PushAsync(0, {0, 1}, 0, 1), PushOutcome::kDuplicate)
      << "a repeated one is success, however old";
  EXPECT_EQ(t.PushAsync(0, {0, 2}, 1, 1), PushOutcome::kAccepted);
  EXPECT_EQ(t.PushAsync(0, {0, 3}, 99, 1), PushOutcome::kAccepted) << "pulled before a restore";
}

TEST(SliceStoreAsyncTest, BadContributionsChangeNothing) {
  StoreUnderTest t({SpecOf("v", 1)}, Async());
  EXPECT_EQ(t.PushAsync(0, {0, 0}, 0, NAN), PushOutcome::kNonFinite);
  EXPECT_TRUE(t.store->Withhold({0, 1}, 1).none_has);
  EXPECT_EQ(t.PushAsync(0, {0, 1}, 0, 1), PushOutcome::kWithheld);
  t.store->Decide({0, 1}, 1, true);
  EXPECT_EQ(t.PushAsync(0, {0, 1}, 0, 1), PushOutcome::kWithheld);
  EXPECT_EQ(t.PushAsync(0, {0, 1u << 30}, 0, 1), PushOutcome::kAhead) << "no such batch";
  EXPECT_EQ(t.store->newest_version(0), 0u);
}

TEST(SliceStoreAsyncTest, TakesNothingOfAnEpochThatTheRunDoesNotHave) {
  SliceStoreOptions options = Async();
  options.end_epoch = 2;
  StoreUnderTest t({SpecOf("v", 1)}, options);
  EXPECT_EQ(t.PushAsync(0, {1, 0}, 0, 1), PushOutcome::kAccepted);
  EXPECT_EQ(t.PushAsync(0, {2, 0}, 0, 1), PushOutcome::kAhead);
  EXPECT_EQ(t.store->newest_version(0), 1u);
}

TEST(SliceStoreAsyncTest, ASliceWhoseUpdateIsNotFiniteTakesAndCutsNothingMore) {
  SliceStoreOptions options = Async();
  options.update.schedule.learning_rate = 4;
  StoreUnderTest t({SpecOf("a", 1), SpecOf("b", 1)}, options);
  EXPECT_EQ(t.PushAsync(0, {0, 0}, 0, 1), PushOutcome::kAccepted);
  EXPECT_EQ(t.PushAsync(0, {0, 1}, 0, 3e38f), PushOutcome::kWithheld);
  EXPECT_EQ(t.PushAsync(0, {0, 2}, 0, 1), PushOutcome::kWithheld);
  EXPECT_EQ(t.PushAsync(1, {0, 2}, 0, 1), PushOutcome::kAccepted);
  EXPECT_EQ(t.store->PullNewest(0).value->data()[0], -4);
  EXPECT_EQ(t.store->newest_version(0), 1u);
  t.store->RequestCut(7);
  const SliceStoreEvents& events = t.TakeEvents();
  ASSERT_EQ(events.poisoned.size(), 1u);
  EXPECT_EQ(events.poisoned[0].slice, 0u);
  EXPECT_EQ(events.poisoned[0].step, 2u);
  EXPECT_TRUE(events.cuts.empty());
}

TEST(SliceStoreAsyncTest, ReturnsTheBatchesThatEverySliceHas) {
  StoreUnderTest t({SpecOf("a", 1), SpecOf("b", 1)}, Async());
  for (uint64_t i : {0, 1, 2}) t.PushAsync(0, {0, i}, 0, 1);
  for (uint64_t i : {1, 2, 3}) t.PushAsync(1, {0, i}, 0, 1);
  EXPECT_THAT(t.store->Applied(0).ranges(), ElementsAre(IntervalSet::Range{1, 3}));
  EXPECT_TRUE(t.store->Applied(1).empty());
  t.store->ForgetEpochsBefore(1);
  EXPECT_TRUE(t.store->Applied(0).Contains(999)) << "what is forgotten was complete";
  EXPECT_EQ(t.PushAsync(0, {0, 3}, 0, 1), PushOutcome::kDuplicate);
}

TEST(SliceStoreAsyncTest, ACutHoldsTheValueAndWhatItContainsTogether) {
  StoreUnderTest t({SpecOf("a", 1), SpecOf("b", 1)}, Async());
  t.PushAsync(0, {0, 0}, 0, 1);
  t.store->RequestCut(1);
  t.store->RequestCut(1);
  t.PushAsync(0, {0, 1}, 0, 1);
  const SliceStoreEvents& events = t.TakeEvents();
  ASSERT_EQ(events.cuts.size(), 2u) << "once per name";
  EXPECT_EQ(events.cuts[0].version, 1u);
  EXPECT_EQ(events.cuts[0].value->data()[0], -1);
  ASSERT_EQ(events.cuts[0].applied.size(), 1u);
  EXPECT_THAT(events.cuts[0].applied[0].batches.ranges(), ElementsAre(IntervalSet::Range{0, 1}));
  EXPECT_EQ(events.cuts[1].version, 0u);
  EXPECT_TRUE(events.cuts[1].completes_cut);
}

TEST(SliceStoreAsyncTest, ARestoredSliceTakesOnlyWhatItMisses) {
  class Source : public SliceSource {
    absl::Status Fill(uint32_t, Contents* contents) override {
      contents->value[0] = -3;
      contents->version = contents->value_version = 3;
      EpochBatches& epoch = contents->applied.emplace_back();
      epoch.batches.InsertRange(0, 3);
      return absl::OkStatus();
    }
  } source;
  StoreUnderTest t({SpecOf("v", 1)}, Async());
  ASSERT_TRUE(t.store->Load({5, 3, t.plan, {}}, source).ok());
  EXPECT_EQ(t.PushAsync(0, {0, 2}, 0, 1), PushOutcome::kDuplicate);
  EXPECT_EQ(t.PushAsync(0, {0, 3}, 0, 1), PushOutcome::kAccepted);
  EXPECT_EQ(t.store->PullNewest(0).version, 4u);
  EXPECT_EQ(t.store->PullNewest(0).value->data()[0], -4);
}

TEST(SliceStoreAsyncTest, LearningRateFollowsTheSlicesOwnCount) {
  SliceStoreOptions options = Async();
  options.update.schedule.kind = ScheduleKind::kStep;
  options.update.schedule.learning_rate = 1;
  options.update.schedule.boundaries = {1};
  options.update.schedule.factors = {0.5};
  StoreUnderTest t({SpecOf("a", 1), SpecOf("b", 1)}, options);
  t.PushAsync(0, {0, 0}, 0, 1);
  t.PushAsync(0, {0, 1}, 0, 1);
  t.PushAsync(1, {0, 1}, 0, 1);
  EXPECT_EQ(t.store->PullNewest(0).value->data()[0], -1.5f);
  EXPECT_EQ(t.store->PullNewest(1).value->data()[0], -1);
}

}  // namespace
}  // namespace shoal

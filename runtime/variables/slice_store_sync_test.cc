#include <cmath>
#include <cstring>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "runtime/variables/slice_store.h"
#include "runtime/variables/slice_store_testing.h"

namespace shoal {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(SliceStoreSyncTest, AppliesTheMeanWhenAllPositionsAreThere) {
  StoreUnderTest t({SpecOf("v", 4)});
  EXPECT_EQ(t.Push(0, 0, 0, 1), PushOutcome::kAccepted);
  EXPECT_EQ(t.store->TryPull(0, 1).state, PullAnswer::kNotYet);
  EXPECT_EQ(t.Push(0, 0, 1, 3), PushOutcome::kAccepted);
  EXPECT_EQ(t.ValueAt(0, 1), -2);
  EXPECT_EQ(t.ValueAt(0, 0), 0) << "the previous version is kept";
  const SliceStoreEvents& events = t.TakeEvents();
  ASSERT_EQ(events.advances.size(), 1u);
  EXPECT_EQ(events.advances[0].version, 1u);
}

TEST(SliceStoreSyncTest, TheOrderOfArrivalDoesNotChangeABit) {
  StepPlan::Options four{0, 0, 1000, 3, 4};
  uint32_t expected = 0;
  for (const std::vector<uint32_t>& order :
       {std::vector<uint32_t>{0, 1, 2, 3}, {3, 2, 1, 0}, {2, 0, 3, 1}, {1, 3, 0, 2}}) {
    StoreUnderTest t({SpecOf("v", 1)}, {}, four);
    const float g[] = {1e8f, 0.3f, -1e8f, 0.7f};
    for (uint32_t position : order)
      EXPECT_EQ(t.Push(0, 0, position, g[position]), PushOutcome::kAccepted);
    const float value = t.ValueAt(0, 1);
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof(bits));
    if (expected == 0) expected = bits;
    EXPECT_EQ(bits, expected);
  }
}

TEST(SliceStoreSyncTest, WeighsBatchesByTheirExamples) {
  StoreUnderTest t({SpecOf("v", 1)}, {}, {0, 0, 5, 4, 2});  // batches of 4 and 1
  t.Push(0, 0, 0, 1);
  t.Push(0, 0, 1, 6);
  EXPECT_EQ(t.ValueAt(0, 1), -(4 * 1.0f + 6) * (1.0f / 5));
}

TEST(SliceStoreSyncTest, AStepOfOneBatchIsNotScaled) {
  StoreUnderTest t({SpecOf("v", 1)}, {}, {0, 0, 1000, 3, 1});
  t.Push(0, 0, 0, 0.1f);
  EXPECT_EQ(t.ValueAt(0, 1), -0.1f);
}

TEST(SliceStoreSyncTest, ARepeatedContributionIsADuplicateBeforeAndAfterTheStep) {
  StoreUnderTest t({SpecOf("v", 1)});
  t.Push(0, 0, 1, 3);
  EXPECT_EQ(t.Push(0, 0, 1, 3), PushOutcome::kDuplicate) << "while it waits";
  t.Push(0, 0, 0, 1);
  EXPECT_EQ(t.Push(0, 0, 0, 1), PushOutcome::kDuplicate) << "after the step";
  EXPECT_EQ(t.ValueAt(0, 1), -2);
}

TEST(SliceStoreSyncTest, ASliceWhoseUpdateIsNotFiniteStopsAtTheVersionBefore) {
  SliceStoreOptions options;
  options.update.schedule.learning_rate = 4;
  options.cuts.every = 1;
  StoreUnderTest t({SpecOf("v", 4), SpecOf("w", 4)}, options, {0, 0, 1000, 1, 1});
  for (const uint32_t slice : {0u, 1u}) t.Push(slice, 0, 0, 1);
  EXPECT_EQ(t.TakeEvents().cuts.size(), 2u);
  t.Push(0, 1, 0, 3e38f);
  t.Push(1, 1, 0, 1);
  const SliceStoreEvents& events = t.TakeEvents();
  ASSERT_EQ(events.poisoned.size(), 1u);
  EXPECT_EQ(events.poisoned[0].slice, 0u);
  EXPECT_EQ(events.poisoned[0].step, 2u);
  EXPECT_EQ(events.poisoned[0].learning_rate, 4);
  EXPECT_EQ(events.advances.size(), 1u) << "of the other slice";
  ASSERT_EQ(events.cuts.size(), 1u);
  EXPECT_EQ(events.cuts[0].slice, 1u);
  EXPECT_FALSE(events.cuts[0].completes_cut);
  EXPECT_EQ(t.ValueAt(0, 1), -4);
  EXPECT_EQ(t.store->TryPull(0, 2).state, PullAnswer::kNotYet);
  EXPECT_EQ(t.store->TryPull(0, 0).state, PullAnswer::kGone);
  EXPECT_EQ(t.Push(0, 1, 0, 1), PushOutcome::kDuplicate);
  EXPECT_EQ(t.Push(0, 2, 0, 1), PushOutcome::kAhead);
  t.store->Decide(t.plan.BatchAt(2, 0), 1, true);
  EXPECT_TRUE(t.TakeEvents().advances.size() == 1u) << "the other continues";
  t.Load(1);
  EXPECT_EQ(t.Push(0, 1, 0, 1), PushOutcome::kAccepted);
  EXPECT_EQ(t.ValueAt(0, 2), -4);
}

TEST(SliceStoreSyncTest, SumsAndScalesThatOverflowPoisonTheSlice) {
  StoreUnderTest t({SpecOf("v", 4)});
  t.Push(0, 0, 0, 3e38f);
  t.Push(0, 0, 1, 3e38f);
  EXPECT_EQ(t.TakeEvents().poisoned.size(), 1u);
  EXPECT_EQ(t.store->TryPull(0, 1).state, PullAnswer::kNotYet);
}

TEST(SliceStoreSyncTest, ValuesThatAreNotFiniteAreNotLoaded) {
  StoreUnderTest t({SpecOf("v", 4)});
  ConstantSource poisoned(NAN);
  EXPECT_TRUE(absl::IsDataLoss(t.store->Load({2, 1, t.plan, {}}, poisoned)));
}

TEST(SliceStoreSyncTest, ContributionsThatDoNotBelongHereAreRefusedAndChangeNothing) {
  StoreUnderTest t({SpecOf("v", 4)});
  EXPECT_EQ(t.Push(0, 1, 0, 1), PushOutcome::kAhead);
  EXPECT_EQ(t.PushBatch(0, {0, 5}, 0, 0, 0, 1, nullptr), PushOutcome::kAhead)
      << "batch and position disagree";
  EXPECT_EQ(t.Push(0, 0, 0, NAN), PushOutcome::kNonFinite);
  EXPECT_EQ(t.Push(0, 0, 1, INFINITY), PushOutcome::kNonFinite);
  SlicePush push;
  push.batch = t.plan.BatchAt(0, 0);
  const float three[3] = {};
  push.data = three;
  push.bytes = sizeof(three);
  EXPECT_EQ(t.store->Push(push), PushOutcome::kCorrupt);
  push.slice = 7;
  EXPECT_EQ(t.store->Push(push), PushOutcome::kAhead) << "no such slice";
  t.Push(0, 0, 0, 1);
  t.Push(0, 0, 1, 3);
  EXPECT_EQ(t.ValueAt(0, 1), -2);
}

TEST(SliceStoreSyncTest, PushesThatAreOutOfOrderNeedCredit) {
  SliceStoreOptions options;
  options.staging_bytes = 64;
  StoreUnderTest t({SpecOf("v", 16)}, options, {0, 0, 1000, 1, 4});
  EXPECT_EQ(t.Push(0, 0, 2, 1), PushOutcome::kAccepted);
  EXPECT_EQ(SliceStorePeer::FreeStagingBytes(*t.store), 0u);
  EXPECT_EQ(t.Push(0, 0, 1, 1), PushOutcome::kBusy);
  EXPECT_EQ(t.Push(0, 0, 0, 1), PushOutcome::kAccepted);
  EXPECT_EQ(t.Push(0, 0, 1, 1), PushOutcome::kAccepted) << "it is the lowest missing one now";
  EXPECT_EQ(SliceStorePeer::FreeStagingBytes(*t.store), 64u);
}

TEST(SliceStoreSyncTest, RoomThatWasAskedForIsKeptUntilTheContributionHasCome) {
  SliceStoreOptions options;
  options.staging_bytes = 64;
  StoreUnderTest t({SpecOf("v", 16)}, options, {0, 0, 1000, 1, 4});
  const auto make_room = [&t](uint32_t position) {
    SlicePush push;
    push.batch = t.plan.BatchAt(0, position);
    push.position = position;
    push.bytes = 64;
    return t.store->MakeRoom(push);
  };
  EXPECT_TRUE(make_room(0)) << "the lowest missing one needs none";
  EXPECT_EQ(SliceStorePeer::FreeStagingBytes(*t.store), 64u);
  EXPECT_TRUE(make_room(2));
  EXPECT_TRUE(make_room(2)) << "the same room";
  EXPECT_EQ(SliceStorePeer::FreeStagingBytes(*t.store), 0u);
  EXPECT_FALSE(make_room(3));
  EXPECT_EQ(t.Push(0, 0, 3, 1), PushOutcome::kBusy);
  EXPECT_EQ(t.Push(0, 0, 2, 1), PushOutcome::kAccepted);
  EXPECT_EQ(t.Push(0, 0, 0, 1), PushOutcome::kAccepted);
  EXPECT_FALSE(make_room(3));
  EXPECT_EQ(t.Push(0, 0, 1, 1), PushOutcome::kAccepted);
  EXPECT_TRUE(make_room(3)) << "it is next";
  EXPECT_EQ(t.Push(0, 0, 3, 1), PushOutcome::kAccepted);
  EXPECT_EQ(SliceStorePeer::FreeStagingBytes(*t.store), 64u);
}

TEST(SliceStoreSyncTest, UnusedRoomIsFreeWhenTheTurnIsOver) {
  SliceStoreOptions options;
  options.staging_bytes = 128;
  StoreUnderTest t({SpecOf("v", 16)}, options, {0, 0, 1000, 1, 3});
  for (const uint32_t position : {1u, 2u}) {
    SlicePush push;
    push.batch = t.plan.BatchAt(0, position);
    push.position = position;
    push.bytes = 64;
    EXPECT_TRUE(t.store->MakeRoom(push));
  }
  EXPECT_EQ(SliceStorePeer::FreeStagingBytes(*t.store), 0u);
  EXPECT_EQ(t.Push(0, 0, 0, 1), PushOutcome::kAccepted);
  EXPECT_EQ(t.Push(0, 0, 1, 1), PushOutcome::kAccepted);
  EXPECT_EQ(SliceStorePeer::FreeStagingBytes(*t.store), 64u);
  t.store->Withhold(t.plan.BatchAt(0, 2), 1);
  t.store->Decide(t.plan.BatchAt(0, 2), 1, /*skip=*/true);
  EXPECT_EQ(t.store->newest_version(0), 1u);
  EXPECT_EQ(SliceStorePeer::FreeStagingBytes(*t.store), 128u);
}

TEST(SliceStoreSyncTest, NoSliceTakesAWithheldBatchUntilTheDecision) {
  StoreUnderTest t({SpecOf("a", 1), SpecOf("b", 1)});
  const BatchKey batch = t.plan.BatchAt(0, 1);
  t.Push(0, 0, 1, 3);
  WithholdAnswer answer = t.store->Withhold(batch, 1);
  EXPECT_FALSE(answer.all_have || answer.none_has || answer.ignored);
  EXPECT_EQ(t.Push(1, 0, 1, 3), PushOutcome::kWithheld);
  EXPECT_EQ(t.Push(0, 0, 1, 3), PushOutcome::kDuplicate);
  t.store->Decide(batch, 1, false);
  EXPECT_TRUE(t.store->Withhold(batch, 1).ignored) << "it came late";
  EXPECT_EQ(t.Push(1, 0, 1, 3), PushOutcome::kAccepted);
  answer = t.store->Withhold(batch, 2);
  EXPECT_TRUE(answer.all_have);
}

TEST(SliceStoreSyncTest, ASkippedBatchCountsNoExamplesAndReleasesWhatWaitedForIt) {
  StoreUnderTest t({SpecOf("v", 1)}, {}, {0, 0, 1000, 1, 3});
  t.Push(0, 0, 1, 4);
  t.Push(0, 0, 2, 6);
  const BatchKey batch = t.plan.BatchAt(0, 0);
  EXPECT_TRUE(t.store->Withhold(batch, 1).none_has);
  t.store->Decide(batch, 1, true);
  EXPECT_EQ(t.ValueAt(0, 1), -5);
  EXPECT_EQ(t.Push(0, 0, 0, 1), PushOutcome::kWithheld);
}

TEST(SliceStoreSyncTest, AStepWithoutBatchesChangesTheNumberOnly) {
  StoreUnderTest t({SpecOf("v", 1)}, {}, {0, 0, 1000, 1, 1});
  t.Push(0, 0, 0, 1);
  for (uint64_t step : {2, 1}) t.store->Decide(t.plan.BatchAt(step, 0), step, true);
  EXPECT_EQ(t.store->newest_version(0), 3u);
  for (uint64_t version : {1, 2, 3}) EXPECT_EQ(t.ValueAt(0, version), -1);
  EXPECT_EQ(t.ValueAt(0, 0), 0);
  t.Push(0, 3, 0, 1);
  EXPECT_EQ(t.ValueAt(0, 4), -2);
  EXPECT_EQ(t.ValueAt(0, 1), -1);
  EXPECT_EQ(t.store->TryPull(0, 0).state, PullAnswer::kGone);
  EXPECT_EQ(t.store->TryPull(0, 0).version, 4u);
}

TEST(SliceStoreSyncTest, SkipsOutliveARollback) {
  StoreUnderTest t({SpecOf("v", 1)});
  t.Push(0, 0, 0, 1);
  t.Load(0, {t.plan.BatchAt(0, 0), t.plan.BatchAt(1, 0), t.plan.BatchAt(1, 1)});
  EXPECT_EQ(t.Push(0, 0, 0, 1), PushOutcome::kWithheld);
  EXPECT_EQ(t.Push(0, 0, 1, 3), PushOutcome::kAccepted);
  EXPECT_EQ(t.ValueAt(0, 1), -3);
  EXPECT_EQ(t.store->newest_version(0), 2u);
}

TEST(SliceStoreSyncTest, NamesThePositionsThatAreMissing) {
  StoreUnderTest t({SpecOf("v", 1)}, {}, {0, 0, 1000, 1, 4});
  t.Push(0, 0, 2, 1);
  t.store->Decide(t.plan.BatchAt(0, 1), 1, true);
  std::vector<uint32_t> missing;
  t.store->AppendMissingPositions(0, &missing);
  EXPECT_THAT(missing, ElementsAre(0, 3));
}

TEST(SliceStoreSyncTest, ReportsEachStepOnceInTheOrderOfPositions) {
  StoreUnderTest t({SpecOf("frozen", 1, v1::UPDATE_KIND_NONE), SpecOf("v", 1), SpecOf("w", 1)}, {},
                   {0, 0, 7, 4, 2});
  const BatchReport first{8, 0.5, 2, 4, {{1, 4, {}}}};
  const BatchReport second{3, 2, 1, 3, {{1e16, 3, {}}, {1, 2, {}}}};
  t.Push(1, 0, 1, 1, &second);
  t.Push(1, 0, 1, 1, &first);  // a repeated push does not count
  t.Push(2, 0, 0, 1, &first);  // a push to another slice does not count either
  t.Push(2, 0, 1, 1, &second);
  t.Push(1, 0, 0, 1, &first);
  const SliceStoreEvents& events = t.TakeEvents();
  ASSERT_EQ(events.steps.size(), 1u);
  EXPECT_EQ(events.steps[0].step, 1u);
  EXPECT_EQ(events.steps[0].loss_sum, 11);
  EXPECT_EQ(events.steps[0].regularization, (0.5 * 4 + 2 * 3) / 7);
  EXPECT_EQ(events.steps[0].correct, 3u);
  EXPECT_EQ(events.steps[0].examples, 7u);
  EXPECT_EQ(events.steps[0].learning_rate, 1);
  ASSERT_EQ(events.steps[0].metrics.size(), 2u);
  EXPECT_EQ(events.steps[0].metrics[0].sum, 1 + 1e16);
  EXPECT_EQ(events.steps[0].metrics[0].weight, 7);
  EXPECT_EQ(events.steps[0].metrics[1].weight, 2);
}

TEST(SliceStoreSyncTest, CutsEverySliceAsItPassesTheVersion) {
  SliceStoreOptions options;
  options.cuts.every = 2;
  options.update.optimizer.kind = OptimizerKind::kMomentum;
  StoreUnderTest t({SpecOf("a", 1), SpecOf("b", 1), SpecOf("frozen", 1, v1::UPDATE_KIND_NONE)},
                   options, {0, 0, 1000, 1, 1});
  for (uint64_t step = 0; step < 3; ++step) t.Push(0, step, 0, 1);
  for (uint64_t step = 0; step < 2; ++step) t.Push(1, step, 0, 1);
  const SliceStoreEvents& events = t.TakeEvents();
  ASSERT_EQ(events.cuts.size(), 3u);
  EXPECT_EQ(events.cuts[0].slice, 0u);
  EXPECT_EQ(events.cuts[0].cut, 2u);
  EXPECT_EQ(events.cuts[0].version, 2u);
  EXPECT_NE(events.cuts[0].value->data()[0], t.ValueAt(0, 3))
      << "later steps do not change what was cut";
  EXPECT_FLOAT_EQ(events.cuts[0].slots->data()[0], 1.9f) << "nor its slots";
  EXPECT_EQ(events.cuts[1].slice, 2u);
  EXPECT_EQ(events.cuts[1].version, kEveryVersion);
  EXPECT_FALSE(events.cuts[1].completes_cut);
  EXPECT_TRUE(events.cuts[2].completes_cut);
}

TEST(SliceStoreSyncTest, ACutOnRequestMustNotBeBehindAnySlice) {
  StoreUnderTest t({SpecOf("a", 1), SpecOf("b", 1)}, {}, {0, 0, 1000, 1, 1});
  t.Push(0, 0, 0, 1);
  EXPECT_TRUE(t.store->RequestCut(0).passed);
  EXPECT_EQ(t.store->RequestCut(0).newest_version, 1u);
  EXPECT_FALSE(t.store->RequestCut(2).passed);
  EXPECT_TRUE(t.store->RequestCut(2).waits);
  for (uint64_t step = 0; step < 2; ++step) {
    for (uint32_t slice : {0, 1}) t.Push(slice, step, 0, 1);
  }
  EXPECT_EQ(t.TakeEvents().cuts.size(), 2u);
}

TEST(SliceStoreSyncTest, ACutOnRequestTakesSlicesThatAreAtItsVersionAtOnce) {
  StoreUnderTest t({SpecOf("a", 1), SpecOf("b", 1), SpecOf("frozen", 1, v1::UPDATE_KIND_NONE)}, {},
                   {0, 0, 1000, 1, 1});
  t.Push(0, 0, 0, 1);
  CutAnswer answer = t.store->RequestCut(1);
  EXPECT_FALSE(answer.passed);
  EXPECT_TRUE(answer.waits) << "slice 1 is at version 0";
  ASSERT_EQ(t.TakeEvents().cuts.size(), 1u);
  t.Push(1, 0, 0, 1);
  const SliceStoreEvents& rest = t.TakeEvents();
  ASSERT_EQ(rest.cuts.size(), 2u);
  EXPECT_FALSE(rest.cuts[0].completes_cut) << "the slice without versions";
  EXPECT_TRUE(rest.cuts[1].completes_cut);
  answer = t.store->RequestCut(1);  // The chief repeats it.
  EXPECT_FALSE(answer.passed);
  EXPECT_FALSE(answer.waits);
  EXPECT_THAT(t.TakeEvents().cuts, IsEmpty());
}

TEST(SliceStoreSyncTest, AScheduledCutIsNotMadeAgainOnRequest) {
  SliceStoreOptions options;
  options.cuts.every = 1;
  StoreUnderTest t({SpecOf("a", 1)}, options, {0, 0, 1000, 1, 1});
  t.Push(0, 0, 0, 1);
  ASSERT_EQ(t.TakeEvents().cuts.size(), 1u);
  EXPECT_FALSE(t.store->RequestCut(1).waits);
  EXPECT_THAT(t.TakeEvents().cuts, IsEmpty());
}

TEST(SliceStoreSyncTest, AStoreWithoutVersionsIsCutWhenAsked) {
  StoreUnderTest t({SpecOf("frozen", 20, v1::UPDATE_KIND_NONE)});
  EXPECT_FALSE(t.store->RequestCut(5).passed);
  EXPECT_FALSE(t.store->RequestCut(5).passed);
  const SliceStoreEvents& events = t.TakeEvents();
  ASSERT_EQ(events.cuts.size(), 2u);
  EXPECT_FALSE(events.cuts[0].completes_cut);
  EXPECT_TRUE(events.cuts[1].completes_cut);
}

TEST(SliceStoreSyncTest, ClippingByGlobalNormWaitsForTheScale) {
  SliceStoreOptions options;
  options.update.clip_by_global_norm = 1;
  StoreUnderTest t({SpecOf("v", 4), SpecOf("mean", 1, v1::UPDATE_KIND_ASSIGN)}, options);
  for (uint32_t slice : {0, 1}) {
    t.Push(slice, 0, 0, 1);
    t.Push(slice, 0, 1, 3);
  }
  EXPECT_EQ(t.store->newest_version(0), 0u);
  EXPECT_EQ(t.ValueAt(1, 1), 2) << "statistics are not clipped";
  const SliceStoreEvents& events = t.TakeEvents();
  ASSERT_EQ(events.norms.size(), 1u);
  EXPECT_EQ(events.norms[0].squared_norm, 4 * 2.0 * 2.0);
  t.store->ApplyScale(7, 0.25);
  EXPECT_EQ(t.store->newest_version(0), 0u);
  t.store->ApplyScale(0, 0.25);
  t.store->ApplyScale(0, 0.25);
  EXPECT_EQ(t.ValueAt(0, 1), -0.5f);
}

TEST(SliceStoreSyncTest, StatisticsAreAveragedOrAssigned) {
  v1::VariableSpec average = SpecOf("average", 1, v1::UPDATE_KIND_MOVING_AVERAGE);
  average.set_decay(0.75);
  StoreUnderTest t({average, SpecOf("assign", 1, v1::UPDATE_KIND_ASSIGN)});
  for (uint32_t slice : {0, 1}) {
    t.Push(slice, 0, 0, 1);
    t.Push(slice, 0, 1, 3);
  }
  EXPECT_EQ(t.ValueAt(0, 1), 0.5f);
  EXPECT_EQ(t.ValueAt(1, 1), 2);
}

TEST(SliceStoreSyncTest, ALoadThatDoesNotFitTheCutIsRefused) {
  class LateSource : public SliceSource {
    absl::Status Fill(uint32_t, Contents* contents) override {
      contents->version = 4;
      return absl::OkStatus();
    }
  } late;
  StoreUnderTest t({SpecOf("v", 1)});
  EXPECT_EQ(t.store->Load({2, 3, t.plan, {}}, late).code(), absl::StatusCode::kDataLoss);
  const StepPlan later = *StepPlan::Create({9, 1, 10, 1, 1});
  ConstantSource zeros(0);
  EXPECT_EQ(t.store->Load({3, 8, later, {}}, zeros).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace shoal

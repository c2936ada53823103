// The cuts and the ps of asynchronous training, without a session around them. async_mode_test.cc
// tests whole runs.
#include "chief/session/async_session.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr uint64_t kBatches = 4;

class AsyncSessionTest : public ::testing::Test {
 protected:
  AsyncSessionTest() : session_(OptionsOfTwoPs(), Plan()) {}

  static AsyncSession::Options OptionsOfTwoPs() {
    AsyncSession::Options options;
    options.ledger.num_workers = 1;
    options.ledger.num_epochs = 1;
    options.num_ps = 2;
    options.save_every = 2;
    return options;
  }

  static StepPlan Plan() {
    StepPlan::Options options;
    options.examples_per_epoch = 10 * kBatches;
    options.batch_examples = 10;
    return *StepPlan::Create(options);
  }

  // The ps loads, answers that it has no batches, and serves.
  void Serve(uint32_t ps) {
    session_.OnLoaded(ps, /*incarnation=*/1, v1::LoadSlicesResponse());
    for (const uint32_t epoch : session_.EpochsToAsk(ps)) {
      session_.AddApplied(ps, epoch, v1::GetAppliedResponse());
    }
    ASSERT_TRUE(session_.Serve(ps, /*view=*/1).ok());
  }

  void ServeAll() {
    for (const uint32_t ps : {0u, 1u}) Serve(ps);
  }

  // The worker works until so many batches have been applied.
  void WorkUntil(uint64_t updates) {
    for (int i = 0; i < 20 && session_.ledger().updates() < updates; ++i) Work(1);
    ASSERT_EQ(session_.ledger().updates(), updates);
  }

  // The worker finishes the batches that it has, and gets up to `want` others.
  void Work(uint32_t want) {
    v1::LeaseBatchesRequest request;
    request.mutable_identity()->mutable_member()->set_job(v1::JOB_WORKER);
    request.mutable_identity()->set_incarnation(1);
    request.mutable_identity()->set_view(1);
    request.set_number(++calls_);
    request.set_want(want);
    for (const auto& lease : last_.leases()) *request.add_finished() = lease.batch();
    last_ = session_.ledger().LeaseBatches(request, /*may_lease=*/true);
  }

  AsyncSession session_;
  uint64_t calls_ = 0;
  v1::LeaseBatchesResponse last_;
};

TEST_F(AsyncSessionTest, ALoadedPsServesWhenItHasAnsweredForEveryOpenEpoch) {
  EXPECT_THAT(session_.EpochsToAsk(0), IsEmpty()) << "it has not loaded";
  session_.OnLoaded(0, 1, v1::LoadSlicesResponse());
  EXPECT_THAT(session_.EpochsToAsk(0), ElementsAre(0));
  v1::GetAppliedResponse damaged;
  damaged.add_begin(3);
  damaged.add_end(1);
  EXPECT_FALSE(session_.AddApplied(0, 0, damaged));
  EXPECT_THAT(session_.EpochsToAsk(0), ElementsAre(0)) << "it is asked again";
  EXPECT_TRUE(session_.AddApplied(0, 0, v1::GetAppliedResponse()));
  ASSERT_TRUE(session_.Serve(0, 1).ok());
  EXPECT_FALSE(session_.all_serve());
  Serve(1);
  EXPECT_TRUE(session_.all_serve());
}

TEST_F(AsyncSessionTest, ACutIsDueAfterEnoughUpdatesAndOneIsMadeAtATime) {
  ServeAll();
  EXPECT_FALSE(session_.BeginCut(/*stopping=*/false).has_value());
  WorkUntil(2);
  EXPECT_EQ(session_.BeginCut(false), 2u);
  EXPECT_TRUE(session_.IsUnderWay(2));
  session_.WantCut();
  EXPECT_FALSE(session_.BeginCut(false).has_value());
  session_.OnManifestBegun(2);
  EXPECT_TRUE(session_.is_writing());
  session_.OnCutDurable(2);
  EXPECT_FALSE(session_.is_writing());
  EXPECT_EQ(session_.BeginCut(false), 3u) << "its name is above the last one";
}

TEST_F(AsyncSessionTest, ALostPsEndsTheCutThatIsNotBeingWritten) {
  ServeAll();
  WorkUntil(2);
  ASSERT_TRUE(session_.BeginCut(false).has_value());
  session_.OnPsLost(1);
  EXPECT_EQ(session_.cut(), nullptr);
  EXPECT_FALSE(session_.BeginCut(false).has_value()) << "not all ps serve";
  Serve(1);
  EXPECT_TRUE(session_.BeginCut(false).has_value()) << "the lost cut is made again";
}

TEST_F(AsyncSessionTest, TheLastCutOfAStopIsMadeOnce) {
  ServeAll();
  const std::optional<uint64_t> name = session_.BeginCut(/*stopping=*/true);
  ASSERT_TRUE(name.has_value());
  session_.OnManifestBegun(*name);
  session_.OnCutDurable(*name);
  EXPECT_TRUE(session_.last_cut_is_durable());
  EXPECT_FALSE(session_.final_cut_is_durable());
  EXPECT_FALSE(session_.BeginCut(true).has_value());
}

}  // namespace
}  // namespace shoal

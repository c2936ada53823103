#include "chief/session/async_reloads.h"

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "chief/session/admission.h"
#include "chief/session/bad_batches.h"
#include "chief/session/roster.h"
#include "chief/session/session_options_testing.h"
#include "chief/session/unplanned_mode.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class AsyncReloadsTest : public ::testing::Test {
 protected:
  AsyncReloadsTest()
      : context_(Options()),
        roster_(&context_),
        admission_(&context_, &roster_),
        bad_batches_(&context_, &admission_),
        async_(OptionsOfTwoPs(), Plan()),
        reloads_(&context_, &async_) {
    context_.SetMode(std::make_unique<UnplannedMode>(&context_, &bad_batches_));
  }

  static SessionOptions Options() {
    SessionOptions options = TestSessionOptions();
    options.num_ps_tasks = 2;
    return options;
  }

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
    options.examples_per_epoch = 100;
    options.batch_examples = 10;
    return *StepPlan::Create(options);
  }

  // The ps loads its variables and has no batch of epoch 0. Returns whether it serves.
  bool Load(uint32_t ps, uint64_t incarnation) {
    reloads_.OnLoaded(ps, incarnation, v1::LoadSlicesResponse());
    return reloads_.OnApplied(ps, /*epoch=*/0, v1::GetAppliedResponse());
  }

  // Returns the events for users since the last call.
  std::vector<std::string> TakeEvents() {
    std::vector<std::string> events;
    for (const SessionRecord& record : context_.log.Take()) {
      const auto* note = std::get_if<SessionNote>(&record);
      if (note != nullptr && note->text.find("serves again") != std::string::npos) {
        events.push_back(note->text);
      }
    }
    return events;
  }

  SessionContext context_;
  Roster roster_;
  Admission admission_;
  BadBatches bad_batches_;
  AsyncSession async_;
  AsyncReloads reloads_;
};

TEST_F(AsyncReloadsTest, ALoadedPsServesInANewViewOnceItHasAnsweredForEveryEpoch) {
  EXPECT_TRUE(reloads_.LoadsWhileTraining());
  EXPECT_THAT(reloads_.EpochsToAsk(0), IsEmpty()) << "it has not loaded";
  reloads_.OnLoaded(0, 1, v1::LoadSlicesResponse());
  EXPECT_THAT(reloads_.EpochsToAsk(0), ElementsAre(0));
  const uint64_t view = context_.phases.state().view();
  v1::GetAppliedResponse damaged;
  damaged.add_begin(3);
  damaged.add_end(1);
  EXPECT_FALSE(reloads_.OnApplied(0, 0, damaged));
  EXPECT_EQ(context_.phases.state().view(), view);
  EXPECT_TRUE(reloads_.OnApplied(0, 0, v1::GetAppliedResponse()));
  EXPECT_EQ(context_.phases.state().view(), view + 1);
  EXPECT_TRUE(context_.ps[0].has_served);
  EXPECT_FALSE(reloads_.AllServe());
  EXPECT_TRUE(Load(1, 1));
  EXPECT_TRUE(reloads_.AllServe());
}

TEST_F(AsyncReloadsTest, AnEventNamesTheCheckpointFromWhichALostPsServesAgain) {
  context_.phases.Set(v1::RunState::PHASE_PREPARING);
  EXPECT_TRUE(Load(0, 1));
  EXPECT_TRUE(Load(1, 1));
  EXPECT_THAT(TakeEvents(), IsEmpty()) << "the run only begins";

  context_.phases.Set(v1::RunState::PHASE_TRAINING);
  async_.OnPsLost(1);
  context_.ps[1] = PsState();  // another process
  EXPECT_FALSE(reloads_.AllServe());
  EXPECT_TRUE(Load(1, 2));
  EXPECT_THAT(
      TakeEvents(),
      ElementsAre("ps/1 serves again, from its first values, as there is no checkpoint yet; "
                  "missing updates are computed again"));

  context_.cuts.Restore(4, "step-4");
  async_.OnPsLost(1);
  context_.ps[1] = PsState();
  EXPECT_TRUE(Load(1, 3));
  EXPECT_THAT(TakeEvents(), ElementsAre("ps/1 serves again, from the checkpoint of step 4; missing "
                                        "updates are computed again"));
}

TEST_F(AsyncReloadsTest, APsThatOnlyLostItsLeaseServesAgainWithItsVariables) {
  context_.phases.Set(v1::RunState::PHASE_TRAINING);
  EXPECT_TRUE(Load(0, 1));
  EXPECT_TRUE(Load(1, 1));
  TakeEvents();
  async_.OnPsLost(1);
  EXPECT_TRUE(Load(1, 1));
  EXPECT_THAT(TakeEvents(), ElementsAre("ps/1 serves again, with all that it had"));
}

TEST_F(AsyncReloadsTest, APsMayNotLoadWhileAManifestIsBeingWritten) {
  EXPECT_TRUE(Load(0, 1));
  EXPECT_TRUE(Load(1, 1));
  EXPECT_TRUE(reloads_.MayLoad());
  async_.WantCut();
  const auto name = async_.BeginCut(/*stopping=*/false);
  ASSERT_TRUE(name.has_value());
  EXPECT_TRUE(reloads_.MayLoad());
  async_.OnManifestBegun(*name);
  EXPECT_FALSE(reloads_.MayLoad());
  async_.OnCutDurable(*name);
  EXPECT_TRUE(reloads_.MayLoad());
}

}  // namespace
}  // namespace shoal

#include "chief/session/run_phases.h"

#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "chief/session/bad_batches.h"
#include "chief/session/session_options_testing.h"
#include "chief/session/training_session_testing.h"
#include "chief/session/unplanned_mode.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// The phases of a run whose mode is UnplannedMode.
class RunPhasesTest : public ::testing::Test {
 protected:
  RunPhasesTest()
      : context_(TestSessionOptions()),
        roster_(&context_),
        admission_(&context_, &roster_),
        bad_batches_(&context_, &admission_) {
    context_.SetMode(std::make_unique<UnplannedMode>(&context_, &bad_batches_));
  }

  std::vector<std::string> TakeNotes() {
    std::vector<std::string> notes;
    for (const SessionRecord& record : context_.log.Take()) {
      notes.push_back(std::get<SessionNote>(record).text);
    }
    return notes;
  }

  SessionContext context_;
  Roster roster_;
  Admission admission_;
  BadBatches bad_batches_;
  RunPhases& phases_ = context_.phases;
};

TEST_F(RunPhasesTest, EveryNewPhaseIsNotedAndReachesTheTasks) {
  const uint64_t number = phases_.state().number();
  phases_.Set(v1::RunState::PHASE_PREPARING);
  phases_.Set(v1::RunState::PHASE_PREPARING);
  EXPECT_EQ(phases_.state().number(), number + 1);
  EXPECT_THAT(TakeNotes(), ElementsAre("PHASE_PREPARING, step 0, lineage 1"));
}

TEST_F(RunPhasesTest, ARunThatGoesBackPreparesUnderANewLineage) {
  phases_.Set(v1::RunState::PHASE_TRAINING);
  EXPECT_TRUE(phases_.is_running());
  phases_.GoBack();
  EXPECT_EQ(phases_.phase(), v1::RunState::PHASE_PREPARING);
  EXPECT_EQ(phases_.lineage(), 2u);
  EXPECT_FALSE(phases_.is_running());
}

TEST_F(RunPhasesTest, AStoppedRunEndsAsCancelledAndATrainedOneWithoutAnError) {
  phases_.Interrupt("a signal");
  EXPECT_TRUE(phases_.is_interrupted());
  phases_.Finish(/*at_end=*/false, "");
  EXPECT_EQ(phases_.failure(), absl::CancelledError("stopped on request"));

  SessionContext trained{TestSessionOptions()};
  trained.SetMode(std::make_unique<UnplannedMode>(&trained, &bad_batches_));
  trained.phases.Interrupt("a signal");
  trained.phases.Finish(/*at_end=*/true, "");
  EXPECT_TRUE(trained.phases.failure().ok());
  EXPECT_FALSE(trained.phases.is_interrupted());
}

TEST_F(RunPhasesTest, TheFirstFailureRemains) {
  phases_.Fail("the disk is full", absl::StatusCode::kInternal);
  EXPECT_EQ(phases_.failure(), absl::InternalError("the disk is full"));
  EXPECT_THAT(TakeNotes(), ElementsAre(HasSubstr("PHASE_FAILED"), "failed: the disk is full"));
  phases_.Fail("something else");
  EXPECT_EQ(phases_.failure(), absl::InternalError("the disk is full"));
  EXPECT_THAT(TakeNotes(), IsEmpty());
}

TEST_F(RunPhasesTest, AnErrorThatWaitsForTheLastCheckpointNamesIt) {
  phases_.EndWith("no worker is left", absl::StatusCode::kUnavailable);
  phases_.EndWith("something else", absl::StatusCode::kInternal);
  EXPECT_TRUE(phases_.is_interrupted());
  EXPECT_TRUE(phases_.failure().ok());
  phases_.Finish(/*at_end=*/true, "The last checkpoint is that of step 7, step-7");
  EXPECT_EQ(phases_.phase(), v1::RunState::PHASE_FAILED);
  EXPECT_EQ(
      phases_.failure(),
      absl::UnavailableError("no worker is left. The last checkpoint is that of step 7, step-7"));
}

TEST_F(RunPhasesTest, AnErrorThatWaitsForTheLastCheckpointIsNotReplacedByALaterOne) {
  phases_.EndWith("no worker is left", absl::StatusCode::kUnavailable);
  phases_.Fail("ps/0 is gone", absl::StatusCode::kInternal);
  EXPECT_EQ(phases_.failure(),
            absl::UnavailableError("no worker is left. The last checkpoint could not be made: "
                                   "ps/0 is gone"));
}

TEST_F(RunPhasesTest, AnErrorThatOnlyTheRestOfTheTrainingWouldMeetIsForgottenAtTheEnd) {
  phases_.EndWith("ps/0 is full", absl::StatusCode::kFailedPrecondition, /*unless_trained=*/true);
  EXPECT_TRUE(phases_.is_interrupted());
  phases_.OnTrained();
  EXPECT_FALSE(phases_.is_interrupted());
  phases_.Finish(/*at_end=*/true, "");
  EXPECT_EQ(phases_.phase(), v1::RunState::PHASE_DONE);
  EXPECT_TRUE(phases_.failure().ok());
}

TEST_F(RunPhasesTest, OtherErrorsRemainWhenTheRunIsTrained) {
  phases_.EndWith("no worker is left", absl::StatusCode::kUnavailable);
  phases_.OnTrained();
  EXPECT_TRUE(phases_.is_interrupted());
}

using FencedRunTest = TrainingSessionTest;

TEST_F(FencedRunTest, TheTasksOfAChiefThatIsFencedStartAgainAndTheChiefDoesNot) {
  StartTraining();
  session_->Fence("a newer chief has taken this run over");
  EXPECT_EQ(session_->state().failure_code(), static_cast<uint32_t>(absl::StatusCode::kAborted));
  EXPECT_TRUE(absl::IsFailedPrecondition(session_->failure()));
  EXPECT_TRUE(
      absl::IsAborted(session_->Register(now_, RequestOf(v1::JOB_WORKER, 1, "again")).status()));
}

}  // namespace
}  // namespace shoal

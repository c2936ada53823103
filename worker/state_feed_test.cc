#include "worker/state_feed.h"

#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/fake_clock.h"
#include "base/notification.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;

// Records the phases of the states that it receives.
class RecordingTrainer : public Trainer {
 public:
  absl::Status Run() override { return absl::OkStatus(); }
  void OnState(const v1::RunState& state) override {
    phases.push_back(state.phase());
    message = state.message();
  }
  Progress progress() const override { return Progress(); }

  std::vector<v1::RunState::Phase> phases;
  std::string message;
};

v1::RunState State(v1::RunState::Phase phase, bool has_plan = false) {
  v1::RunState state;
  state.set_phase(phase);
  if (has_plan) state.mutable_plan();
  return state;
}

class StateFeedTest : public ::testing::Test {
 protected:
  FakeClock clock_;
  RecordingTrainer trainer_;
};

TEST_F(StateFeedTest, WaitForPlanSkipsStatesWithoutAPlan) {
  StateFeed feed(&clock_, nullptr);
  std::thread chief([&feed] {
    feed.OnRunState(State(v1::RunState::PHASE_WAITING));
    feed.OnRunState(State(v1::RunState::PHASE_TRAINING, /*has_plan=*/true));
  });
  const absl::StatusOr<v1::RunState> state = feed.WaitForPlan();
  chief.join();
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(state->phase(), v1::RunState::PHASE_TRAINING);
}

TEST_F(StateFeedTest, WaitForPlanReturnsTheErrorOfARunThatFailed) {
  StateFeed feed(&clock_, nullptr);
  v1::RunState failed = State(v1::RunState::PHASE_FAILED);
  failed.set_failure_code(static_cast<uint32_t>(absl::StatusCode::kDataLoss));
  feed.OnRunState(failed);
  EXPECT_TRUE(absl::IsDataLoss(feed.WaitForPlan().status()));
}

TEST_F(StateFeedTest, ATrainerReceivesTheNewestStateAndLaterOnes) {
  StateFeed feed(&clock_, nullptr);
  feed.OnRunState(State(v1::RunState::PHASE_WAITING));
  feed.OnRunState(State(v1::RunState::PHASE_TRAINING));
  feed.Attach(&trainer_);
  feed.OnRunState(State(v1::RunState::PHASE_DONE));
  feed.Attach(nullptr);
  feed.OnRunState(State(v1::RunState::PHASE_FAILED));
  EXPECT_THAT(trainer_.phases, ElementsAre(v1::RunState::PHASE_TRAINING, v1::RunState::PHASE_DONE));
}

TEST_F(StateFeedTest, TheFirstEndReachesTheTrainerAndLaterStatesDoNot) {
  StateFeed feed(&clock_, nullptr);
  feed.Attach(&trainer_);
  feed.End(absl::CancelledError("asked to stop"));
  feed.End(absl::AbortedError("replaced"));
  feed.OnRunState(State(v1::RunState::PHASE_TRAINING));
  EXPECT_THAT(trainer_.phases, ElementsAre(v1::RunState::PHASE_FAILED));
  EXPECT_EQ(trainer_.message, "asked to stop");
  EXPECT_TRUE(absl::IsCancelled(feed.ended()));
  EXPECT_TRUE(absl::IsCancelled(feed.WaitForPlan().status()));
}

TEST_F(StateFeedTest, AWorkerIsAbandonedIfItsTrainerDoesNotEndInTime) {
  Notification abandoned;
  StateFeed feed(&clock_, [&](const absl::Status&) { abandoned.Notify(); });
  feed.Attach(&trainer_);
  std::thread session([&feed] { feed.OnChiefLost(absl::UnavailableError("no answer")); });
  while (feed.ended().ok()) std::this_thread::yield();
  clock_.Advance(absl::Seconds(9));
  EXPECT_FALSE(abandoned.HasBeenNotified());
  // The thread may have read the clock only now: 10 more seconds are enough in both cases.
  while (!abandoned.HasBeenNotified()) clock_.Advance(absl::Seconds(10));
  session.join();
}

TEST_F(StateFeedTest, AWorkerIsNotAbandonedIfItsTrainerHasEnded) {
  bool abandoned = false;
  StateFeed feed(&clock_, [&](const absl::Status&) { abandoned = true; });
  feed.Attach(&trainer_);
  feed.Attach(nullptr);
  feed.OnFenced(absl::AbortedError("replaced"));
  EXPECT_FALSE(abandoned);
}

}  // namespace
}  // namespace shoal

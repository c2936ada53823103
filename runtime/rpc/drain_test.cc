#include "runtime/rpc/drain.h"

#include <atomic>

#include "gtest/gtest.h"

#include "base/clock.h"
#include "base/notification.h"
#include "runtime/process/shutdown.h"
#include "runtime/rpc/fake_chief.h"

namespace shoal {
namespace {

// A chief that trains; the requested checkpoint is durable at the third request.
class TrainingChief : public FakeChief {
 public:
  absl::Status RequestStop(const v1::RequestStopRequest& request,
                           v1::RequestStopResponse* response) override {
    EXPECT_FALSE(request.stop());
    response->set_version(12);
    ++asked;
    return refusal;
  }
  absl::Status GetRunStatus(const v1::GetRunStatusRequest& /*request*/,
                            v1::GetRunStatusResponse* response) override {
    if (unanswered > 0) {
      --unanswered;
      return absl::UnavailableError("connection reset");
    }
    response->mutable_state()->set_phase(phase);
    response->set_step(10);
    if (++questions >= 3) response->set_last_checkpoint_step(12);
    return absl::OkStatus();
  }

  v1::RunState::Phase phase = v1::RunState::PHASE_TRAINING;
  absl::Status refusal;
  int unanswered = 0;  // Questions that fail before the first answer.
  std::atomic<int> asked{0}, questions{0};
};

class DrainTest : public ::testing::Test {
 protected:
  // Runs a drain until it leaves.
  void LeaveWith(absl::Duration limit) {
    Notification left;
    Drain drain(&shutdown_, chief_.client(), &clock_, limit, [&left] { left.Notify(); });
    shutdown_.Request();
    EXPECT_TRUE(left.WaitFor(absl::Seconds(30)));
  }

  RealClock clock_;
  TrainingChief chief_;
  ShutdownNotification shutdown_;
};

TEST_F(DrainTest, LeavesWhenTheCheckpointIsDurable) {
  LeaveWith(absl::Seconds(60));
  EXPECT_EQ(chief_.asked, 1);
  EXPECT_EQ(chief_.questions, 3);
}

TEST_F(DrainTest, LeavesAtOnceWhenNothingIsTrained) {
  chief_.phase = v1::RunState::PHASE_WAITING;
  LeaveWith(absl::Seconds(60));
  EXPECT_EQ(chief_.asked, 0);
}

TEST_F(DrainTest, LeavesAtOnceWhenTheChiefRefuses) {
  chief_.refusal = absl::FailedPreconditionError("another run");
  LeaveWith(absl::Seconds(60));
  EXPECT_EQ(chief_.asked, 1);
  EXPECT_EQ(chief_.questions, 1);
}

TEST_F(DrainTest, LeavesSoonWhenTheChiefDoesNotAnswer) {
  chief_.refusal = absl::UnavailableError("gone");
  LeaveWith(absl::Seconds(60));
  EXPECT_GT(chief_.asked, 1);
}

TEST_F(DrainTest, AConnectionThatBrokeDuringAPauseCostsNoCheckpoint) {
  chief_.unanswered = 2;
  LeaveWith(absl::Seconds(60));
  EXPECT_EQ(chief_.asked, 1);
  EXPECT_EQ(chief_.questions, 3);
}

TEST_F(DrainTest, LeavesWhenItTakesTooLong) {
  LeaveWith(absl::ZeroDuration());
  EXPECT_EQ(chief_.questions, 1);
}

TEST_F(DrainTest, OneThatWasNotAskedNeverLeaves) {
  bool left = false;
  {
    Drain drain(&shutdown_, chief_.client(), &clock_, absl::Seconds(60), [&left] { left = true; });
  }
  shutdown_.Request();
  EXPECT_FALSE(left);
  EXPECT_EQ(chief_.questions, 0);
}

}  // namespace
}  // namespace shoal

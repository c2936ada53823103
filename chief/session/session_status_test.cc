
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "chief/session/training_session_testing.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

using SessionStatusTest = TrainingSessionTest;

TEST_F(SessionStatusTest, TasksThatHaveNotComeYetAreNotLost) {
  Register(v1::JOB_PS, 0);
  PassTime(120, {{v1::JOB_PS, 0}});
  EXPECT_THAT(Lost(), ElementsAre());
}

TEST_F(SessionStatusTest, SilentTasksAreLostUntilTheyComeBack) {
  StartTraining();
  PassTime(12, {{v1::JOB_PS, 0}, {v1::JOB_WORKER, 0}});
  EXPECT_THAT(Lost(), UnorderedElementsAre("ps/1", "worker/1"));
  Register(v1::JOB_PS, 1, "again");
  Register(v1::JOB_WORKER, 1, "again");
  EXPECT_THAT(Lost(), ElementsAre());
}

TEST_F(SessionStatusTest, AWorkerThatWasAskedToLeaveIsNotLostButAPsAndAFailedWorkerAre) {
  StartTraining();
  Leave(v1::JOB_WORKER, 1, /*asked_to_leave=*/true);
  EXPECT_THAT(Lost(), ElementsAre());
  Leave(v1::JOB_WORKER, 0, /*asked_to_leave=*/false);
  Leave(v1::JOB_PS, 0, /*asked_to_leave=*/true);
  EXPECT_THAT(Lost(), UnorderedElementsAre("ps/0", "worker/0"));
}

TEST_F(SessionStatusTest, TasksThatLeaveAStoppingRunAreNotLost) {
  StartTraining();
  v1::RequestStopRequest stop;
  stop.set_stop(true);
  ASSERT_TRUE(session_->RequestStop(now_, stop).ok());
  Leave(v1::JOB_PS, 0);
  Leave(v1::JOB_WORKER, 0);
  EXPECT_THAT(Lost(), ElementsAre());
}

}  // namespace
}  // namespace shoal

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "chief/session/training_session_testing.h"
#include "runtime/rpc/run_state.h"

namespace shoal {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

constexpr std::pair<v1::Job, uint32_t> kPs1 = {v1::JOB_PS, 1};
constexpr std::pair<v1::Job, uint32_t> kWorker0 = {v1::JOB_WORKER, 0};
constexpr std::pair<v1::Job, uint32_t> kWorker1 = {v1::JOB_WORKER, 1};

class RosterTest : public TrainingSessionTest {
 protected:
  using TrainingSessionTest::TrainingSessionTest;

  // Sets the content of the worker's heartbeats from now on.
  void CannotReach(uint32_t worker, const std::vector<uint32_t>& silent) {
    v1::HeartbeatRequest& request = activities_[worker];
    request.clear_silent_ps();
    for (const uint32_t ps : silent) request.add_silent_ps(ps);
    request.set_reaches_all_ps(silent.empty());
  }

  std::vector<uint32_t> Workers() const {
    return {session_->state().workers().begin(), session_->state().workers().end()};
  }
};

TEST_F(RosterTest, AWorkerThatHangsInComputingLosesItsPlace) {
  StartTraining();
  activities_[0].set_computing(true);
  activities_[0].mutable_batch()->set_index(3);
  PassTime(118, all_);
  EXPECT_THAT(session_->state().workers(), ElementsAre(0, 1));
  PassTime(5, all_);
  EXPECT_THAT(session_->state().workers(), ElementsAre(1));
  EXPECT_THAT(notes_, Contains(HasSubstr("worker/0 hangs")));
  EXPECT_THAT(notes_, Contains(HasSubstr("batch 3 of epoch 1 for 2m")));
  EXPECT_TRUE(absl::IsAborted(Beat(v1::JOB_WORKER, 0)));
  Register(v1::JOB_WORKER, 0, "again");
  EXPECT_THAT(session_->state().workers(), ElementsAre(0, 1));
}

TEST_F(RosterTest, AWorkerThatMakesProgressKeepsItsPlaceHoweverLongItComputes) {
  StartTraining();
  activities_[0].set_computing(true);
  for (int batch = 1; batch <= 5; ++batch) {
    PassTime(100, all_);
    activities_[0].set_computed(batch);
    activities_[0].mutable_batch()->set_index(batch);
  }
  EXPECT_THAT(session_->state().workers(), ElementsAre(0, 1));
  EXPECT_TRUE(session_->failure().ok());
}

// The program reports progress from within one block of test data.
TEST_F(RosterTest, SignsOfALongEvaluationKeepTheWorkerAndTheRun) {
  StartTraining();
  for (const uint32_t worker : {0u, 1u}) activities_[worker].set_computing(true);
  for (int sign = 1; sign <= 6; ++sign) {
    PassTime(100, all_);
    for (const uint32_t worker : {0u, 1u}) activities_[worker].set_computed(sign);
  }
  EXPECT_THAT(session_->state().workers(), ElementsAre(0, 1));
  EXPECT_TRUE(session_->failure().ok()) << session_->failure();
  EXPECT_EQ(session_->state().phase(), v1::RunState::PHASE_TRAINING);
  PassTime(125, all_);
  EXPECT_THAT(Workers(), IsEmpty());
}

TEST_F(RosterTest, AStalledWorkerIsNamedWithTheRemedyForAProgram) {
  for (const bool is_program : {false, true}) {
    TrainingSession::Options options = DefaultOptions();
    if (is_program) options.run.mutable_program()->set_file("/a/train.py");
    session_ = std::make_unique<TrainingSession>(options);
    tasks_.clear();
    notes_.clear();
    StartTraining();
    activities_[0].set_computing(true);
    PassTime(125, all_);
    EXPECT_THAT(
        notes_,
        Contains(HasSubstr(is_program ? "raise cluster.stall_seconds, or let the program call "
                                        "work.progress() between the parts of its computation"
                                      : "If it is only slow, raise cluster.stall_seconds")));
  }
}

TEST_F(RosterTest, AWorkerThatWaitsDoesNotHang) {
  StartTraining();
  PassTime(250, all_);
  EXPECT_THAT(session_->state().workers(), ElementsAre(0, 1));
}

TEST_F(RosterTest, ATaskWhoseLeaseEndedContinuesIfItsPlaceIsFree) {
  StartTraining();
  PassTime(11, {kWorker0});
  EXPECT_THAT(Workers(), ElementsAre(0));
  EXPECT_THAT(Lost(), ElementsAre("ps/0", "ps/1", "worker/1"));
  for (const auto& [job, index] : all_) EXPECT_TRUE(Beat(job, index).ok());
  PassTime(40, all_);
  EXPECT_THAT(Workers(), ElementsAre(0, 1));
  EXPECT_THAT(Lost(), IsEmpty());
  EXPECT_EQ(session_->state().phase(), v1::RunState::PHASE_TRAINING);
  EXPECT_EQ(session_->state().lineage(), 1u);
  EXPECT_THAT(notes_, Contains(HasSubstr("ps/1 is back; no other process had taken its place")));
}

// No task registers any more when the last missing one comes back, so its return starts the run.
TEST_F(RosterTest, ARunStartsWhenTheLastMissingTaskComesBack) {
  Register(v1::JOB_PS, 0);
  Register(v1::JOB_PS, 1);
  PassTime(11, {{v1::JOB_PS, 0}});
  Register(v1::JOB_WORKER, 0);
  PassTime(1, {{v1::JOB_PS, 0}, kWorker0});
  ASSERT_THAT(Lost(), ElementsAre("ps/1"));
  ASSERT_EQ(session_->state().phase(), v1::RunState::PHASE_WAITING);
  EXPECT_TRUE(Beat(v1::JOB_PS, 1).ok());
  Act();
  EXPECT_EQ(session_->state().phase(), v1::RunState::PHASE_TRAINING);
}

// The same with a worker.
TEST_F(RosterTest, ARunStartsWhenItsOnlyWorkerComesBack) {
  Register(v1::JOB_PS, 0);
  Register(v1::JOB_WORKER, 0);
  PassTime(11, {{v1::JOB_PS, 0}});
  Register(v1::JOB_PS, 1);
  ASSERT_EQ(session_->state().phase(), v1::RunState::PHASE_WAITING);
  EXPECT_TRUE(Beat(v1::JOB_WORKER, 0).ok());
  Act();
  EXPECT_EQ(session_->state().phase(), v1::RunState::PHASE_TRAINING);
}

TEST_F(RosterTest, ATaskWhosePlaceWasTakenDoesNotComeBack) {
  StartTraining();
  PassTime(11, {kWorker0, kWorker1, {v1::JOB_PS, 0}});
  const v1::Identity old = tasks_[kPs1];
  Register(v1::JOB_PS, 1, "second");
  const v1::Identity fresh = std::exchange(tasks_[kPs1], old);
  const absl::Status refused = Beat(v1::JOB_PS, 1);
  EXPECT_TRUE(absl::IsAborted(refused)) << refused;
  tasks_[kPs1] = fresh;
  EXPECT_TRUE(Beat(v1::JOB_PS, 1).ok());
  EXPECT_EQ(session_->state().lineage(), 2u);
}

// The others went back meanwhile; it loads as they do.
TEST_F(RosterTest, APsThatComesBackAfterARollbackLoads) {
  StartTraining();
  PassTime(11, {kWorker0, kWorker1, {v1::JOB_PS, 0}});
  Leave(v1::JOB_PS, 0);
  Register(v1::JOB_PS, 0, "second");
  ASSERT_EQ(session_->state().lineage(), 2u);
  Act();
  EXPECT_EQ(session_->state().phase(), v1::RunState::PHASE_PREPARING);
  EXPECT_TRUE(Beat(v1::JOB_PS, 1).ok());
  Act();
  EXPECT_EQ(session_->state().phase(), v1::RunState::PHASE_TRAINING);
}

TEST_F(RosterTest, AWorkerThatAloneCannotReachAPsLosesItsPlaceAndTheLinkIsNamed) {
  StartTraining();
  CannotReach(0, {});
  CannotReach(1, {0});
  PassTime(9, all_);
  EXPECT_THAT(Workers(), ElementsAre(0, 1));
  const v1::GetRunStatusResponse status = session_->Status(now_);
  for (const auto& task : status.tasks()) {
    const bool is_it = task.member().job() == v1::JOB_WORKER && task.member().index() == 1;
    EXPECT_EQ(task.slow(), is_it ? "cannot reach ps/0 at address" : "");
  }
  PassTime(2, all_);
  EXPECT_THAT(Workers(), ElementsAre(0));
  EXPECT_THAT(notes_, Contains(HasSubstr("worker/1 cannot reach ps/0 at address for 10s")));
  const absl::Status lost = Beat(v1::JOB_WORKER, 1);
  EXPECT_TRUE(absl::IsAborted(lost));
  EXPECT_THAT(std::string(lost.message()),
              HasSubstr("has lost its place: worker/1 cannot reach ps/0 at address"));
  EXPECT_EQ(session_->state().lineage(), 1u);

  // Its next process cannot either: the run does not wait for it.
  Register(v1::JOB_WORKER, 1, "second");
  // The ps know it all the same, since it has to reach them first.
  EXPECT_THAT(WorkerIncarnations(session_->state()),
              Contains(Pair(1u, tasks_[kWorker1].incarnation())));
  PassTime(60, all_);
  EXPECT_THAT(Workers(), ElementsAre(0));
  EXPECT_TRUE(Beat(v1::JOB_WORKER, 1).ok());
  CannotReach(1, {});
  PassTime(1, all_);
  EXPECT_THAT(Workers(), ElementsAre(0, 1));
}

TEST_F(RosterTest, APsThatNoWorkerReachesIsStartedAgain) {
  StartTraining();
  CannotReach(0, {1});
  CannotReach(1, {1});
  PassTime(12, all_);
  EXPECT_THAT(Workers(), ElementsAre(0, 1));
  EXPECT_THAT(Lost(), ElementsAre("ps/1"));
  EXPECT_TRUE(absl::IsAborted(Beat(v1::JOB_PS, 1)));
  EXPECT_THAT(notes_, Contains(HasSubstr("cannot reach ps/1 at address for 10s, nor can 1 more of "
                                         "2 workers; the ps loses its place")));
  // The same with the next process: starting it again does not help.
  Register(v1::JOB_PS, 1, "second");
  Act();
  ASSERT_EQ(session_->state().phase(), v1::RunState::PHASE_TRAINING);
  PassTime(60, all_);
  EXPECT_THAT(Lost(), IsEmpty());
  EXPECT_THAT(Workers(), ElementsAre(0, 1));
  // When the run ends for that, it says so.
  PassTime(300, all_);
  EXPECT_EQ(session_->state().phase(), v1::RunState::PHASE_FAILED);
  EXPECT_THAT(std::string(session_->failure().message()),
              HasSubstr("worker/0 cannot reach ps/1 at address, worker/1 cannot"));
}

}  // namespace
}  // namespace shoal

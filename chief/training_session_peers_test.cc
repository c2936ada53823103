// Tasks that were not heard or not reached for a while, and checkpoints by time.
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "chief/training_session_testing.h"
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

class PeersTest : public TrainingSessionTest {
 protected:
  using TrainingSessionTest::TrainingSessionTest;

  // What the worker's heartbeats say from now on.
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

TEST_F(PeersTest, WhoseLeaseEndedWhileNobodyTookItsPlaceGoesOn) {
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
  EXPECT_THAT(notes_, Contains(HasSubstr("ps/1 is back; nobody had taken its place")));
}

// Nobody registers any more when the last missing task comes back, so its return starts the run.
TEST_F(PeersTest, ARunStartsWhenTheLastMissingTaskComesBack) {
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
TEST_F(PeersTest, ARunStartsWhenItsOnlyWorkerComesBack) {
  Register(v1::JOB_PS, 0);
  Register(v1::JOB_WORKER, 0);
  PassTime(11, {{v1::JOB_PS, 0}});
  Register(v1::JOB_PS, 1);
  ASSERT_EQ(session_->state().phase(), v1::RunState::PHASE_WAITING);
  EXPECT_TRUE(Beat(v1::JOB_WORKER, 0).ok());
  Act();
  EXPECT_EQ(session_->state().phase(), v1::RunState::PHASE_TRAINING);
}

TEST_F(PeersTest, WhosePlaceWasTakenDoesNotComeBack) {
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

// The others went back meanwhile; it is told to load as they are.
TEST_F(PeersTest, APsThatComesBackAfterARollbackLoads) {
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

TEST_F(PeersTest, AWorkerThatAloneCannotReachAPsLosesItsPlaceAndTheLinkIsNamed) {
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

  // Its next process cannot either: nobody waits for it.
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

TEST_F(PeersTest, APsThatNoWorkerReachesIsStartedAgain) {
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

class SavingTest : public PeersTest {
 protected:
  static TrainingSession::Options SavingOptions() {
    TrainingSession::Options options = DefaultOptions();
    options.save_period = absl::Seconds(60);
    options.run.set_num_epochs(10);
    return options;
  }
  SavingTest() : PeersTest(SavingOptions()) {}

  // Seconds until all ps are asked for a cut, in which steps go on; its version.
  std::pair<int, uint64_t> WaitForRequest() {
    for (int seconds = 1; seconds <= 200; ++seconds) {
      now_ += absl::Seconds(1);
      for (const auto& [job, index] : all_) EXPECT_TRUE(Beat(job, index).ok());
      session_->Tick(now_);
      for (const PsCommand& command : session_->TakeCommands(now_)) {
        const auto* cut = std::get_if<v1::RequestCutRequest>(&command.request);
        if (cut != nullptr && command.ps == 1) return {seconds, cut->version()};
      }
    }
    return {0, 0};
  }
};

TEST_F(SavingTest, ACheckpointIsMadeAfterAWhileAndAgainAfterIt) {
  StartTraining();
  Cut(1);  // By save_every, say.
  ASSERT_EQ(manifests_.size(), 1u);
  ManifestIsWritten(manifests_[0]);
  EXPECT_EQ(WaitForRequest(), std::make_pair(0, uint64_t{0})) << "nothing would be lost";
  Cut(2);
  ManifestIsWritten(manifests_.back());
  v1::ReportStepsRequest steps;
  *steps.mutable_identity() = IdentityOf(v1::JOB_PS, 0);
  steps.add_steps()->set_step(3);
  ASSERT_TRUE(session_->ReportSteps(now_, steps).ok());
  const auto [seconds, version] = WaitForRequest();
  EXPECT_THAT(seconds, ::testing::AllOf(::testing::Ge(1), ::testing::Le(61)));
  EXPECT_EQ(version, 5u);
  Cut(version);
  ManifestIsWritten(manifests_.back());
  EXPECT_EQ(session_->durable_version(), 5u);
  steps.mutable_steps(0)->set_step(6);
  ASSERT_TRUE(session_->ReportSteps(now_, steps).ok());
  EXPECT_EQ(WaitForRequest(), std::make_pair(60, uint64_t{8}));
}

TEST_F(SavingTest, WhoseCheckpointsDoNotSucceedForTwiceTheTimeIsSaid) {
  StartTraining();
  PassTime(1, all_);
  v1::ReportStepsRequest steps;
  *steps.mutable_identity() = IdentityOf(v1::JOB_PS, 0);
  for (uint64_t step = 1; step <= 5; ++step) steps.add_steps()->set_step(step);
  ASSERT_TRUE(session_->ReportSteps(now_, steps).ok());
  const auto contains = Contains(HasSubstr("no checkpoint at step 5: none has succeeded for"));
  PassTime(118, all_);
  EXPECT_THAT(notes_, ::testing::Not(contains));
  PassTime(3, all_);
  EXPECT_THAT(notes_, contains);
}

TEST_F(PeersTest, WithoutATimeNoCheckpointIsMadeForIt) {
  StartTraining();
  PassTime(1, all_);
  for (int minute = 0; minute < 4; ++minute) {
    PassTime(60, all_);
    for (const PsCommand& command : session_->TakeCommands(now_)) {
      EXPECT_FALSE(std::holds_alternative<v1::RequestCutRequest>(command.request));
    }
  }
}

}  // namespace
}  // namespace shoal

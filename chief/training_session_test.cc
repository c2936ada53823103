// Waits and their ends, leases, workers that hang, resumes. Who may register and report is in
// training_session_reports_test.cc, checkpoints and stops are in
// training_session_checkpoints_test.cc. What SYNC computes is tested by tests/simulation, ASYNC by
// async_session_test.cc.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "chief/training_session_testing.h"

namespace shoal {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

TEST_F(TrainingSessionTest, AWaitForTasksToRegisterNamesThemAndEnds) {
  Register(v1::JOB_PS, 0);
  PassTime(12, {{v1::JOB_PS, 0}});
  EXPECT_THAT(notes_, Contains(AllOf(HasSubstr("waiting 10s for ps/1, any of worker/0 to worker/1 "
                                               "to register"),
                                     HasSubstr("5m"))));
  PassTime(300, {{v1::JOB_PS, 0}});
  EXPECT_TRUE(absl::IsUnavailable(session_->failure()));
  EXPECT_EQ(session_->failure().message(),
            "waited 5m1s for ps/1, any of worker/0 to worker/1 to register; start them with this "
            "chief's address, or raise cluster.wait_seconds");
}

TEST_F(TrainingSessionTest, OnePresentWorkerIsEnoughToWaitOnlyForPs) {
  Register(v1::JOB_PS, 0);
  Register(v1::JOB_WORKER, 1);
  PassTime(12, {{v1::JOB_PS, 0}, {v1::JOB_WORKER, 1}});
  EXPECT_THAT(notes_, Contains(HasSubstr("waiting 10s for ps/1 to register")));
}

TEST_F(TrainingSessionTest, APsThatDoesNotLoadEndsTheRun) {
  hanging_ps_ = 1;
  for (const uint32_t i : {0u, 1u}) Register(v1::JOB_PS, i);
  for (const uint32_t i : {0u, 1u}) Register(v1::JOB_WORKER, i);
  Act();
  ASSERT_EQ(session_->state().phase(), v1::RunState::PHASE_PREPARING);
  PassTime(290, all_);
  EXPECT_TRUE(session_->failure().ok());
  EXPECT_THAT(notes_, Contains(HasSubstr("waiting 20s for ps/1 to make the initial values")));
  PassTime(20, all_);
  EXPECT_TRUE(absl::IsUnavailable(session_->failure()));
  EXPECT_THAT(session_->failure().message(), HasSubstr("for ps/1 to make the initial values; see"));
}

TEST_F(TrainingSessionTest, ALoadThatMaySucceedLaterIsTriedAgainAndItsWaitNamesTheReason) {
  for (const absl::Status& why :
       {absl::ResourceExhaustedError("the machine has 7 MiB"), absl::UnknownError("stale file")}) {
    session_ = std::make_unique<TrainingSession>(DefaultOptions());
    notes_.clear();
    load_errors_ = {{1, why}};
    for (const uint32_t i : {0u, 1u}) Register(v1::JOB_PS, i);
    for (const uint32_t i : {0u, 1u}) Register(v1::JOB_WORKER, i);
    PassTime(30, all_);
    EXPECT_TRUE(session_->failure().ok()) << session_->failure();
    EXPECT_THAT(notes_, Contains(HasSubstr("ps/1 cannot load yet: ")).Times(1));
    EXPECT_THAT(notes_, Contains(HasSubstr(absl::StrCat("for ps/1 (ps/1: ", why.message(),
                                                        ") to make the initial values"))));
    load_errors_.clear();
    PassTime(4, all_);
    EXPECT_EQ(session_->state().phase(), v1::RunState::PHASE_TRAINING) << why;
  }
}

TEST_F(TrainingSessionTest, ALoadThatNeverSucceedsEndsTheRunForAnotherTryWhenItsTimeIsUp) {
  load_errors_ = {{1, absl::ResourceExhaustedError("the machine has 7 MiB")}};
  for (const uint32_t i : {0u, 1u}) Register(v1::JOB_PS, i);
  for (const uint32_t i : {0u, 1u}) Register(v1::JOB_WORKER, i);
  PassTime(305, all_);
  EXPECT_TRUE(absl::IsUnavailable(session_->failure())) << session_->failure();
  EXPECT_THAT(std::string(session_->failure().message()), HasSubstr("the machine has 7 MiB"));
}

TEST_F(TrainingSessionTest, ALoadThatCannotSucceedEndsTheRunAtOnce) {
  load_errors_ = {{1, absl::DataLossError("ps-1.shard: damaged")}};
  for (const uint32_t i : {0u, 1u}) Register(v1::JOB_PS, i);
  for (const uint32_t i : {0u, 1u}) Register(v1::JOB_WORKER, i);
  Act();
  EXPECT_TRUE(absl::IsDataLoss(session_->failure())) << session_->failure();
}

TEST_F(TrainingSessionTest, WhoRegistersInARunThatHasFailedGetsTheFailuresOwnCode) {
  // A damaged checkpoint: no other try helps.
  load_errors_ = {{1, absl::DataLossError("ps-1.shard: damaged")}};
  for (const uint32_t i : {0u, 1u}) Register(v1::JOB_PS, i);
  for (const uint32_t i : {0u, 1u}) Register(v1::JOB_WORKER, i);
  Act();
  const auto register_again = [this] {
    return session_->Register(now_, RequestOf(v1::JOB_WORKER, 1, "again")).status();
  };
  EXPECT_EQ(register_again(), session_->failure());
  // A wait that was in vain: another try helps, and the answer says so without being an unknown
  // outcome, which the task would ask for again.
  session_ = std::make_unique<TrainingSession>(DefaultOptions());
  Register(v1::JOB_PS, 0);
  PassTime(305, {{v1::JOB_PS, 0}});
  ASSERT_TRUE(absl::IsUnavailable(session_->failure()));
  EXPECT_EQ(register_again(), absl::AbortedError(session_->failure().message()));
}

TEST_F(TrainingSessionTest, TheTasksOfAChiefThatIsFencedStartAgainAndTheChiefDoesNot) {
  StartTraining();
  session_->Fence("a newer chief has taken this run over");
  EXPECT_EQ(session_->state().failure_code(), static_cast<uint32_t>(absl::StatusCode::kAborted));
  EXPECT_TRUE(absl::IsFailedPrecondition(session_->failure()));
  EXPECT_TRUE(
      absl::IsAborted(session_->Register(now_, RequestOf(v1::JOB_WORKER, 1, "again")).status()));
}

TEST_F(TrainingSessionTest, APsThatServedBeforeItsAnswerWasLostTakesAllBackWhenItDies) {
  for (const uint32_t i : {0u, 1u}) Register(v1::JOB_PS, i);
  for (const uint32_t i : {0u, 1u}) Register(v1::JOB_WORKER, i);
  hanging_ps_ = 1;  // has loaded, only the chief does not know
  Act();
  v1::ReportStepsRequest steps;
  *steps.mutable_identity() = IdentityOf(v1::JOB_PS, 0);
  steps.add_steps()->set_step(1);
  ASSERT_TRUE(session_->ReportSteps(now_, steps).ok());
  Leave(v1::JOB_PS, 1);
  Register(v1::JOB_PS, 1, "again");
  EXPECT_EQ(session_->state().lineage(), 2u);
  EXPECT_EQ(session_->newest_step(), 0u);
}

TEST_F(TrainingSessionTest, APsThatHadNothingToLoadYetTakesNobodyBackWhenItDies) {
  for (const uint32_t i : {0u, 1u}) Register(v1::JOB_PS, i);
  Leave(v1::JOB_PS, 1);
  Register(v1::JOB_PS, 1, "again");
  for (const uint32_t i : {0u, 1u}) Register(v1::JOB_WORKER, i);
  Act();
  EXPECT_EQ(session_->state().phase(), v1::RunState::PHASE_TRAINING);
  EXPECT_EQ(session_->state().lineage(), 1u);
}

TEST_F(TrainingSessionTest, TrainingWithoutWorkersEnds) {
  StartTraining();
  PassTime(30, ps_);  // their leases end
  EXPECT_THAT(session_->state().workers(), ElementsAre());
  EXPECT_THAT(notes_, Contains(HasSubstr("waiting 10s for any of worker/0 to worker/1 to come")));
  PassTime(300, ps_);
  EXPECT_TRUE(absl::IsUnavailable(session_->failure()));
  EXPECT_THAT(session_->failure().message(), HasSubstr("any of worker/0 to worker/1 to come back"));
}

TEST_F(TrainingSessionTest, TasksThatHaveNotComeYetAreNotLost) {
  Register(v1::JOB_PS, 0);
  PassTime(120, {{v1::JOB_PS, 0}});
  EXPECT_THAT(Lost(), ElementsAre());
}

TEST_F(TrainingSessionTest, SilentTasksAreLostUntilTheyComeBack) {
  StartTraining();
  PassTime(12, {{v1::JOB_PS, 0}, {v1::JOB_WORKER, 0}});
  EXPECT_THAT(Lost(), UnorderedElementsAre("ps/1", "worker/1"));
  Register(v1::JOB_PS, 1, "again");
  Register(v1::JOB_WORKER, 1, "again");
  EXPECT_THAT(Lost(), ElementsAre());
}

TEST_F(TrainingSessionTest, AWorkerThatWasToldToGoIsNotLostButAPsAndOneThatFailedAre) {
  StartTraining();
  Leave(v1::JOB_WORKER, 1, /*told=*/true);
  EXPECT_THAT(Lost(), ElementsAre());
  Leave(v1::JOB_WORKER, 0, /*told=*/false);
  Leave(v1::JOB_PS, 0, /*told=*/true);
  EXPECT_THAT(Lost(), UnorderedElementsAre("ps/0", "worker/0"));
}

TEST_F(TrainingSessionTest, NobodyIsLostWhoGoesWhenTheRunStops) {
  StartTraining();
  v1::RequestStopRequest stop;
  stop.set_stop(true);
  ASSERT_TRUE(session_->RequestStop(now_, stop).ok());
  Leave(v1::JOB_PS, 0);
  Leave(v1::JOB_WORKER, 0);
  EXPECT_THAT(Lost(), ElementsAre());
}

TEST_F(TrainingSessionTest, AWorkerThatComesBackEndsTheWait) {
  StartTraining();
  PassTime(200, ps_);
  Register(v1::JOB_WORKER, 0, "again");
  const std::vector<std::pair<v1::Job, uint32_t>> some = {ps_[0], ps_[1], {v1::JOB_WORKER, 0}};
  PassTime(200, some);
  EXPECT_TRUE(session_->failure().ok());
}

TEST_F(TrainingSessionTest, ARunThatDoesNotGoForwardEndsAndNamesWhatItsWorkersDo) {
  StartTraining();
  PassTime(100, all_);
  v1::ReportStepsRequest report;
  *report.mutable_identity() = IdentityOf(v1::JOB_PS, 0);
  report.add_steps()->set_step(1);
  ASSERT_TRUE(session_->ReportSteps(now_, report).ok());
  PassTime(299, all_);
  EXPECT_TRUE(session_->failure().ok());
  PassTime(5, all_);
  EXPECT_TRUE(absl::IsUnavailable(session_->failure()));
  EXPECT_THAT(session_->failure().message(), HasSubstr("worker/0, worker/1 to get past step 1"));
}

TEST_F(TrainingSessionTest, ALastCheckpointThatDoesNotComeNamesThePs) {
  StartTraining();
  v1::ReportStepsRequest report;
  *report.mutable_identity() = IdentityOf(v1::JOB_PS, 0);
  for (uint64_t step = 1; step <= session_->plan()->last_step; ++step) {
    report.add_steps()->set_step(step);
  }
  ASSERT_TRUE(session_->ReportSteps(now_, report).ok());
  PassTime(310, all_);
  EXPECT_TRUE(absl::IsUnavailable(session_->failure()));
  EXPECT_THAT(session_->failure().message(), HasSubstr("to write the last checkpoint"));
}

TEST_F(TrainingSessionTest, AWorkerThatHangsInComputingLosesItsPlace) {
  StartTraining();
  activities_[0].set_computing(true);
  activities_[0].mutable_batch()->set_index(3);
  PassTime(118, all_);
  EXPECT_THAT(session_->state().workers(), ElementsAre(0, 1));
  PassTime(5, all_);
  EXPECT_THAT(session_->state().workers(), ElementsAre(1));
  EXPECT_THAT(notes_, Contains(HasSubstr("worker/0 hangs")));
  EXPECT_THAT(notes_, Contains(HasSubstr("batch 3 of epoch 0 for 2m")));
  EXPECT_TRUE(absl::IsAborted(Beat(v1::JOB_WORKER, 0)));
  Register(v1::JOB_WORKER, 0, "again");
  EXPECT_THAT(session_->state().workers(), ElementsAre(0, 1));
}

TEST_F(TrainingSessionTest, AWorkerThatGetsOnKeepsItsPlaceHoweverLongItComputes) {
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

TEST_F(TrainingSessionTest, AWorkerThatComputesOneBatchAgainAndAgainDoesNotKeepTheRunAlive) {
  StartTraining();
  activities_[0].set_computing(true);
  activities_[0].mutable_batch()->set_index(3);
  for (int time = 1; time <= 310; ++time) {
    activities_[0].set_computed(time);
    PassTime(1, all_);
  }
  EXPECT_THAT(session_->state().workers(), ElementsAre(0, 1));
  EXPECT_TRUE(absl::IsUnavailable(session_->failure()));
  EXPECT_THAT(session_->failure().message(), HasSubstr("to get past step 0"));
}

TEST_F(TrainingSessionTest, AWorkerThatWaitsDoesNotHang) {
  StartTraining();
  PassTime(250, all_);
  EXPECT_THAT(session_->state().workers(), ElementsAre(0, 1));
}

TEST_F(TrainingSessionTest, ATaskOfAnotherRunFileIsRefusedByTheFieldThatDiffers) {
  TrainingSession::Options options = DefaultOptions();
  options.shared_run = options.run;
  session_ = std::make_unique<TrainingSession>(options);
  v1::RegisterTaskRequest request = RequestOf(v1::JOB_PS, 1, "nonce");
  *request.mutable_run() = options.run;
  EXPECT_TRUE(session_->Register(now_, request).ok());
  request = RequestOf(v1::JOB_WORKER, 0, "nonce");
  *request.mutable_run() = options.run;
  request.mutable_run()->set_batch_size(20);
  EXPECT_EQ(session_->Register(now_, request).status(),
            absl::FailedPreconditionError("batch_size: 20 at worker/0, but 10 at the chief; give "
                                          "all tasks the same --run and the same flags"));
}

TEST_F(TrainingSessionTest, ATaskWithAnotherDirectoryIsSaidOnceForEachOfItsLives) {
  TrainingSession::Options options = DefaultOptions();
  options.run.set_out("/runs/one");
  session_ = std::make_unique<TrainingSession>(options);
  const auto register_in = [this](const std::string& directory, const std::string& nonce) {
    notes_.clear();
    v1::RegisterTaskRequest request = RequestOf(v1::JOB_WORKER, 0, nonce);
    request.set_run_directory(directory);
    EXPECT_TRUE(session_->Register(now_, request).ok());
    Act();
    return std::count_if(notes_.begin(), notes_.end(), [](const std::string& note) {
      return note ==
             "--out: /runs/two at worker/0, but /runs/one at the chief; give all tasks the same, "
             "unless these are two names of one directory";
    });
  };
  EXPECT_EQ(register_in("/runs/two", "first"), 1);
  EXPECT_EQ(register_in("/runs/two", "first"), 0) << "the same process asks again";
  now_ += absl::Minutes(1);
  session_->Tick(now_);  // its lease has ended
  EXPECT_EQ(register_in("/runs/two", "second"), 1);
  now_ += absl::Minutes(1);
  session_->Tick(now_);
  EXPECT_EQ(register_in("/runs/one", "third"), 0);
  now_ += absl::Minutes(1);
  session_->Tick(now_);
  EXPECT_EQ(register_in("", "fourth"), 0) << "nobody told it";
}

// Goes on after the first epoch of eight batches, of which one was skipped, as one of the next.
class ResumedSessionTest : public TrainingSessionTest {
 protected:
  static TrainingSession::Options Resumed() {
    TrainingSession::Options options = DefaultOptions();
    v1::Manifest manifest;
    manifest.set_run_id("run");
    manifest.set_step(4);
    manifest.set_seed(1);
    manifest.set_synchronous(true);
    manifest.mutable_plan()->set_examples_per_epoch(80);
    manifest.mutable_plan()->set_batch_examples(10);
    manifest.mutable_plan()->set_replicas_to_aggregate(2);
    manifest.mutable_shard_map()->set_slice_bytes(64);
    for (const char* name : {"a", "b"}) {
      v1::VariableSpec* variable = manifest.add_variables();
      variable->set_name(name);
      variable->add_shape(4);
      variable->set_dtype(v1::DATA_TYPE_FLOAT32);
      variable->set_trainable(true);
      variable->set_update(v1::UPDATE_KIND_OPTIMIZER);
    }
    for (const uint32_t epoch : {0u, 1u}) {
      v1::BatchId* batch = manifest.add_skipped()->mutable_batch();
      batch->set_epoch(epoch);
      batch->set_index(3);
    }
    options.manifest = manifest;
    options.manifest_directory = "ckpt-4";
    options.run.set_num_epochs(3);
    return options;
  }

  ResumedSessionTest() : TrainingSessionTest(Resumed()) {}

  std::vector<uint32_t> EpochsOfSkips() {
    std::vector<uint32_t> epochs;
    for (const v1::BatchId& batch : session_->state().skipped()) epochs.push_back(batch.epoch());
    return epochs;
  }
};

TEST_F(ResumedSessionTest, SkipsStayWhileBatchesAreTheSame) {
  StartTraining();
  EXPECT_THAT(EpochsOfSkips(), ElementsAre(0, 1));
}

TEST_F(ResumedSessionTest, SkipsOfBatchesThatAreOthersNowAreForgotten) {
  TrainingSession::Options options = Resumed();
  options.run.set_batch_size(20);
  session_ = std::make_unique<TrainingSession>(options);
  StartTraining();
  EXPECT_THAT(EpochsOfSkips(), ElementsAre(0));
  options.run.set_batch_size(10);
  options.run.set_seed(2);
  session_ = std::make_unique<TrainingSession>(options);
  StartTraining();
  EXPECT_THAT(EpochsOfSkips(), ElementsAre(0));
}

TEST_F(ResumedSessionTest, AWorkerThatDoesNotFitTheCheckpointIsRefusedAndAnotherStartsTheRun) {
  v1::RegisterTaskRequest other = RequestOf(v1::JOB_WORKER, 1, "other data");
  other.mutable_model()->set_train_examples(70);
  const absl::Status status = session_->Register(now_, other).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(status.message(), HasSubstr("data has 70 examples and the checkpoint was made with"));
  EXPECT_TRUE(absl::IsFailedPrecondition(session_->Register(now_, other).status()));
  EXPECT_EQ(session_->state().phase(), v1::RunState::PHASE_WAITING);
  PassTime(12, {});
  StartTraining();
}

TEST_F(ResumedSessionTest, ARunThatNoWorkerFitsFailsAtOnce) {
  for (const uint32_t worker : {0u, 1u}) {
    EXPECT_TRUE(session_->failure().ok());
    v1::RegisterTaskRequest other = RequestOf(v1::JOB_WORKER, worker, "other data");
    other.mutable_model()->set_train_examples(70);
    EXPECT_TRUE(absl::IsFailedPrecondition(session_->Register(now_, other).status()));
  }
  EXPECT_THAT(session_->failure().message(), HasSubstr("data has 70 examples"));
}

TEST_F(ResumedSessionTest, AWaitForWorkersSaysWhyOneWasRefused) {
  v1::RegisterTaskRequest other = RequestOf(v1::JOB_WORKER, 1, "other model");
  other.mutable_model()->mutable_variables(0)->set_name("c");
  const absl::Status refused = session_->Register(now_, other).status();
  EXPECT_THAT(refused.message(), HasSubstr(" of another model: variable 0 is a in the checkpoint"));
  EXPECT_THAT(refused.message(), HasSubstr("--resume=never with another --out"));
  PassTime(310, {});
  EXPECT_THAT(session_->failure().message(), HasSubstr("(worker/1 was refused: --out: "));
}

}  // namespace
}  // namespace shoal

// Waits and their ends, leases, workers that hang, who may report. What SYNC computes is tested by
// tests/simulation, ASYNC by async_session_test.cc.
#include "chief/training_session.h"

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "runtime/process/protocol_version.h"

namespace shoal {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

v1::Member MemberOf(v1::Job job, uint32_t index) {
  v1::Member member;
  member.set_job(job);
  member.set_index(index);
  return member;
}

// A session with two ps and two workers, and what these would say. Time passes in PassTime.
class TrainingSessionTest : public ::testing::Test {
 protected:
  static TrainingSession::Options DefaultOptions() {
    TrainingSession::Options options;
    options.run_id = "run";
    options.num_ps_tasks = 2;
    options.run.mutable_deployment()->set_num_replicas(2);
    options.run.mutable_sync()->set_replicas_to_aggregate(2);
    options.run.mutable_optimizer()->set_clip_by_global_norm(1);
    options.run.set_batch_size(10);
    options.run.set_num_epochs(1);
    options.run.mutable_cluster()->set_slice_bytes(64);
    return options;
  }

  explicit TrainingSessionTest(TrainingSession::Options options = DefaultOptions())
      : session_(std::make_unique<TrainingSession>(std::move(options))) {}

  void Register(v1::Job job, uint32_t index, const std::string& nonce = "first") {
    v1::RegisterTaskRequest request;
    *request.mutable_identity()->mutable_member() = MemberOf(job, index);
    request.set_nonce(nonce);
    request.set_address("address");
    if (job == v1::JOB_WORKER) {
      for (const char* name : {"a", "b"}) {
        v1::VariableSpec* variable = request.mutable_model()->add_variables();
        variable->set_name(name);
        variable->add_shape(4);
        variable->set_dtype(v1::DATA_TYPE_FLOAT32);
        variable->set_trainable(true);
        variable->set_update(v1::UPDATE_KIND_OPTIMIZER);
      }
      request.mutable_model()->set_train_examples(80);
    }
    const auto response = session_->Register(now_, request);
    ASSERT_TRUE(response.ok()) << response.status();
    v1::Identity& identity = tasks_[{job, index}];
    identity.set_run_id("run");
    identity.set_term(1);
    *identity.mutable_member() = MemberOf(job, index);
    identity.set_incarnation(response->incarnation());
  }

  v1::Identity IdentityOf(v1::Job job, uint32_t index) const {
    v1::Identity identity = tasks_.at({job, index});
    identity.set_lineage(session_->state().lineage());
    return identity;
  }

  absl::Status Beat(v1::Job job, uint32_t index) {
    v1::HeartbeatRequest request;
    if (job == v1::JOB_WORKER) request = activities_[index];
    *request.mutable_identity() = IdentityOf(job, index);
    return session_->Heartbeat(now_, request);
  }

  void Leave(v1::Job job, uint32_t index) {
    v1::HeartbeatRequest request;
    *request.mutable_identity() = IdentityOf(job, index);
    request.set_leaving(true);
    ASSERT_TRUE(session_->Heartbeat(now_, request).ok());
  }

  // Seconds in which all of `beating` renew their leases.
  void PassTime(int seconds, const std::vector<std::pair<v1::Job, uint32_t>>& beating) {
    for (int i = 0; i < seconds; ++i) {
      now_ += absl::Seconds(1);
      for (const auto& [job, index] : beating) Beat(job, index).IgnoreError();
      session_->Tick(now_);
      Act();
    }
  }

  // Ps do what they are told, but for those that hang.
  void Act() {
    for (const PsCommand& command : session_->TakeCommands(now_)) {
      if (hanging_ps_ == command.ps) continue;
      if (std::holds_alternative<v1::LoadSlicesRequest>(command.request)) {
        session_->OnLoadAnswer(now_, command, v1::LoadSlicesResponse());
      }
    }
    for (const SessionRecord& record : session_->TakeRecords()) {
      if (const auto* note = std::get_if<SessionNote>(&record)) notes_.push_back(note->text);
      if (const auto* write = std::get_if<ManifestToWrite>(&record)) manifests_.push_back(*write);
    }
  }

  void StartTraining() {
    for (const uint32_t i : {0u, 1u}) Register(v1::JOB_PS, i);
    for (const uint32_t i : {0u, 1u}) Register(v1::JOB_WORKER, i);
    Act();
    ASSERT_EQ(session_->state().phase(), v1::RunState::PHASE_TRAINING);
  }

  // Both ps have passed the version and written their shards of it.
  void Cut(uint64_t version) {
    v1::ReportStepsRequest steps;
    *steps.mutable_identity() = IdentityOf(v1::JOB_PS, 0);
    for (uint64_t step = session_->newest_step() + 1; step <= version; ++step) {
      steps.add_steps()->set_step(step);
    }
    ASSERT_TRUE(session_->ReportSteps(now_, steps).ok());
    for (const uint32_t ps : {0u, 1u}) {
      v1::ReportShardRequest shard;
      *shard.mutable_identity() = IdentityOf(v1::JOB_PS, ps);
      shard.set_version(version);
      shard.set_directory("cut-" + std::to_string(version));
      ASSERT_TRUE(session_->ReportShard(now_, shard).ok());
    }
    Act();
  }

  void ManifestIsWritten(const ManifestToWrite& write) {
    session_->OnManifestWritten(now_, write.manifest.lineage(), write.manifest.step(),
                                absl::OkStatus());
  }

  const std::vector<std::pair<v1::Job, uint32_t>> all_ = {
      {v1::JOB_PS, 0}, {v1::JOB_PS, 1}, {v1::JOB_WORKER, 0}, {v1::JOB_WORKER, 1}};
  const std::vector<std::pair<v1::Job, uint32_t>> ps_ = {{v1::JOB_PS, 0}, {v1::JOB_PS, 1}};
  absl::Time now_ = absl::UnixEpoch();
  std::unique_ptr<TrainingSession> session_;
  std::map<std::pair<v1::Job, uint32_t>, v1::Identity> tasks_;
  std::optional<uint32_t> hanging_ps_;
  std::map<uint32_t, v1::HeartbeatRequest> activities_;  // of workers
  std::vector<std::string> notes_;
  std::vector<ManifestToWrite> manifests_;
};

TEST_F(TrainingSessionTest, AProgramOfAnotherProtocolIsRefused) {
  v1::RegisterTaskRequest request;
  *request.mutable_identity()->mutable_member() = MemberOf(v1::JOB_PS, 0);
  request.set_nonce("nonce");
  request.set_protocol(kProtocolVersion + 1);
  const absl::Status status = session_->Register(now_, request).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("ps/0 speaks protocol 2, the chief 1; build both programs"));
  request.set_protocol(kProtocolVersion);
  EXPECT_TRUE(session_->Register(now_, request).ok());
}

TEST_F(TrainingSessionTest, ATaskBeyondTheRunsNumbersIsRefused) {
  for (const v1::Job job : {v1::JOB_PS, v1::JOB_WORKER}) {
    v1::RegisterTaskRequest request;
    *request.mutable_identity()->mutable_member() = MemberOf(job, 2);
    request.set_nonce("nonce");
    const absl::Status status = session_->Register(now_, request).status();
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("=2; use a --task_index below it"));
  }
  EXPECT_EQ(session_->Status(now_).tasks_size(), 0);
}

TEST_F(TrainingSessionTest, AnEvaluatorIsNoMember) {
  v1::RegisterTaskRequest request;
  *request.mutable_identity()->mutable_member() = MemberOf(v1::JOB_EVALUATOR, 0);
  request.set_protocol(kProtocolVersion);
  const auto response = session_->Register(now_, request);
  EXPECT_EQ(response.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(response.status().message()), HasSubstr("evaluator/0 registers"));
  EXPECT_THAT(session_->Status(now_).tasks_size(), 0);
}

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

TEST_F(TrainingSessionTest, TrainingWithoutWorkersEnds) {
  StartTraining();
  PassTime(30, ps_);  // their leases end
  EXPECT_THAT(session_->state().workers(), ElementsAre());
  EXPECT_THAT(notes_, Contains(HasSubstr("waiting 10s for any of worker/0 to worker/1 to come")));
  PassTime(300, ps_);
  EXPECT_TRUE(absl::IsUnavailable(session_->failure()));
  EXPECT_THAT(session_->failure().message(), HasSubstr("any of worker/0 to worker/1 to come back"));
}

TEST_F(TrainingSessionTest, AStopForgetsTheStepsBeyondItsCheckpoint) {
  StartTraining();
  v1::RequestStopRequest stop;
  stop.set_stop(true);
  const uint64_t version = *session_->RequestStop(now_, stop);
  Cut(version);
  v1::ReportStepsRequest beyond;
  *beyond.mutable_identity() = IdentityOf(v1::JOB_PS, 0);
  beyond.add_steps()->set_step(version + 1);
  ASSERT_TRUE(session_->ReportSteps(now_, beyond).ok());
  EXPECT_EQ(session_->newest_step(), version + 1);
  ASSERT_EQ(manifests_.size(), 1u);
  ManifestIsWritten(manifests_[0]);
  EXPECT_EQ(session_->state().phase(), v1::RunState::PHASE_DONE);
  EXPECT_EQ(session_->newest_step(), version);
  std::vector<uint64_t> back_to;
  for (const SessionRecord& record : session_->TakeRecords()) {
    if (const auto* back = std::get_if<RolledBack>(&record)) back_to.push_back(back->version);
  }
  EXPECT_THAT(back_to, ElementsAre(version));
  beyond.mutable_steps(0)->set_step(version + 2);
  EXPECT_TRUE(session_->ReportSteps(now_, beyond).ok());
  EXPECT_EQ(session_->newest_step(), version) << "what comes after the end does not count";
}

TEST_F(TrainingSessionTest, ACheckpointThatCannotBeMadeIsRefused) {
  const v1::RequestStopRequest save;
  EXPECT_THAT(session_->RequestStop(now_, save).status().message(), HasSubstr("PHASE_WAITING"));
  StartTraining();
  const uint64_t version = *session_->RequestStop(now_, save);
  EXPECT_EQ(version, 2u);
  Cut(version);
  ASSERT_EQ(manifests_.size(), 1u);
  ManifestIsWritten(manifests_[0]);
  ASSERT_EQ(session_->durable_version(), version);
  Leave(v1::JOB_PS, 0);
  Register(v1::JOB_PS, 0, "again");
  ASSERT_EQ(session_->state().phase(), v1::RunState::PHASE_PREPARING);
  const absl::Status refused = session_->RequestStop(now_, save).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(refused));
  EXPECT_THAT(refused.message(),
              HasSubstr("in PHASE_PREPARING at step 2; the newest is of step 2"));
  Act();
  EXPECT_THAT(notes_, Contains(HasSubstr("no checkpoint can be made in PHASE_PREPARING")));
  v1::RequestStopRequest stop;
  stop.set_stop(true);
  EXPECT_EQ(*session_->RequestStop(now_, stop), 4u) << "made as soon as it trains again";
}

TEST_F(TrainingSessionTest, ACheckpointDuringAStopIsTheStops) {
  StartTraining();
  v1::RequestStopRequest stop;
  stop.set_stop(true);
  const uint64_t version = *session_->RequestStop(now_, stop);
  Cut(version);
  ASSERT_EQ(session_->state().phase(), v1::RunState::PHASE_STOPPING);
  EXPECT_EQ(*session_->RequestStop(now_, v1::RequestStopRequest()), version);
  EXPECT_EQ(*session_->RequestStop(now_, stop), version);
  ManifestIsWritten(manifests_[0]);
  ASSERT_EQ(session_->state().phase(), v1::RunState::PHASE_DONE);
  EXPECT_TRUE(
      absl::IsFailedPrecondition(session_->RequestStop(now_, v1::RequestStopRequest()).status()));
}

TEST_F(TrainingSessionTest, AStopKeepsTheLinesOfALaterCheckpointThatIsBeingWritten) {
  StartTraining();
  v1::RequestStopRequest stop;
  stop.set_stop(true);
  const uint64_t version = *session_->RequestStop(now_, stop);
  Cut(version);
  Cut(version + 1);
  ASSERT_EQ(manifests_.size(), 2u);
  ManifestIsWritten(manifests_[0]);
  EXPECT_EQ(session_->state().phase(), v1::RunState::PHASE_DONE);
  EXPECT_EQ(session_->newest_step(), version + 1);
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

TEST_F(TrainingSessionTest, ALostPsHasItsOwnDeadline) {
  StartTraining();
  const std::vector<std::pair<v1::Job, uint32_t>> others = {all_[0], all_[2], all_[3]};
  PassTime(60, others);
  EXPECT_TRUE(absl::IsUnavailable(session_->failure()));
  EXPECT_THAT(session_->failure().message(), HasSubstr("ps/1 is gone"));
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
  }
  EXPECT_THAT(session_->state().workers(), ElementsAre(0, 1));
  EXPECT_TRUE(session_->failure().ok());
}

TEST_F(TrainingSessionTest, AWorkerThatWaitsDoesNotHang) {
  StartTraining();
  PassTime(250, all_);
  EXPECT_THAT(session_->state().workers(), ElementsAre(0, 1));
}

TEST_F(TrainingSessionTest, ASliceThatIsNotFiniteEndsTheRunAndNamesTheVariable) {
  StartTraining();
  v1::ReportStepsRequest report;
  *report.mutable_identity() = IdentityOf(v1::JOB_PS, 1);
  v1::PoisonedSlice* poisoned = report.add_poisoned();
  poisoned->set_slice(99);
  EXPECT_TRUE(absl::IsInvalidArgument(session_->ReportSteps(now_, report)));
  EXPECT_TRUE(session_->failure().ok());
  poisoned->set_slice(1);
  poisoned->set_step(3);
  poisoned->set_learning_rate(2.5);
  ASSERT_TRUE(session_->ReportSteps(now_, report).ok());
  EXPECT_EQ(session_->failure().message(),
            "variable b is not finite after the update of step 3: training diverges; lower "
            "--learning_rate (2.5 there) or clip gradients. There is no checkpoint yet");
}

TEST_F(TrainingSessionTest, ABadBatchThatTheRunDoesNotHaveIsRefused) {
  v1::ReportBadBatchRequest report;
  report.mutable_died()->set_job(v1::JOB_WORKER);
  report.mutable_batch()->set_index(1);
  EXPECT_TRUE(absl::IsInvalidArgument(session_->ReportBadBatch(now_, report))) << "no plan yet";
  StartTraining();
  EXPECT_TRUE(session_->ReportBadBatch(now_, report).ok());
  report.mutable_batch()->set_index(8);
  const absl::Status status = session_->ReportBadBatch(now_, report);
  EXPECT_EQ(status.message(), "batch: this run has no batch 8 of epoch 0 to compute");
  report.mutable_batch()->set_index(1);
  report.mutable_died()->set_job(v1::JOB_PS);
  EXPECT_TRUE(absl::IsInvalidArgument(session_->ReportBadBatch(now_, report)));
  report.mutable_died()->set_job(v1::JOB_WORKER);
  report.mutable_identity()->set_run_id("other");
  EXPECT_TRUE(absl::IsFailedPrecondition(session_->ReportBadBatch(now_, report)));
  EXPECT_TRUE(session_->TakeCommands(now_).empty());
}

TEST_F(TrainingSessionTest, AMemberOfAHigherTermEndsThisChief) {
  StartTraining();
  v1::HeartbeatRequest request;
  *request.mutable_identity() = IdentityOf(v1::JOB_PS, 0);
  request.mutable_identity()->set_term(5);
  EXPECT_TRUE(absl::IsAborted(session_->Heartbeat(now_, request)));
  EXPECT_EQ(session_->failure().message(),
            "a newer chief, of term 5, has taken this run over; this one, of term 1, ends and "
            "writes nothing more");
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

TEST_F(TrainingSessionTest, NormsAreTakenFromTheLivePsOfThisLineageOnly) {
  StartTraining();
  v1::ReportNormsRequest good;
  *good.mutable_identity() = IdentityOf(v1::JOB_PS, 0);
  good.set_step(0);
  for (const uint32_t slice : {0u, 1u}) {
    good.add_slices(slice);
    good.add_squared_norms(4);
  }
  const auto refused = [&](auto change) {
    v1::ReportNormsRequest bad = good;
    change(bad.mutable_identity());
    return session_->ReportNorms(now_, bad).code();
  };
  using Code = absl::StatusCode;
  EXPECT_EQ(refused([](v1::Identity* i) { i->set_run_id("other"); }), Code::kFailedPrecondition);
  EXPECT_EQ(refused([](v1::Identity* i) { i->set_term(0); }), Code::kAborted);
  EXPECT_EQ(refused([](v1::Identity* i) { i->set_incarnation(99); }), Code::kAborted);
  EXPECT_EQ(refused([](v1::Identity* i) { i->set_lineage(99); }), Code::kAborted);
  EXPECT_EQ(refused([&](v1::Identity* i) { *i = IdentityOf(v1::JOB_WORKER, 0); }),
            Code::kInvalidArgument);
  EXPECT_FALSE(session_->NormScale(session_->state().lineage(), 0).has_value());
  EXPECT_TRUE(session_->ReportNorms(now_, good).ok());
  EXPECT_TRUE(session_->NormScale(session_->state().lineage(), 0).has_value());
}

TEST_F(TrainingSessionTest, OldCheckpointsAreNeededUntilTheSessionRestsOnTheNewOne) {
  StartTraining();
  Cut(1);
  ASSERT_EQ(manifests_.size(), 1u);
  EXPECT_FALSE(session_->RestsOn("cut-1"));  // written, perhaps, but the session does not know
  ManifestIsWritten(manifests_[0]);
  EXPECT_TRUE(session_->RestsOn("cut-1"));
  Cut(2);
  EXPECT_TRUE(session_->RestsOn("cut-1"));
  EXPECT_FALSE(session_->RestsOn("cut-2"));
}

TEST_F(TrainingSessionTest, ACheckpointThatIsKnownTooLateIsNotRestedOn) {
  StartTraining();
  Cut(1);
  ManifestIsWritten(manifests_[0]);
  Cut(2);
  hanging_ps_ = 1;
  Leave(v1::JOB_PS, 1);
  Register(v1::JOB_PS, 1, "again");  // all go back to the first one
  Act();
  ManifestIsWritten(manifests_[1]);
  EXPECT_FALSE(session_->RestsOn("cut-2"));
  EXPECT_FALSE(session_->RestsOn("cut-1"));  // ps/1 is reading it
  EXPECT_EQ(session_->durable_version(), 1u);
}

}  // namespace
}  // namespace shoal

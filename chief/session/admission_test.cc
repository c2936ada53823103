#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "chief/session/session_records.h"
#include "chief/session/training_session_testing.h"
#include "runtime/process/protocol_version.h"

namespace shoal {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

using AdmissionTest = TrainingSessionTest;

TEST_F(AdmissionTest, AProgramOfAnotherProtocolIsRefused) {
  v1::RegisterTaskRequest request;
  *request.mutable_identity()->mutable_member() = MemberOf(v1::JOB_PS, 0);
  request.set_nonce("nonce");
  request.set_protocol(kProtocolVersion + 1);
  const absl::Status status = session_->Register(now_, request).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("ps/0 speaks protocol 4, the chief 3; build both programs"));
  request.set_protocol(kProtocolVersion);
  EXPECT_TRUE(session_->Register(now_, request).ok());
}

TEST_F(AdmissionTest, AWorkerThatOnlyAsksIsCheckedAndGetsNoPlace) {
  v1::RegisterTaskRequest request = RequestOf(v1::JOB_WORKER, 0, "nonce");
  request.set_only_check(true);
  const auto answer = session_->Register(now_, request);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->incarnation(), 0u);
  EXPECT_EQ(session_->Status(now_).tasks_size(), 0);
  Register(v1::JOB_PS, 0);
  Register(v1::JOB_PS, 1);
  EXPECT_EQ(session_->state().phase(), v1::RunState::PHASE_WAITING);
  // Its model is the run's all the same.
  v1::RegisterTaskRequest other = RequestOf(v1::JOB_WORKER, 1, "nonce");
  other.mutable_model()->mutable_variables(0)->set_name("other");
  for (const bool only_check : {true, false}) {
    other.set_only_check(only_check);
    const absl::Status refused = session_->Register(now_, other).status();
    EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
    EXPECT_THAT(std::string(refused.message()), HasSubstr("variable 0 is a in the first worker"));
  }
  Register(v1::JOB_WORKER, 1);
  EXPECT_EQ(session_->state().phase(), v1::RunState::PHASE_PREPARING);
}

TEST_F(AdmissionTest, ATaskBeyondTheRunsNumbersIsRefused) {
  for (const v1::Job job : {v1::JOB_PS, v1::JOB_WORKER}) {
    v1::RegisterTaskRequest request;
    *request.mutable_identity()->mutable_member() = MemberOf(job, 2);
    request.set_nonce("nonce");
    request.set_protocol(kProtocolVersion);
    const absl::Status status = session_->Register(now_, request).status();
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("=2; use a --task_index below it"));
  }
  EXPECT_EQ(session_->Status(now_).tasks_size(), 0);
}

TEST_F(AdmissionTest, NoTaskHasAnIndexBeyondAllBounds) {
  TrainingSession::Options options = DefaultOptions();
  options.run.mutable_deployment()->set_num_replicas(UINT32_MAX);
  session_ = std::make_unique<TrainingSession>(options);
  const auto request = RequestOf(v1::JOB_WORKER, 1 << 16, "nonce");
  EXPECT_TRUE(absl::IsInvalidArgument(session_->Register(now_, request).status()));
  EXPECT_EQ(session_->Status(now_).tasks_size(), 0);
}

TEST_F(AdmissionTest, ATaskThatIsReplacedBeforeItsEndIsSeenIsReportedAsLost) {
  StartTraining();
  session_->Disconnect(now_, IdentityOf(v1::JOB_WORKER, 1));
  Register(v1::JOB_WORKER, 1, "again");
  Act();
  EXPECT_THAT(notes_, Contains(HasSubstr("worker/1 is lost: its process ")));
}

TEST_F(AdmissionTest, AnEvaluatorIsNotAMember) {
  v1::RegisterTaskRequest request;
  *request.mutable_identity()->mutable_member() = MemberOf(v1::JOB_EVALUATOR, 0);
  request.set_protocol(kProtocolVersion);
  const auto response = session_->Register(now_, request);
  EXPECT_EQ(response.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(response.status().message()), HasSubstr("evaluator/0 registers"));
  EXPECT_THAT(session_->Status(now_).tasks_size(), 0);
}

TEST_F(AdmissionTest, AHigherTermIsDoubtedAndEndsNothingByItself) {
  StartTraining();
  const auto num_doubts = [this] {
    int doubts = 0;
    for (const SessionRecord& record : session_->TakeRecords()) {
      if (std::holds_alternative<TermInDoubt>(record)) ++doubts;
    }
    return doubts;
  };
  for (const auto& [job, index] : {std::pair(v1::JOB_PS, 0u), std::pair(v1::JOB_WORKER, 1u)}) {
    v1::HeartbeatRequest request;
    *request.mutable_identity() = IdentityOf(job, index);
    request.mutable_identity()->set_term(uint64_t{1} << 40);
    EXPECT_TRUE(absl::IsUnavailable(session_->Heartbeat(now_, request)));
  }
  EXPECT_EQ(num_doubts(), 1) << "the file is not read for every call";
  EXPECT_TRUE(session_->failure().ok());
  EXPECT_TRUE(Beat(v1::JOB_WORKER, 1).ok());
  v1::ReportStepsRequest steps;
  *steps.mutable_identity() = IdentityOf(v1::JOB_PS, 0);
  steps.mutable_identity()->set_term(2);
  now_ += absl::Seconds(2);
  EXPECT_TRUE(absl::IsUnavailable(session_->ReportSteps(now_, steps)));
  EXPECT_EQ(num_doubts(), 1);
  session_->Fence("a newer chief, of term 5, has taken this run over");
  EXPECT_EQ(session_->failure().message(),
            "a newer chief, of term 5, has taken this run over; this one, of term 1, ends and "
            "writes nothing more");
}

// A run whose first worker computes on a GPU.
class OtherComputationTest : public TrainingSessionTest {
 protected:
  using TrainingSessionTest::TrainingSessionTest;

  absl::Status RegisterWith(const std::string& computation, uint32_t worker,
                            const std::string& nonce) {
    v1::RegisterTaskRequest request = RequestOf(v1::JOB_WORKER, worker, nonce);
    request.mutable_model()->set_compute_fingerprint(computation);
    const auto response = session_->Register(now_, request);
    if (!response.ok()) return response.status();
    v1::Identity& identity = tasks_[{v1::JOB_WORKER, worker}];
    identity.set_run_id("run");
    identity.set_term(1);
    *identity.mutable_member() = MemberOf(v1::JOB_WORKER, worker);
    identity.set_incarnation(response->incarnation());
    return absl::OkStatus();
  }

  // Starts a run on GPUs, which makes a step if `trains`.
  void StartOnGpus(bool trains) {
    for (const uint32_t i : {0u, 1u}) Register(v1::JOB_PS, i);
    for (const uint32_t i : {0u, 1u}) ASSERT_EQ(RegisterWith(kGpu, i, "first"), absl::OkStatus());
    Act();
    ASSERT_EQ(session_->state().phase(), v1::RunState::PHASE_TRAINING);
    if (!trains) return;
    ReportStepsUpTo(1);
    session_->Disconnect(now_, IdentityOf(v1::JOB_WORKER, 1));
  }

  static constexpr char kGpu[] = "program torch 2.1 cuda NVIDIA A100 threads 1";
  static constexpr char kCpu[] = "program torch 2.1 cpu AVX2 threads 1";
  static constexpr char kLostGpu[] =
      "worker/1 computes on cpu now, and the run began on cuda; its GPU may have failed ([program "
      "torch 2.1 cpu AVX2 threads 1] here, [program torch 2.1 cuda NVIDIA A100 threads 1] at the "
      "first worker)";
};

TEST_F(OtherComputationTest, AGpuThatFailsEndsItsWorkerAndNotTheRun) {
  StartOnGpus(/*trains=*/true);
  for (const char* nonce : {"second", "third"}) {
    const absl::Status refused = RegisterWith(kCpu, 1, nonce);
    EXPECT_TRUE(absl::IsAborted(refused)) << refused;
    EXPECT_EQ(refused.message(), absl::StrCat("computation: ", kLostGpu,
                                              "; equal bytes cannot be promised: use equal "
                                              "machines or --allow_mixed_compute"));
  }
  EXPECT_TRUE(session_->failure().ok()) << session_->failure();
  Act();
  EXPECT_EQ(
      std::count_if(notes_.begin(), notes_.end(),
                    [](const std::string& note) { return absl::StrContains(note, kLostGpu); }),
      1)
      << "it is logged once";
  EXPECT_EQ(RegisterWith(kGpu, 1, "on another machine"), absl::OkStatus());
}

TEST_F(OtherComputationTest, AWorkerThatNeverFittedTheRunIsRefusedForGood) {
  StartOnGpus(/*trains=*/false);
  EXPECT_TRUE(absl::IsFailedPrecondition(RegisterWith(kCpu, 1, "second"))) << "nothing is trained";
  session_ = std::make_unique<TrainingSession>(DefaultOptions());
  ASSERT_EQ(RegisterWith("simulated, devices GPU,GPU, threads 1", 0, "first"), absl::OkStatus());
  const absl::Status refused = RegisterWith("simulated, devices CPU, threads 1", 1, "first");
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("worker/1 computes on CPU now, and the run began on GPU"));
  EXPECT_THAT(std::string(RegisterWith("numpy 2", 1, "first").message()),
              HasSubstr("worker/1 computes with [numpy 2], the first worker with [simulated, "));
  TrainingSession::Options mixed = DefaultOptions();
  mixed.run.mutable_sync()->set_allow_mixed_compute(true);
  session_ = std::make_unique<TrainingSession>(mixed);
  EXPECT_EQ(RegisterWith(kGpu, 0, "first"), absl::OkStatus());
  EXPECT_EQ(RegisterWith(kCpu, 1, "first"), absl::OkStatus());
}

// Asynchronous runs promise no equal bytes.
TEST_F(OtherComputationTest, AnotherDeviceIsOnlyLoggedInAnAsynchronousRun) {
  TrainingSession::Options options = DefaultOptions();
  options.run.mutable_sync()->set_sync_replicas(false);
  session_ = std::make_unique<TrainingSession>(options);
  EXPECT_EQ(RegisterWith(kGpu, 0, "first"), absl::OkStatus());
  EXPECT_EQ(RegisterWith(kCpu, 1, "first"), absl::OkStatus());
  Act();
  EXPECT_THAT(notes_, Contains(kLostGpu));
}

// Incarnations are not secret: a call that is sent in the name of a dead ps must not keep its place
// from the next process.
TEST_F(AdmissionTest, ACallThatATaskOfThisJobDoesNotSendRenewsNoLease) {
  StartTraining();
  const v1::Identity ps = IdentityOf(v1::JOB_PS, 1);
  const v1::Identity worker = IdentityOf(v1::JOB_WORKER, 1);
  for (int second = 0; second < 12; ++second) {
    PassTime(1, {all_[0], all_[2]});
    v1::ReportEvaluationRequest evaluation;
    *evaluation.mutable_identity() = ps;
    EXPECT_TRUE(absl::IsInvalidArgument(session_->ReportEvaluation(now_, evaluation)));
    v1::ReportBadBatchRequest bad;
    *bad.mutable_identity() = ps;
    EXPECT_TRUE(absl::IsInvalidArgument(session_->ReportBadBatch(now_, bad)));
    v1::ReportStepsRequest steps;
    *steps.mutable_identity() = worker;
    EXPECT_TRUE(absl::IsInvalidArgument(session_->ReportSteps(now_, steps)));
    v1::ReportShardRequest shard;
    *shard.mutable_identity() = worker;
    EXPECT_TRUE(absl::IsInvalidArgument(session_->ReportShard(now_, shard)));
    v1::ReportNormsRequest norms;
    *norms.mutable_identity() = worker;
    EXPECT_TRUE(absl::IsInvalidArgument(session_->ReportNorms(now_, norms)));
  }
  EXPECT_THAT(Lost(), ElementsAre("ps/1", "worker/1"));
}

TEST_F(AdmissionTest, ATaskOfAnotherRunFileIsRefusedByTheFieldThatDiffers) {
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

// The settings are those of the program, which a ps does not have.
TEST_F(AdmissionTest, APsNeedNotKnowTheSettingsOfAComputeProgram) {
  TrainingSession::Options options = DefaultOptions();
  options.run.mutable_program()->set_file("/a/train.py");
  options.run.mutable_optimizer()->mutable_adam();
  options.shared_run = options.run;
  session_ = std::make_unique<TrainingSession>(options);
  v1::RegisterTaskRequest request = RequestOf(v1::JOB_PS, 1, "nonce");
  *request.mutable_run() = options.run;
  request.mutable_run()->mutable_optimizer()->mutable_sgd();
  request.mutable_run()->set_batch_size(20);
  EXPECT_TRUE(session_->Register(now_, request).ok());
  *request.mutable_identity() = RequestOf(v1::JOB_WORKER, 0, "nonce").identity();
  EXPECT_TRUE(absl::IsFailedPrecondition(session_->Register(now_, request).status()));
}

TEST_F(AdmissionTest, ATaskWithAnotherDirectoryIsNotedOnceForEachOfItsProcesses) {
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
  EXPECT_EQ(register_in("", "fourth"), 0) << "the task did not name one";
}

TEST_F(AdmissionTest, ATaskThatRegistersInAFailedRunGetsTheCodeOfTheFailure) {
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

// Resumes after the first epoch of eight batches. One batch of it, and one of the next epoch, was
// skipped.
class ResumedSessionTest : public TrainingSessionTest {
 public:
  static TrainingSession::Options Resumed() {
    TrainingSession::Options options = DefaultOptions();
    v1::Manifest manifest;
    manifest.set_run_id("run");
    manifest.set_step(4);
    manifest.set_seed(1);
    manifest.set_optimizer("sgd");
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

 protected:
  ResumedSessionTest() : TrainingSessionTest(Resumed()) {}

  std::vector<uint32_t> EpochsOfSkips() {
    std::vector<uint32_t> epochs;
    for (const v1::BatchId& batch : session_->state().skipped()) epochs.push_back(batch.epoch());
    return epochs;
  }
};

// The chief has been started anew since the GPU failed, and knows none of the workers.
TEST_F(OtherComputationTest, AGpuThatFailsBeforeARunIsResumedEndsItsWorkerAndNotTheRun) {
  session_ = std::make_unique<TrainingSession>(ResumedSessionTest::Resumed());
  ASSERT_EQ(RegisterWith(kGpu, 0, "first"), absl::OkStatus());
  for (const char* nonce : {"first", "second"}) {
    const absl::Status refused = RegisterWith(kCpu, 1, nonce);
    EXPECT_TRUE(absl::IsAborted(refused)) << refused;
    EXPECT_THAT(std::string(refused.message()), HasSubstr(kLostGpu));
  }
  EXPECT_TRUE(absl::IsFailedPrecondition(RegisterWith("numpy 2", 1, "third")));
  for (const uint32_t i : {0u, 1u}) Register(v1::JOB_PS, i);
  Act();
  EXPECT_EQ(session_->state().phase(), v1::RunState::PHASE_TRAINING);
  EXPECT_EQ(RegisterWith(kGpu, 1, "on another machine"), absl::OkStatus());
  // A chief cannot know that the first worker is the one without its GPU.
  session_ = std::make_unique<TrainingSession>(ResumedSessionTest::Resumed());
  ASSERT_EQ(RegisterWith(kCpu, 0, "first"), absl::OkStatus());
  EXPECT_TRUE(absl::IsFailedPrecondition(RegisterWith(kGpu, 1, "first")));
}

TEST_F(ResumedSessionTest, SkipsStayWhileBatchesAreTheSame) {
  StartTraining();
  EXPECT_THAT(EpochsOfSkips(), ElementsAre(0, 1));
}

TEST_F(ResumedSessionTest, SkipsOfBatchesWithOtherExamplesAreForgotten) {
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

TEST_F(ResumedSessionTest, AWaitForWorkersNamesTheReasonOfARefusal) {
  v1::RegisterTaskRequest other = RequestOf(v1::JOB_WORKER, 1, "other model");
  other.mutable_model()->mutable_variables(0)->set_name("c");
  const absl::Status refused = session_->Register(now_, other).status();
  EXPECT_THAT(refused.message(), HasSubstr(" of another model: variable 0 is a in the checkpoint"));
  EXPECT_THAT(refused.message(), HasSubstr("give this model another --out"));
  PassTime(310, {});
  EXPECT_THAT(session_->failure().message(), HasSubstr("(worker/1 was refused: --out: "));
}

class InitialValuesTest : public ResumedSessionTest {
 protected:
  // Registers a worker whose program gives these initial values. Returns what is recorded of it.
  std::vector<InitialValuesDiffer> RegisterWith(uint64_t values, uint32_t worker) {
    if (tasks_.count({v1::JOB_WORKER, worker}) > 0) {
      session_->Disconnect(now_, IdentityOf(v1::JOB_WORKER, worker));
    }
    initial_values_ = values - worker;
    Register(v1::JOB_WORKER, worker, absl::StrCat(values, " and ", ++registrations_));
    std::vector<InitialValuesDiffer> found;
    for (const SessionRecord& record : session_->TakeRecords()) {
      if (const auto* differ = std::get_if<InitialValuesDiffer>(&record)) found.push_back(*differ);
    }
    return found;
  }

 private:
  int registrations_ = 0;
};

TEST_F(InitialValuesTest, OthersThanThoseInUseAreRecordedOncePerWorker) {
  session_ = std::make_unique<TrainingSession>(DefaultOptions());
  EXPECT_THAT(RegisterWith(7, 1), IsEmpty());
  const std::vector<InitialValuesDiffer> differ = RegisterWith(8, 0);
  ASSERT_THAT(differ, SizeIs(1));
  EXPECT_EQ(differ[0].worker, 0u);
  EXPECT_EQ(differ[0].given, 8u);
  EXPECT_EQ(differ[0].in_use, 7u);
  EXPECT_THAT(RegisterWith(9, 0), IsEmpty()) << "it was recorded";
  EXPECT_THAT(RegisterWith(7, 1), IsEmpty()) << "it is equal";
  EXPECT_THAT(RegisterWith(8, 1), SizeIs(1)) << "a new process of the first worker counts too";
}

TEST_F(InitialValuesTest, ARunThatDoesNotBeginWithThemRecordsNothing) {
  EXPECT_THAT(RegisterWith(7, 0), IsEmpty());
  EXPECT_THAT(RegisterWith(8, 1), IsEmpty()) << "it resumes";
  TrainingSession::Options options = DefaultOptions();
  options.run.set_init_from("/runs/a/checkpoints/1");
  tasks_.clear();
  session_ = std::make_unique<TrainingSession>(options);
  EXPECT_THAT(RegisterWith(7, 0), IsEmpty());
  EXPECT_THAT(RegisterWith(8, 1), IsEmpty());
}

}  // namespace
}  // namespace shoal

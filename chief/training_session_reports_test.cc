// Who may register and report, and what.
#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "chief/training_session_testing.h"
#include "runtime/process/protocol_version.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;

TEST_F(TrainingSessionTest, AProgramOfAnotherProtocolIsRefused) {
  v1::RegisterTaskRequest request;
  *request.mutable_identity()->mutable_member() = MemberOf(v1::JOB_PS, 0);
  request.set_nonce("nonce");
  request.set_protocol(kProtocolVersion + 1);
  const absl::Status status = session_->Register(now_, request).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("ps/0 speaks protocol 3, the chief 2; build both programs"));
  request.set_protocol(kProtocolVersion);
  EXPECT_TRUE(session_->Register(now_, request).ok());
}

TEST_F(TrainingSessionTest, ATaskBeyondTheRunsNumbersIsRefused) {
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

TEST_F(TrainingSessionTest, NoTaskHasAnIndexBeyondAllBounds) {
  TrainingSession::Options options = DefaultOptions();
  options.run.mutable_deployment()->clear_num_replicas();
  session_ = std::make_unique<TrainingSession>(options);
  const auto request = RequestOf(v1::JOB_WORKER, 1 << 16, "nonce");
  EXPECT_TRUE(absl::IsInvalidArgument(session_->Register(now_, request).status()));
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

TEST_F(TrainingSessionTest, AHigherTermIsDoubtedAndEndsNothingByItself) {
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

TEST_F(TrainingSessionTest, APsReportsNothingBeforeThereIsAPlan) {
  Register(v1::JOB_PS, 0);
  v1::ReportStepsRequest steps;
  *steps.mutable_identity() = IdentityOf(v1::JOB_PS, 0);
  steps.add_steps()->set_step(1);
  EXPECT_TRUE(absl::IsFailedPrecondition(session_->ReportSteps(now_, steps)));
  v1::ReportShardRequest shard;
  *shard.mutable_identity() = IdentityOf(v1::JOB_PS, 0);
  shard.set_version(1);
  EXPECT_TRUE(absl::IsFailedPrecondition(session_->ReportShard(now_, shard)));
  EXPECT_EQ(session_->newest_step(), 0u);
}

TEST_F(TrainingSessionTest, StepsAreTakenFromThePsThatCountsThemOnly) {
  StartTraining();
  v1::ReportStepsRequest steps;
  steps.add_steps()->set_step(1);
  for (const auto& [job, index] : {all_[1], all_[2]}) {
    *steps.mutable_identity() = IdentityOf(job, index);
    EXPECT_TRUE(absl::IsInvalidArgument(session_->ReportSteps(now_, steps))) << index;
  }
  *steps.mutable_identity() = IdentityOf(v1::JOB_PS, 0);
  steps.mutable_steps(0)->set_step(0);
  EXPECT_TRUE(absl::IsInvalidArgument(session_->ReportSteps(now_, steps)));
  EXPECT_EQ(session_->newest_step(), 0u);
  steps.mutable_steps(0)->set_step(1);
  EXPECT_TRUE(session_->ReportSteps(now_, steps).ok());
}

TEST_F(TrainingSessionTest, AGapInTheStepsIsAnsweredWithTheStepToGoOnFrom) {
  StartTraining();
  v1::ReportStepsRequest steps;
  *steps.mutable_identity() = IdentityOf(v1::JOB_PS, 0);
  steps.add_steps()->set_step(1);
  steps.add_steps()->set_step(3);
  EXPECT_TRUE(session_->ReportSteps(now_, steps).ok());
  EXPECT_EQ(session_->reported_steps(), 1u);
  EXPECT_EQ(session_->newest_step(), 1u);
  steps.mutable_steps(0)->set_step(2);
  EXPECT_TRUE(session_->ReportSteps(now_, steps).ok());
  EXPECT_EQ(session_->reported_steps(), 3u);
}

TEST_F(TrainingSessionTest, WhatTheRunDoesNotHaveIsNotRemembered) {
  evaluation_blocks_ = 2;
  StartTraining();
  v1::ReportEvaluationRequest evaluation;
  *evaluation.mutable_identity() = IdentityOf(v1::JOB_WORKER, 0);
  evaluation.set_version(session_->plan()->last_step + 1);
  EXPECT_TRUE(absl::IsInvalidArgument(session_->ReportEvaluation(now_, evaluation)));
  evaluation.set_version(session_->plan()->last_step);
  EXPECT_TRUE(session_->ReportEvaluation(now_, evaluation).ok());
  evaluation.set_block(2);
  EXPECT_TRUE(absl::IsInvalidArgument(session_->ReportEvaluation(now_, evaluation)));
  v1::ReportNormsRequest norms;
  *norms.mutable_identity() = IdentityOf(v1::JOB_PS, 0);
  norms.add_slices(2);
  norms.add_squared_norms(1);
  EXPECT_TRUE(absl::IsInvalidArgument(session_->ReportNorms(now_, norms)));
  norms.set_slices(0, 0);
  norms.set_step(session_->plan()->last_step + 1);
  EXPECT_TRUE(absl::IsInvalidArgument(session_->ReportNorms(now_, norms)));
  v1::ReportShardRequest shard;
  *shard.mutable_identity() = IdentityOf(v1::JOB_PS, 0);
  shard.set_version(session_->plan()->last_step + 1);
  EXPECT_TRUE(absl::IsInvalidArgument(session_->ReportShard(now_, shard)));
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

// Incarnations are no secret: whoever sends such a call in the name of a dead ps must not keep its
// place from the next process.
TEST_F(TrainingSessionTest, ACallThatATaskOfThisJobDoesNotSendRenewsNoLease) {
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
  EXPECT_THAT(Lost(), ::testing::ElementsAre("ps/1", "worker/1"));
}

TEST_F(TrainingSessionTest, ABadBatchThatTheRunDoesNotHaveIsRefused) {
  v1::ReportBadBatchRequest report;
  report.mutable_died()->set_job(v1::JOB_WORKER);
  report.mutable_batch()->set_index(1);
  StartTraining();
  *report.mutable_identity() = IdentityOf(v1::JOB_WORKER, 1);
  report.mutable_died()->set_index(1);
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

TEST_F(TrainingSessionTest, AMadeUpDeathIsRefusedAndNoIncarnationDiesTwice) {
  StartTraining();
  const auto report = [this](uint64_t incarnation, uint64_t batch) {
    v1::ReportBadBatchRequest request;
    *request.mutable_died() = MemberOf(v1::JOB_WORKER, 1);
    request.mutable_identity()->set_incarnation(incarnation);
    request.mutable_batch()->set_index(batch);
    return session_->ReportBadBatch(now_, request);
  };
  const uint64_t real = IdentityOf(v1::JOB_WORKER, 1).incarnation();
  for (const uint64_t made_up :
       {uint64_t{0}, real + 1, real + 2, UINT64_MAX, IdentityOf(v1::JOB_WORKER, 0).incarnation()}) {
    EXPECT_TRUE(absl::IsInvalidArgument(report(made_up, 1))) << made_up;
  }
  EXPECT_TRUE(report(real, 1).ok());
  EXPECT_TRUE(report(real, 1).ok()) << "the launcher repeats what was not answered";
  EXPECT_TRUE(absl::IsInvalidArgument(report(real, 2)));
  EXPECT_TRUE(session_->TakeCommands(now_).empty()) << "one death is no proof against a batch";
  Register(v1::JOB_WORKER, 1, "second");
  EXPECT_TRUE(report(IdentityOf(v1::JOB_WORKER, 1).incarnation(), 1).ok());
  EXPECT_EQ(session_->TakeCommands(now_).size(), 2u) << "each ps is asked about the batch";
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

}  // namespace
}  // namespace shoal

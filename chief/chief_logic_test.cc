// Tests a chief without threads: calls that wait, answers of commands, and the end.
#include "chief/chief_logic.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "chief/session/session_options_testing.h"
#include "runtime/config/run_config.h"
#include "runtime/process/protocol_version.h"
#include "runtime/rpc/norms_call.h"

namespace shoal {
namespace {

constexpr absl::Duration kLease = absl::Seconds(10);
constexpr absl::Duration kTick = absl::Milliseconds(100);

class ChiefLogicTest : public ::testing::Test {
 protected:
  ChiefLogicTest() {
    options_.session = TestSessionOptions();
    options_.session.run_id = "run";
    options_.session.lease = kLease;
    options_.session.run.set_batch_size(10);
    options_.session.run.set_max_steps(100);
    ResolveDefaults(TaskCounts(), &options_.session.run);
    Begin();
  }

  void Begin() { logic_ = std::make_unique<ChiefLogic>(options_); }

  v1::RegisterTaskRequest Application(v1::Job job, const std::string& nonce) {
    v1::RegisterTaskRequest request;
    request.mutable_identity()->mutable_member()->set_job(job);
    request.set_nonce(nonce);
    request.set_protocol(kProtocolVersion);
    request.set_address(job == v1::JOB_PS ? "ps:1" : "");
    if (job != v1::JOB_WORKER) return request;
    for (int v = 0; v < num_variables_; ++v) {
      v1::VariableSpec* variable = request.mutable_model()->add_variables();
      variable->set_name(absl::StrCat("v", v));
      variable->add_shape(4);
      variable->set_dtype(v1::DATA_TYPE_FLOAT32);
      variable->set_update(v1::UPDATE_KIND_OPTIMIZER);
    }
    request.mutable_model()->set_train_examples(80);
    return request;
  }

  // Registers a task whose place is free.
  v1::Identity Register(v1::Job job, const std::string& nonce) {
    const v1::RegisterTaskRequest request = Application(job, nonce);
    ChiefLogic::Registration call(logic_.get(), request, [] { return false; });
    const auto answer = call.Poll(now_);
    v1::Identity identity;
    if (!answer.has_value() || !answer->ok()) {
      ADD_FAILURE() << nonce << " was not registered";
      return identity;
    }
    identity.set_run_id((*answer)->run_id());
    identity.set_term((*answer)->term());
    identity.set_incarnation((*answer)->incarnation());
    identity.set_lineage(logic_->session().state().lineage());
    identity.mutable_member()->set_job(job);
    return identity;
  }

  // A ps and a worker train.
  void StartTraining() {
    ps_ = Register(v1::JOB_PS, "ps");
    worker_ = Register(v1::JOB_WORKER, "worker");
    const std::vector<PsCommand> loads = Look();
    ASSERT_EQ(loads.size(), 1u);
    logic_->OnAnswer(now_, loads[0], PsResponse(v1::LoadSlicesResponse()));
    ASSERT_EQ(phase(), v1::RunState::PHASE_TRAINING);
  }

  // Does what a driver does every `tick`. Returns the commands.
  std::vector<PsCommand> Look() {
    logic_->Tick(now_);
    std::vector<PsCommand> commands = logic_->TakeCommands(now_);
    bool has_records = false;
    for (SessionRecord& record : logic_->TakeRecords()) {
      has_records = true;
      if (const auto* note = std::get_if<SessionNote>(&record)) notes_ += note->text + "\n";
    }
    logic_->LookForEnd(now_, has_records);
    return commands;
  }

  // Time passes for the chief, which looks at its session meanwhile.
  void Pass(absl::Duration duration) {
    for (absl::Duration passed; passed < duration; passed += kTick) {
      now_ += kTick;
      Look();
    }
  }

  absl::Status Beat(const v1::Identity& identity) {
    v1::HeartbeatRequest request;
    *request.mutable_identity() = identity;
    ChiefLogic::Heartbeat call(logic_.get(), request);
    const auto answer = call.Poll(now_);
    return answer.has_value() ? answer->status() : absl::OkStatus();
  }

  v1::RunState::Phase phase() const { return logic_->session().state().phase(); }

  ChiefLogic::Options options_;
  int num_variables_ = 1;
  std::unique_ptr<ChiefLogic> logic_;
  absl::Time now_ = absl::FromUnixSeconds(1000);
  v1::Identity ps_, worker_;
  std::string notes_;
};

TEST_F(ChiefLogicTest, AHeartbeatWaitsForAStateThatItsSenderDoesNotKnow) {
  StartTraining();
  v1::HeartbeatRequest request;
  *request.mutable_identity() = worker_;
  request.set_known_state(logic_->session().state().number());
  request.set_wait_milliseconds(1000);
  ChiefLogic::Heartbeat call(logic_.get(), request);
  EXPECT_FALSE(call.Poll(now_).has_value());
  EXPECT_EQ(call.wake(), now_ + absl::Seconds(1));
  Register(v1::JOB_PS, "ps");  // The same process: nothing new.
  EXPECT_FALSE(call.Poll(now_ + absl::Milliseconds(999)).has_value());
  v1::HeartbeatRequest leaving;
  *leaving.mutable_identity() = ps_;
  leaving.set_leaving(true);
  ASSERT_TRUE(ChiefLogic::Heartbeat(logic_.get(), leaving).Poll(now_).has_value());
  const auto answer = call.Poll(now_);
  ASSERT_TRUE(answer.has_value() && answer->ok());
  EXPECT_GT((*answer)->state().number(), request.known_state());
}

TEST_F(ChiefLogicTest, ARegistrationWaitsForATakenPlaceUntilTheLeaseOfItsHolderEnds) {
  options_.session.lease = absl::Seconds(3);
  Begin();
  Register(v1::JOB_PS, "first");
  const v1::RegisterTaskRequest request = Application(v1::JOB_PS, "second");
  ChiefLogic::Registration call(logic_.get(), request, [] { return false; });
  const absl::Time start = now_;
  auto answer = call.Poll(now_);
  while (!answer.has_value()) {
    ASSERT_GT(call.wake(), now_);
    Pass(kTick);
    answer = call.Poll(now_);
  }
  EXPECT_TRUE(answer->ok()) << answer->status();
  EXPECT_GT(now_ - start, absl::Seconds(3));
}

TEST_F(ChiefLogicTest, ACommandThatWasNotAnsweredIsIssuedAgain) {
  Register(v1::JOB_PS, "ps");
  Register(v1::JOB_WORKER, "worker");
  std::vector<PsCommand> commands = Look();
  ASSERT_EQ(commands.size(), 1u);
  logic_->OnAnswer(now_, commands[0], absl::UnavailableError("no connection"));
  EXPECT_EQ(phase(), v1::RunState::PHASE_PREPARING);
  now_ += options_.session.redeliver;
  commands = Look();
  ASSERT_EQ(commands.size(), 1u);
  logic_->OnAnswer(now_, commands[0], PsResponse(v1::LoadSlicesResponse()));
  EXPECT_EQ(phase(), v1::RunState::PHASE_TRAINING);
}

// A ps with many slices reports the norms of a step in several calls.
TEST_F(ChiefLogicTest, OnlyTheLastReportOfNormsOfAPsWaitsForThoseOfOthers) {
  options_.session.run.mutable_optimizer()->set_clip_by_global_norm(1);
  num_variables_ = 2;
  Begin();
  StartTraining();
  v1::ReportNormsRequest request;
  *request.mutable_identity() = ps_;
  request.mutable_identity()->set_lineage(logic_->session().state().lineage());
  for (int i = 0; i < kMostNormsInACall; ++i) {
    request.add_slices(0);
    request.add_squared_norms(4);
  }
  auto answer = ChiefLogic::NormsReport(logic_.get(), request).Poll(now_);
  ASSERT_TRUE(answer.has_value() && answer->ok());
  EXPECT_FALSE((*answer)->ready());
  request.mutable_slices()->RemoveLast();
  request.mutable_squared_norms()->RemoveLast();
  EXPECT_FALSE(ChiefLogic::NormsReport(logic_.get(), request).Poll(now_).has_value());
  request.set_slices(0, 1);
  answer = ChiefLogic::NormsReport(logic_.get(), request).Poll(now_);
  ASSERT_TRUE(answer.has_value() && answer->ok());
  EXPECT_TRUE((*answer)->ready());
}

TEST_F(ChiefLogicTest, TheRunIsNotOverWhileSomethingOfItIsBeingWritten) {
  StartTraining();
  logic_->BeginWork();
  logic_->BeginWork();
  logic_->EndWork(absl::AbortedError("a newer chief has taken /out over"));
  EXPECT_EQ(phase(), v1::RunState::PHASE_FAILED);
  for (const PsCommand& command : Look()) {
    logic_->OnAnswer(now_, command, PsResponse(v1::FinishResponse()));
  }
  Pass(absl::Seconds(1));
  EXPECT_FALSE(logic_->drained());
  logic_->EndWork(absl::OkStatus());
  Look();
  EXPECT_TRUE(logic_->drained());
  EXPECT_FALSE(logic_->result().ok());
}

// Simulates that the process was stopped, or its machine suspended, for `pause`, while messages
// waited.
class PausedChiefTest : public ChiefLogicTest, public ::testing::WithParamInterface<int> {
 protected:
  void Pause() {
    StartTraining();
    Pass(absl::Seconds(1));
    ASSERT_TRUE(Beat(ps_).ok());
    ASSERT_TRUE(Beat(worker_).ok());
    state_ = logic_->session().state();
    now_ += absl::Seconds(GetParam());
  }

  void ExpectNoTaskLost() {
    EXPECT_EQ(phase(), v1::RunState::PHASE_TRAINING);
    EXPECT_EQ(logic_->session().state().lineage(), state_.lineage());
    EXPECT_EQ(logic_->session().state().view(), state_.view());
    EXPECT_EQ(logic_->session().state().waiting_for_size(), 0);
  }

  v1::RunState state_;
};

TEST_P(PausedChiefTest, JudgesNoTaskBeforeItHasListenedForALease) {
  Pause();
  Pass(kLease - kTick);
  EXPECT_TRUE(Beat(ps_).ok());
  EXPECT_TRUE(Beat(worker_).ok());
  ExpectNoTaskLost();
  EXPECT_THAT(notes_, ::testing::HasSubstr("stood still for"));
}

TEST_P(PausedChiefTest, GivesNoPlaceToTheFirstTaskThatCalls) {
  Pause();
  // The calls that had waited at the chief ended at their callers.
  logic_->Disconnect(now_, ps_);
  logic_->Disconnect(now_, worker_);
  const v1::RegisterTaskRequest request = Application(v1::JOB_PS, "other");
  ChiefLogic::Registration call(logic_.get(), request, [] { return false; });
  EXPECT_FALSE(call.Poll(now_).has_value());
  Pass(absl::Seconds(2));
  EXPECT_TRUE(Beat(ps_).ok());
  EXPECT_TRUE(Beat(worker_).ok());
  const auto answer = call.Poll(now_);
  ASSERT_TRUE(answer.has_value());
  EXPECT_TRUE(absl::IsAlreadyExists(answer->status())) << answer->status();
  ExpectNoTaskLost();
}

TEST_P(PausedChiefTest, ATaskThatWantsThePlaceOfASilentProcessIsAskedToRetry) {
  Pause();
  const v1::RegisterTaskRequest request = Application(v1::JOB_PS, "other");
  ChiefLogic::Registration call(logic_.get(), request, [] { return false; });
  EXPECT_FALSE(call.Poll(now_).has_value());
  Pass(absl::Seconds(5));
  const auto answer = call.Poll(now_);
  ASSERT_TRUE(answer.has_value());
  EXPECT_TRUE(absl::IsUnavailable(answer->status())) << answer->status();
}

// The holder of the place was silent since before the pause, so the task that waits is not refused
// as a second process.
TEST_P(PausedChiefTest, ATaskThatHadWaitedForAPlaceIsAskedToRetry) {
  const v1::RegisterTaskRequest request = Application(v1::JOB_PS, "other");
  StartTraining();
  ChiefLogic::Registration call(logic_.get(), request, [] { return false; });
  EXPECT_FALSE(call.Poll(now_).has_value());
  now_ += absl::Seconds(GetParam());
  const auto answer = call.Poll(now_);
  ASSERT_TRUE(answer.has_value());
  EXPECT_TRUE(absl::IsUnavailable(answer->status())) << answer->status();
}

TEST_P(PausedChiefTest, NoWaitEndsBecauseOfIt) {
  v1::HeartbeatRequest computing;
  StartTraining();
  *computing.mutable_identity() = worker_;
  computing.set_computing(true);
  ChiefLogic::Heartbeat call(logic_.get(), computing);
  ASSERT_TRUE(call.Poll(now_).has_value());
  ASSERT_TRUE(Beat(ps_).ok());
  state_ = logic_->session().state();
  now_ += absl::Hours(1);  // Longer than peer_wait and stall.
  Pass(absl::Seconds(1));
  EXPECT_TRUE(Beat(ps_).ok());
  ExpectNoTaskLost();
}

TEST_P(PausedChiefTest, ATaskThatDiedMeanwhileIsFound) {
  Pause();
  for (int i = 0; i < 11; ++i) {
    Pass(absl::Seconds(1));
    EXPECT_TRUE(Beat(worker_).ok());
  }
  EXPECT_THAT(logic_->session().state().waiting_for(), ::testing::ElementsAre("ps/0"));
  // It was only slow to come back.
  EXPECT_TRUE(Beat(ps_).ok());
  ExpectNoTaskLost();
}

INSTANTIATE_TEST_SUITE_P(Seconds, PausedChiefTest, ::testing::Values(12, 36, 3600));

}  // namespace
}  // namespace shoal

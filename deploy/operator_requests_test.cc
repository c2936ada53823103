#include "deploy/operator_requests.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/clock.h"
#include "runtime/process/protocol_version.h"
#include "runtime/rpc/fake_chief.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;

// A clock on which a wait takes no time.
class LeapingClock : public Clock {
 public:
  absl::Time Now() const override { return now; }
  bool WaitUntil(absl::Time deadline, Mutex* /*mutex*/, CondVar* /*changed*/) const override {
    now = std::max(now, deadline);
    return false;
  }
  mutable absl::Time now = absl::FromUnixSeconds(1600000000);
};

// A chief that reports its checkpoint, or the end of the run, after a few requests.
class OneRun : public FakeChief {
 public:
  absl::Status RequestStop(const v1::RequestStopRequest& request,
                           v1::RequestStopResponse* response) override {
    if (!refuses.ok()) return refuses;
    response->set_version(40);
    stop = request;
    const bool is_lost = !asked && loses_the_first_answer;
    asked = true;
    return is_lost ? absl::DeadlineExceededError("Deadline Exceeded") : absl::OkStatus();
  }
  absl::Status GetRunStatus(const v1::GetRunStatusRequest& /*request*/,
                            v1::GetRunStatusResponse* response) override {
    if (!refuses.ok()) return refuses;
    if (asked && ++polls >= 3) {
      if (!gone_at_the_end.ok() && polls < back_at) {
        if (absl::IsDeadlineExceeded(gone_at_the_end)) clock->now += absl::Seconds(5);
        if (when_gone) when_gone();
        return gone_at_the_end;
      }
      run = later;
    }
    *response = asked && polls < 3 ? once_asked : run;
    return absl::OkStatus();
  }

  explicit OneRun(LeapingClock* of) : clock(of) {}

  LeapingClock* const clock;
  absl::Status refuses;
  bool loses_the_first_answer = false;
  v1::GetRunStatusResponse run, once_asked, later;
  v1::RequestStopRequest stop;
  bool asked = false;
  absl::Status gone_at_the_end;
  int back_at = std::numeric_limits<int>::max();  // The poll from which it answers again.
  std::function<void()> when_gone;
  int polls = 0;
};

class OperatorRequestsTest : public ::testing::Test {
 protected:
  OperatorRequestsTest() {
    chief_.run.mutable_state()->set_phase(v1::RunState::PHASE_TRAINING);
    chief_.run.set_protocol(kProtocolVersion);
    chief_.run.set_run_id("r");
    chief_.run.set_run_directory("/runs/a");
    chief_.run.set_last_checkpoint("ckpt-20");
    chief_.run.set_last_checkpoint_step(20);
    chief_.once_asked = chief_.run;
    chief_.later = chief_.run;
    control_.chief = chief_.client();
    control_.clock = &clock_;
    control_.address = "a:1";
  }

  // The run reports a checkpoint of step 40 and its end after its chief was silent.
  void EndsLater() {
    chief_.later.set_last_checkpoint("ckpt-40");
    chief_.later.set_last_checkpoint_step(40);
    chief_.later.mutable_state()->set_phase(v1::RunState::PHASE_DONE);
  }
  void AskAnew() {
    chief_.run = chief_.once_asked;
    chief_.asked = false;
    chief_.polls = 0;
  }

  LeapingClock clock_;
  OneRun chief_{&clock_};
  ChiefContact control_;
};

TEST_F(OperatorRequestsTest, RefusalsOfTlsNameTheFlags) {
  chief_.refuses = absl::UnavailableError("failed to connect: Socket closed");
  EXPECT_EQ(GetStatus(control_).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(GetStatus(control_).status().message()),
              HasSubstr("a:1: it closes the connection: if the run uses TLS, give --tls_ca"));
  control_.secure = true;
  chief_.refuses = absl::UnavailableError("failed to connect: certificate verify failed");
  EXPECT_EQ(GetStatus(control_).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(GetStatus(control_).status().message()), HasSubstr("--tls_ca"));
}

TEST_F(OperatorRequestsTest, AServerThatIsNotATaskIsReportedWithoutTheWordsOfGrpc) {
  chief_.refuses = absl::UnavailableError(
      "failed to connect to all addresses; last error: UNAVAILABLE: ipv4:1.2.3.4:1: Failed parsing "
      "HTTP/2");
  EXPECT_EQ(GetStatus(control_).status(),
            absl::FailedPreconditionError(
                "a:1: the server at this address is not a Shoal task; correct the "
                "address (it does not speak HTTP/2)"));
}

TEST_F(OperatorRequestsTest, ACheckpointIsWaitedFor) {
  chief_.later.set_last_checkpoint("ckpt-40");
  chief_.later.set_last_checkpoint_step(40);
  const absl::StatusOr<DurableCheckpoint> made = MakeCheckpoint(control_);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->path, "/runs/a/checkpoints/ckpt-40");
  EXPECT_EQ(made->step, 40u);
  EXPECT_FALSE(chief_.stop.stop());
}

TEST_F(OperatorRequestsTest, AFailedCheckpointNamesTheReason) {
  chief_.later.set_failed_checkpoints(1);
  chief_.later.set_last_failure("step 40: no space left on device");
  const absl::Status status = MakeCheckpoint(control_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), HasSubstr("no space left"));
}

TEST_F(OperatorRequestsTest, ACheckpointThatDoesNotComeEndsTheWait) {
  control_.timeout = absl::Milliseconds(300);
  chief_.run.set_waits_for("worker/1 to come back");
  chief_.once_asked = chief_.run;
  chief_.later = chief_.run;
  const absl::Status status = MakeCheckpoint(control_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(status.message()), HasSubstr("waits for worker/1 to come back"));
}

TEST_F(OperatorRequestsTest, ARunThatHasNotBegunHasNothingToSave) {
  chief_.run.mutable_state()->set_phase(v1::RunState::PHASE_WAITING);
  chief_.run.set_waits_for("ps/1 to register");
  const absl::Status status = MakeCheckpoint(control_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("the run waits for ps/1 to register"));
  EXPECT_FALSE(chief_.asked);
}

TEST_F(OperatorRequestsTest, AStopIsWaitedFor) {
  chief_.later.set_last_checkpoint("ckpt-40");
  chief_.later.set_last_checkpoint_step(40);
  chief_.later.mutable_state()->set_phase(v1::RunState::PHASE_DONE);
  const absl::StatusOr<DurableCheckpoint> ended = StopRun(control_, "test");
  ASSERT_TRUE(ended.ok()) << ended.status();
  EXPECT_EQ(ended->path, "/runs/a/checkpoints/ckpt-40");
  EXPECT_TRUE(chief_.stop.stop());
  EXPECT_EQ(chief_.stop.run_id(), "r");
}

TEST_F(OperatorRequestsTest, AChiefThatGoesAfterItsLastCheckpointHasStopped) {
  chief_.once_asked.mutable_state()->set_phase(v1::RunState::PHASE_STOPPING);
  chief_.once_asked.set_last_checkpoint("ckpt-40");
  chief_.once_asked.set_last_checkpoint_step(40);
  // A server that ends refuses new calls and cancels those under way.
  for (const absl::Status& gone : {absl::UnavailableError("gone"), absl::CancelledError("")}) {
    chief_.asked = false;
    chief_.polls = 0;
    chief_.gone_at_the_end = gone;
    const absl::StatusOr<DurableCheckpoint> ended = StopRun(control_, "test");
    ASSERT_TRUE(ended.ok()) << ended.status();
    EXPECT_EQ(ended->step, 40u);
  }
}

TEST_F(OperatorRequestsTest, AStalledChiefIsAskedAgain) {
  EndsLater();
  chief_.gone_at_the_end = absl::DeadlineExceededError("Deadline Exceeded");
  chief_.back_at = 8;  // It is silent for 25 s.
  const absl::StatusOr<DurableCheckpoint> ended = StopRun(control_, "test");
  ASSERT_TRUE(ended.ok()) << ended.status();
  EXPECT_EQ(ended->step, 40u);
  AskAnew();
  const absl::StatusOr<DurableCheckpoint> made = MakeCheckpoint(control_);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->step, 40u);
}

TEST_F(OperatorRequestsTest, AChiefThatStaysSilentIsAskedUntilTheTimeout) {
  chief_.gone_at_the_end = absl::DeadlineExceededError("Deadline Exceeded");
  const absl::Time begin = clock_.now;
  const absl::Status stopped = StopRun(control_, "test").status();
  EXPECT_GE(clock_.now - begin, control_.timeout);
  EXPECT_LE(clock_.now - begin, control_.timeout + absl::Seconds(6));
  EXPECT_EQ(stopped, absl::DeadlineExceededError(
                         "a:1: it did not end within 1m; the run is at step 0; the chief has not "
                         "answered for 1m1s"));
  AskAnew();
  EXPECT_EQ(MakeCheckpoint(control_).status(),
            absl::DeadlineExceededError("a:1: no checkpoint within 1m; the run is at step 0; the "
                                        "chief has not answered for 1m1s"));
}

TEST_F(OperatorRequestsTest, AChiefWhoseConnectionsTimeOutMayBeStalled) {
  EndsLater();
  chief_.gone_at_the_end = absl::UnavailableError("keepalive watchdog timeout");
  chief_.back_at = 200;
  EXPECT_EQ(StopRun(control_, "test").status(), absl::OkStatus());
}

TEST_F(OperatorRequestsTest, ABrokenConnectionIsMadeAgain) {
  EndsLater();
  for (const absl::Status& gone : {absl::UnavailableError("gone"), absl::CancelledError("")}) {
    AskAnew();
    chief_.gone_at_the_end = gone;
    chief_.back_at = 20;
    EXPECT_EQ(StopRun(control_, "test").status(), absl::OkStatus());
    AskAnew();
    EXPECT_EQ(MakeCheckpoint(control_).status(), absl::OkStatus());
  }
}

TEST_F(OperatorRequestsTest, ARequestWhoseAnswerIsLostIsRepeated) {
  EndsLater();
  chief_.loses_the_first_answer = true;
  EXPECT_EQ(StopRun(control_, "test").status(), absl::OkStatus());
  AskAnew();
  EXPECT_EQ(MakeCheckpoint(control_).status(), absl::OkStatus());
}

TEST_F(OperatorRequestsTest, AChiefThatIsStartedAgainDoesNotKnowTheRequest) {
  chief_.once_asked.set_uptime_seconds(100);
  EndsLater();
  chief_.later.set_uptime_seconds(1);
  for (const bool stops : {false, true}) {
    AskAnew();
    const absl::Status status =
        stops ? StopRun(control_, "test").status() : MakeCheckpoint(control_).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(std::string(status.message()), HasSubstr("another chief has its address"));
  }
}

// The directory of the run on this machine, in which the chief says how the run ended.
class EndedRunTest : public OperatorRequestsTest {
 protected:
  EndedRunTest() {
    std::filesystem::remove_all(directory_);
    std::filesystem::create_directories(directory_);
    chief_.run.set_run_directory(directory_);
    chief_.once_asked = chief_.run;
    chief_.gone_at_the_end = absl::UnavailableError("gone");
    Write("RUN_ID", "r\n");
  }
  // The chief writes the summary before it goes.
  void EndsWith(const std::string& summary) {
    chief_.when_gone = [this, summary] { Write("summary.json", summary); };
  }
  void Write(const std::string& name, const std::string& text) {
    std::ofstream(directory_ + "/" + name) << text;
  }

  const std::string directory_ = ::testing::TempDir() + "/operator_requests_ended";
};

TEST_F(EndedRunTest, TheSummaryOfTheRunSaysThatItStopped) {
  EndsWith(absl::StrCat(R"({"status": "stopped", "exit_reason": "shoal stop", "checkpoint": ")",
                        directory_, R"(/checkpoints/ckpt-40-1-0000000000000001"})"));
  const absl::Time begin = clock_.now;
  const absl::StatusOr<DurableCheckpoint> ended = StopRun(control_, "test");
  ASSERT_TRUE(ended.ok()) << ended.status();
  EXPECT_EQ(ended->path, directory_ + "/checkpoints/ckpt-40-1-0000000000000001");
  EXPECT_EQ(ended->step, 40u);
  EXPECT_LT(clock_.now - begin, absl::Seconds(1)) << "nothing is left to wait for";
}

TEST_F(EndedRunTest, TheSummaryOfTheRunSaysThatItFailed) {
  EndsWith(R"({"status": "failed", "exit_reason": "the disk is full"})");
  EXPECT_EQ(StopRun(control_, "test").status(),
            absl::FailedPreconditionError("a:1: the run failed: the disk is full"));
}

TEST_F(EndedRunTest, TheSummaryOfAnotherRunSaysNothing) {
  Write("RUN_ID", "another\n");
  EndsWith(R"({"status": "stopped", "exit_reason": "shoal stop"})");
  EXPECT_EQ(StopRun(control_, "test").status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(OperatorRequestsTest, ARequestThatTheChiefCancelsHasNoAnswer) {
  chief_.refuses = absl::CancelledError("CANCELLED");
  EXPECT_EQ(StopRun(control_, "test").status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(MakeCheckpoint(control_).status().message()),
              HasSubstr("a:1: no chief answers there (CANCELLED)"));
}

TEST_F(OperatorRequestsTest, AChiefThatGoesBeforeItsLastCheckpointHasNotStopped) {
  chief_.gone_at_the_end = absl::UnavailableError("gone");
  for (const auto phase : {v1::RunState::PHASE_TRAINING, v1::RunState::PHASE_STOPPING}) {
    chief_.asked = false;
    chief_.polls = 0;
    chief_.once_asked.mutable_state()->set_phase(phase);
    const absl::Status status = StopRun(control_, "test").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("a:1: the chief was lost before it reported that the run stopped: it "
                          "has not answered for 3s (gone); see its log"));
  }
}

TEST_F(OperatorRequestsTest, AnotherRunThatTakesTheAddressHasNotStopped) {
  chief_.later.set_run_id("another");
  chief_.later.mutable_state()->set_phase(v1::RunState::PHASE_DONE);
  EXPECT_EQ(StopRun(control_, "test").status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(OperatorRequestsTest, AnotherRunsCheckpointIsNotTaken) {
  chief_.later.set_run_id("another");
  chief_.later.set_last_checkpoint("ckpt-50");
  chief_.later.set_last_checkpoint_step(50);
  EXPECT_EQ(MakeCheckpoint(control_).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(chief_.stop.run_id(), "r") << "the chief can refuse another run's request";
}

TEST_F(OperatorRequestsTest, ARunInAnotherDirectoryIsLeftAlone) {
  control_.run_directory = "/runs/b";
  for (const absl::Status& status :
       {GetStatus(control_).status(), MakeCheckpoint(control_).status(),
        StopRun(control_, "test").status()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("a:1: the run there is in /runs/a, not in /runs/b"));
  }
  EXPECT_FALSE(chief_.asked);
}

TEST_F(OperatorRequestsTest, ADirectoryIsTheSameByAnotherName) {
  const std::string directory = ::testing::TempDir() + "/run_control_run";
  const std::string link = ::testing::TempDir() + "/run_control_link";
  mkdir(directory.c_str(), 0755);
  ASSERT_EQ(symlink(directory.c_str(), link.c_str()), 0);
  chief_.run.set_run_directory(directory);
  control_.run_directory = link + "/";
  EXPECT_EQ(GetStatus(control_).status(), absl::OkStatus());
  unlink(link.c_str());
}

TEST_F(OperatorRequestsTest, OtherServersAreNotChiefs) {
  chief_.refuses = absl::UnavailableError("no answer of the task itself, but UNIMPLEMENTED: ");
  const absl::Status status = GetStatus(control_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("a:1 is not a chief"));
}

TEST_F(OperatorRequestsTest, AnAbsentChiefIsReported) {
  chief_.refuses = absl::UnavailableError("connection refused");
  const absl::Status status = StopRun(control_, "test").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("a:1: no chief answers there"));
}

TEST_F(OperatorRequestsTest, AnotherProtocolIsRefusedBeforeAnythingIsAsked) {
  chief_.run.set_protocol(kProtocolVersion + 1);
  EXPECT_EQ(MakeCheckpoint(control_).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_FALSE(chief_.asked);
}

}  // namespace
}  // namespace shoal

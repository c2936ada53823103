#include "deploy/operator_requests.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/clock.h"
#include "runtime/process/protocol_version.h"
#include "runtime/rpc/fake_chief.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;

// A chief that reports its checkpoint, or the end of the run, after a few requests.
class OneRun : public FakeChief {
 public:
  absl::Status RequestStop(const v1::RequestStopRequest& request,
                           v1::RequestStopResponse* response) override {
    if (!refuses.ok()) return refuses;
    response->set_version(40);
    stop = request;
    asked = true;
    return absl::OkStatus();
  }
  absl::Status GetRunStatus(const v1::GetRunStatusRequest& /*request*/,
                            v1::GetRunStatusResponse* response) override {
    if (!refuses.ok()) return refuses;
    if (asked && ++polls == 3) {
      if (!gone_at_the_end.ok()) return gone_at_the_end;
      run = later;
    }
    *response = asked && polls < 3 ? once_asked : run;
    return absl::OkStatus();
  }

  absl::Status refuses;
  v1::GetRunStatusResponse run, once_asked, later;
  v1::RequestStopRequest stop;
  bool asked = false;
  absl::Status gone_at_the_end;
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

  OneRun chief_;
  RealClock clock_;
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
                HasSubstr("a:1: the chief was lost before it reported that the run stopped"));
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

#include "runtime/rpc/chief_session.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "absl/time/clock.h"

#include "base/clock.h"
#include "base/fake_clock.h"
#include "base/notification.h"
#include "runtime/rpc/fake_chief.h"

namespace shoal {
namespace {

class RecordingObserver : public ChiefSession::Observer {
 public:
  void OnRunState(const v1::RunState& state) override {
    MutexLock lock(&mutex_);
    numbers_.push_back(state.number());
    changed_.NotifyAll();
  }
  void OnFenced(const absl::Status& reason) override {
    status = reason;
    fenced.Notify();
  }
  void OnChiefLost(const absl::Status& reason) override {
    status = reason;
    lost.Notify();
  }

  std::vector<uint64_t> WaitForStates(size_t count) {
    MutexLock lock(&mutex_);
    while (numbers_.size() < count) changed_.Wait(&mutex_);
    return numbers_;
  }

  Notification fenced;
  Notification lost;
  absl::Status status;

 private:
  Mutex mutex_;
  CondVar changed_;
  std::vector<uint64_t> numbers_ ABSL_GUARDED_BY(mutex_);
};

v1::RunState State(uint64_t number) {
  v1::RunState state;
  state.set_number(number);
  state.set_view(number * 10);
  state.set_lineage(number * 100);
  return state;
}

class ChiefSessionTest : public testing::Test {
 protected:
  static ChiefSession::Options Options() {
    ChiefSession::Options options;
    options.task.job = Job::kWorker;
    options.task.index = 3;
    options.nonce = "n1";
    options.lease = absl::Seconds(10);
    options.register_patience = absl::Seconds(300);
    options.heartbeat_wait = absl::Milliseconds(20);
    options.chief_lost_after = absl::Seconds(30);
    return options;
  }

  RealClock clock_;
  FakeChief chief_;
  RecordingObserver observer_;
};

TEST_F(ChiefSessionTest, RegistrationGivesTheIdentityAndIsRepeatedWithTheSameNonce) {
  chief_.SetFailure(absl::UnavailableError("not up yet"));
  ChiefSession session(chief_.client(), &clock_, Options(), &observer_);
  std::thread registers([&] { EXPECT_TRUE(session.Register(nullptr).ok()); });
  chief_.WaitUntil([&] { return chief_.calls >= 2; });
  chief_.SetFailure(absl::OkStatus());
  registers.join();
  const v1::Identity identity = session.identity();
  EXPECT_EQ(identity.run_id().size(), 32u);
  EXPECT_EQ(identity.incarnation(), 1u);
  EXPECT_EQ(identity.member().index(), 3u);
  EXPECT_TRUE(session.is_lease_valid());
  EXPECT_TRUE(session.Register(nullptr).ok());
  EXPECT_EQ(session.identity().incarnation(), 1u);
}

TEST_F(ChiefSessionTest, ACheckGivesNoIdentity) {
  ChiefSession session(chief_.client(), &clock_, Options(), &observer_);
  EXPECT_TRUE(session.Check(v1::ModelDeclaration()).ok());
  EXPECT_EQ(session.identity().run_id(), "");
  EXPECT_EQ(session.identity().incarnation(), 0u);
  chief_.SetFailure(absl::FailedPreconditionError("variable 3 differs"));
  EXPECT_TRUE(absl::IsFailedPrecondition(session.Check(v1::ModelDeclaration())));
}

TEST_F(ChiefSessionTest, APlaceThatSeemsTakenIsAskedForAgain) {
  chief_.SetFailure(absl::AlreadyExistsError("worker/3 is already running"));
  ChiefSession session(chief_.client(), &clock_, Options(), &observer_);
  std::thread registers([&] { EXPECT_TRUE(session.Register(nullptr).ok()); });
  chief_.WaitUntil([&] { return chief_.calls >= 2; });
  chief_.SetFailure(absl::OkStatus());
  registers.join();
  EXPECT_EQ(session.identity().incarnation(), 1u);
}

TEST_F(ChiefSessionTest, APlaceThatStaysTakenEndsRegistration) {
  chief_.SetFailure(absl::AlreadyExistsError("worker/3 is already running"));
  ChiefSession::Options options = Options();
  options.lease = absl::Milliseconds(10);
  options.duplicate_patience = absl::Milliseconds(10);
  ChiefSession session(chief_.client(), &clock_, options, &observer_);
  EXPECT_EQ(session.Register(nullptr).code(), absl::StatusCode::kAlreadyExists);
}

// A chief that was paused, and has not noticed yet that the lease of the place's holder has ended.
class WakingChief : public FakeChief {
 public:
  explicit WakingChief(FakeClock* clock) : clock_(clock) {}
  absl::Status RegisterTask(const v1::RegisterTaskRequest& request,
                            v1::RegisterTaskResponse* response) override {
    const int call = register_calls_++;
    if (call == 0) {
      clock_->Advance(absl::Seconds(2000));
      return absl::DeadlineExceededError("no answer in time");
    }
    if (call < 3) return absl::AlreadyExistsError("worker/3 is already running");
    return FakeChief::RegisterTask(request, response);
  }

 private:
  FakeClock* const clock_;
  std::atomic<int> register_calls_{0};
};

TEST_F(ChiefSessionTest, APlaceIsAskedForAgainForALeaseAfterTheChiefsFirstAnswer) {
  FakeClock clock;
  WakingChief chief(&clock);
  ChiefSession::Options options = Options();
  options.lease = absl::Seconds(1000);
  options.register_patience = absl::Seconds(5000);
  ChiefSession session(chief.client(), &clock, options, &observer_);
  std::atomic<bool> done{false};
  std::thread time([&] {
    for (int i = 0; i < 8000 && !done; ++i) {  // Less than a lease.
      clock.Advance(absl::Milliseconds(100));
      absl::SleepFor(absl::Milliseconds(1));
    }
  });
  EXPECT_TRUE(session.Register(nullptr).ok());
  done = true;
  time.join();
}

TEST_F(ChiefSessionTest, ACertificateThatIsNotTrustedEndsRegistrationAfterAWhile) {
  const absl::Status refused = absl::UnavailableError("Tls handshake: certificate verify failed");
  chief_.SetFailure(refused);
  ChiefSession::Options options = Options();
  options.secure = true;
  options.refused_patience = absl::Milliseconds(150);
  ChiefSession session(chief_.client(), &clock_, options, &observer_);
  const absl::Status status = session.Register(nullptr);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(std::string(status.message()).find("--tls_ca"), std::string::npos) << status;
  EXPECT_GE(chief_.calls, 2);  // It may have been about to be renewed.
  // A task that has no certificates knows nothing about the refusal.
  options.secure = false;
  options.register_patience = absl::Milliseconds(300);
  ChiefSession plain(chief_.client(), &clock_, options, &observer_);
  EXPECT_EQ(plain.Register(nullptr), refused);
  // The message names where it looked for the chief, and what it found.
  options.chief_address = "c:1";
  chief_.SetFailure(
      absl::UnavailableError("failed to connect to all addresses; last error: "
                             "UNKNOWN: ipv4:1.2.3.4:1: Connection refused"));
  ChiefSession nobody(chief_.client(), &clock_, options, &observer_);
  EXPECT_EQ(nobody.Register(nullptr),
            absl::UnavailableError("--chief_host: c:1 did not answer for 300ms (connection "
                                   "refused); correct the address, or start the chief"));
  chief_.SetFailure(absl::UnavailableError("failed to connect: Failed parsing HTTP/2"));
  ChiefSession stranger(chief_.client(), &clock_, options, &observer_);
  EXPECT_EQ(stranger.Register(nullptr).message(),
            "--chief_host: no connection to the chief at c:1: the server at this address is not a "
            "Shoal task; "
            "correct the address (it does not speak HTTP/2)");
}

TEST_F(ChiefSessionTest, AConnectionThatIsClosedMayStillComeAbout) {
  chief_.SetFailure(absl::UnavailableError("failed to connect: Socket closed"));
  ChiefSession::Options options = Options();
  options.secure = true;
  options.refused_patience = absl::ZeroDuration();
  ChiefSession session(chief_.client(), &clock_, options, &observer_);
  std::thread registers([&] { EXPECT_TRUE(session.Register(nullptr).ok()); });
  chief_.WaitUntil([&] { return chief_.calls >= 2; });
  chief_.SetFailure(absl::OkStatus());
  registers.join();
}

// A chief with a list of answers to registrations; after these it accepts them.
class ScriptedChief : public FakeChief {
 public:
  explicit ScriptedChief(std::vector<absl::Status> answers) : answers_(std::move(answers)) {}
  absl::Status RegisterTask(const v1::RegisterTaskRequest& request,
                            v1::RegisterTaskResponse* response) override {
    if (next_ < answers_.size()) return answers_[next_++];
    return FakeChief::RegisterTask(request, response);
  }

 private:
  const std::vector<absl::Status> answers_;
  size_t next_ = 0;
};

TEST_F(ChiefSessionTest, PatienceWithARefusalDoesNotBeginBeforeItIsCertain) {
  ScriptedChief chief({absl::UnavailableError("failed to connect: Socket closed"),
                       absl::UnavailableError("Tls handshake: certificate verify failed")});
  ChiefSession::Options options = Options();
  options.secure = true;
  options.refused_patience = absl::Nanoseconds(1);
  ChiefSession session(chief.client(), &clock_, options, &observer_);
  EXPECT_EQ(session.Register(nullptr), absl::OkStatus());
}

TEST_F(ChiefSessionTest, ARunThatIsKnownToBeOverEndsRegistration) {
  chief_.SetFailure(absl::UnavailableError("nobody there"));
  ChiefSession::Options options = Options();
  int asked = 0;
  options.is_over = [&asked] { return ++asked == 2; };
  ChiefSession session(chief_.client(), &clock_, options, &observer_);
  EXPECT_EQ(session.Register(nullptr), absl::OutOfRangeError("the run is over"));
  EXPECT_EQ(chief_.calls, 2);
}

TEST_F(ChiefSessionTest, AModelThatDoesNotFitEndsRegistration) {
  chief_.SetFailure(absl::FailedPreconditionError("variable 3 differs"));
  ChiefSession session(chief_.client(), &clock_, Options(), &observer_);
  EXPECT_EQ(session.Register(nullptr).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(chief_.calls, 1);
}

TEST_F(ChiefSessionTest, AModelThatFitsNoMessageIsRefusedWithTheRemedy) {
  v1::ModelDeclaration model;
  model.add_variables()->set_name("v");
  model.add_variables()->set_name(std::string(1 << 20, 'x'));
  ChiefSession::Options options = Options();
  options.chief_address = "c:1";
  ChiefSession session(chief_.client(), &clock_, options, &observer_);
  const absl::Status status = session.Register(&model);
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_NE(status.message().find("2 variables"), absl::string_view::npos) << status;
  EXPECT_NE(status.message().find("use fewer variables or shorter names"), absl::string_view::npos);
  EXPECT_EQ(chief_.calls, 0);
  // A chief in this process gets no message.
  ChiefSession here(chief_.client(), &clock_, Options(), &observer_);
  EXPECT_EQ(here.Register(&model), absl::OkStatus());
}

TEST_F(ChiefSessionTest, StatesArriveOnceAndInOrder) {
  ChiefSession session(chief_.client(), &clock_, Options(), &observer_);
  ASSERT_TRUE(session.Register(nullptr).ok());
  session.Start();
  for (uint64_t number : {1, 2, 5}) {
    chief_.SetState(State(number));
    const size_t count = number == 5 ? 3 : number;
    EXPECT_EQ(observer_.WaitForStates(count).back(), number);
  }
  EXPECT_EQ(session.identity().view(), 50u);
  EXPECT_EQ(session.identity().lineage(), 500u);
  session.Stop();
}

TEST_F(ChiefSessionTest, AStateSurvivesAShortFailure) {
  ChiefSession session(chief_.client(), &clock_, Options(), &observer_);
  ASSERT_TRUE(session.Register(nullptr).ok());
  session.Start();
  chief_.SetFailure(absl::UnavailableError("restarting"));
  const int before = chief_.NumCalls();
  chief_.WaitUntil([&] { return chief_.calls >= before + 2; });
  chief_.SetState(State(1));
  chief_.SetFailure(absl::OkStatus());
  EXPECT_EQ(observer_.WaitForStates(1), std::vector<uint64_t>{1});
}

TEST_F(ChiefSessionTest, HeartbeatsCarryTheTasksActivity) {
  ChiefSession session(chief_.client(), &clock_, Options(), &observer_);
  ASSERT_TRUE(session.Register(nullptr).ok());
  session.SetActivity({42, "waits for ps/1", BatchKey{2, 7}, true, 5, {1, 3}, false});
  session.Start();
  chief_.WaitUntil([&] { return chief_.last_heartbeat.step() == 42; });
  session.Stop(ChiefSession::Departure::kAskedToLeave);
  EXPECT_TRUE(chief_.last_heartbeat.leaving());
  EXPECT_TRUE(chief_.last_heartbeat.asked_to_leave());
  EXPECT_EQ(chief_.last_heartbeat.activity(), "waits for ps/1");
  EXPECT_TRUE(chief_.last_heartbeat.has_batch());
  EXPECT_EQ(chief_.last_heartbeat.batch().index(), 7u);
  EXPECT_TRUE(chief_.last_heartbeat.computing());
  EXPECT_EQ(chief_.last_heartbeat.computed(), 5u);
  EXPECT_EQ(chief_.last_heartbeat.silent_ps_size(), 2);
  EXPECT_FALSE(chief_.last_heartbeat.reaches_all_ps());
}

TEST_F(ChiefSessionTest, AfterTheEndHeartbeatsAreFew) {
  ChiefSession::Options options = Options();
  options.heartbeat_wait = absl::ZeroDuration();  // the chief answers at once
  ChiefSession session(chief_.client(), &clock_, options, &observer_);
  ASSERT_TRUE(session.Register(nullptr).ok());
  v1::RunState over = State(1);
  over.set_phase(v1::RunState::PHASE_DONE);
  chief_.SetState(over);
  session.Start();
  observer_.WaitForStates(1);
  Notification().WaitFor(absl::Milliseconds(500));
  session.Stop();
  EXPECT_LE(chief_.NumCalls(), 10);
}

TEST_F(ChiefSessionTest, AFencedTaskIsNotified) {
  ChiefSession session(chief_.client(), &clock_, Options(), &observer_);
  ASSERT_TRUE(session.Register(nullptr).ok());
  session.Start();
  chief_.SetFailure(absl::AbortedError("fenced incarnation"));
  observer_.fenced.Wait();
  EXPECT_TRUE(absl::IsAborted(observer_.status));
}

TEST_F(ChiefSessionTest, AStateThatDoesNotFitEndsTheTaskAtOnceWithTheReason) {
  ChiefSession session(chief_.client(), &clock_, Options(), &observer_);
  ASSERT_TRUE(session.Register(nullptr).ok());
  // gRPC's words.
  chief_.SetFailure(
      absl::ResourceExhaustedError("Received message larger than max (1048577 vs. 1048576)"));
  session.Start();
  ASSERT_TRUE(observer_.fenced.WaitFor(absl::Seconds(20)));
  EXPECT_TRUE(absl::IsFailedPrecondition(observer_.status));
  EXPECT_NE(observer_.status.message().find("larger than max"), std::string::npos);
}

TEST_F(ChiefSessionTest, AChiefShortOfMemoryIsAskedAgain) {
  ChiefSession session(chief_.client(), &clock_, Options(), &observer_);
  ASSERT_TRUE(session.Register(nullptr).ok());
  chief_.SetFailure(absl::ResourceExhaustedError("out of memory"));
  session.Start();
  const int before = chief_.NumCalls();
  chief_.WaitUntil([&] { return chief_.calls >= before + 2; });
  chief_.SetState(State(1));
  chief_.SetFailure(absl::OkStatus());
  EXPECT_EQ(observer_.WaitForStates(1), std::vector<uint64_t>{1});
}

TEST_F(ChiefSessionTest, ALostChiefIsReportedAndTheLeaseEndsBefore) {
  FakeClock clock;
  ChiefSession::Options options = Options();
  options.chief_address = "a:1";
  ChiefSession session(chief_.client(), &clock, options, &observer_);
  ASSERT_TRUE(session.Register(nullptr).ok());
  EXPECT_TRUE(session.is_lease_valid());
  chief_.SetFailure(absl::UnavailableError("gone"));
  session.Start();
  clock.Advance(absl::Seconds(9));
  EXPECT_FALSE(session.is_lease_valid());
  EXPECT_FALSE(observer_.lost.HasBeenNotified());
  // Again and again: a beat that failed just before may only now begin its pause.
  do clock.Advance(absl::Seconds(1));
  while (!observer_.lost.WaitFor(absl::Milliseconds(20)));
  EXPECT_TRUE(absl::IsUnavailable(observer_.status));
  EXPECT_EQ(observer_.status.message(),
            "the chief at a:1 is lost: it did not answer for 30s (gone); restart it, then this "
            "task: the run resumes from its newest checkpoint");
}

TEST_F(ChiefSessionTest, TheLeaseIsTheChiefsAndATaskStopsBeforeItEnds) {
  for (const int seconds : {5, 60}) {
    FakeClock clock;
    ChiefSession::Options options = Options();
    options.lease = absl::Seconds(seconds);
    ChiefSession session(chief_.client(), &clock, options, &observer_);
    ASSERT_TRUE(session.Register(nullptr).ok());
    clock.Advance(0.79 * absl::Seconds(seconds));
    EXPECT_TRUE(session.is_lease_valid()) << seconds;
    clock.Advance(0.02 * absl::Seconds(seconds));
    EXPECT_FALSE(session.is_lease_valid()) << seconds;
  }
}

TEST_F(ChiefSessionTest, AChiefIsNotLostBeforeTheLeaseEnds) {
  FakeClock clock;
  ChiefSession::Options options = Options();
  options.lease = absl::Seconds(60);
  ChiefSession session(chief_.client(), &clock, options, &observer_);
  ASSERT_TRUE(session.Register(nullptr).ok());
  chief_.SetFailure(absl::UnavailableError("gone"));
  const int calls = chief_.NumCalls();
  clock.Advance(absl::Seconds(50));
  session.Start();
  chief_.WaitUntil([&] { return chief_.calls > calls; });
  EXPECT_FALSE(observer_.lost.HasBeenNotified());
  do clock.Advance(absl::Seconds(1));
  while (!observer_.lost.WaitFor(absl::Milliseconds(20)));
}

// For example, its machine was suspended for an hour.
TEST_F(ChiefSessionTest, APauseOfTheTaskItselfIsNotSilenceOfTheChief) {
  FakeClock clock;
  ChiefSession session(chief_.client(), &clock, Options(), &observer_);
  ASSERT_TRUE(session.Register(nullptr).ok());
  chief_.SetFailure(absl::UnavailableError("the connection was lost meanwhile"));
  const int before = chief_.NumCalls();
  session.Start();
  chief_.WaitUntil([&] { return chief_.calls > before; });
  clock.Advance(absl::Hours(1));
  EXPECT_FALSE(session.is_lease_valid());
  const int resumed = chief_.NumCalls();
  for (int calls = resumed; calls < resumed + 3;) {
    clock.Advance(absl::Seconds(1));
    Notification().WaitFor(absl::Milliseconds(20));
    calls = chief_.NumCalls();
    ASSERT_FALSE(observer_.lost.HasBeenNotified());
  }
  chief_.SetFailure(absl::OkStatus());
  chief_.SetState(State(1));
  while (!session.is_lease_valid()) {
    clock.Advance(absl::Seconds(1));
    Notification().WaitFor(absl::Milliseconds(20));
  }
}

}  // namespace
}  // namespace shoal

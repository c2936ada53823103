// Tests the threads of a chief: which of them waits for which event.
#include "chief/chief.h"

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/clock.h"
#include "base/fake_clock.h"
#include "base/mutex.h"
#include "base/notification.h"
#include "chief/session/session_options_testing.h"
#include "proto/v1/parameter_service.pb.h"
#include "runtime/config/run_config.h"
#include "runtime/process/protocol_version.h"
#include "runtime/rpc/control_timeout.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A recorder that publishes when the test allows it, and reports the records that it received.
class FakeRecorder : public SessionRecorder {
 public:
  void Record(const StepLine& /*line*/) override {}
  absl::Status Record(const RolledBack& rolled_back) override {
    Called("lines above ", rolled_back.version);
    if (rolled_back.version == 0) lines_are_void.Notify();
    return absl::OkStatus();
  }
  void Record(const TrainingStarts& /*starts*/) override { training.Notify(); }
  void WriteWaitingLines() override { lines_are_written_ = true; }
  absl::Status Publish(const ManifestToWrite& /*manifest*/) override {
    EXPECT_TRUE(lines_are_written_.exchange(false)) << "before each checkpoint";
    publishing.Notify();
    may_publish.Wait();
    return result;
  }
  absl::Status Export(const ModelExport& /*wanted*/) override { return absl::OkStatus(); }
  void OnCheckpointAccepted() override {}
  absl::Status OnCheckpointFailed(const CutGivenUp& cut) override {
    given_up = cut;
    failed.Notify();
    return absl::OkStatus();
  }
  absl::Status DiscardAbove(uint64_t step) override {
    Called("checkpoints above ", step);
    return absl::OkStatus();
  }
  absl::Status CheckTerm() override {
    const absl::Status status = term;
    asked_for_term.Notify();
    return status;
  }

  std::vector<std::string> removed() {
    MutexLock lock(&mutex_);
    return removed_;
  }

  Notification training, publishing, may_publish, failed, asked_for_term, lines_are_void;
  absl::Status term;
  CutGivenUp given_up;
  absl::Status result;

 private:
  void Called(const char* what, uint64_t version) {
    MutexLock lock(&mutex_);
    removed_.push_back(absl::StrCat(what, version));
  }

  std::atomic<bool> lines_are_written_{false};
  Mutex mutex_;
  std::vector<std::string> removed_ ABSL_GUARDED_BY(mutex_);
};

// A ps that carries out its commands.
class WillingPs : public ControlChannel {
 public:
  absl::Status Make(const ControlCall& /*call*/) override { return absl::OkStatus(); }
};

template <typename Ps, typename... Arguments>
std::unique_ptr<ParameterClient> ClientOf(Arguments... arguments) {
  return std::make_unique<ParameterClient>(std::make_unique<Ps>(arguments...));
}

// A ps whose disk hangs.
class LoadingPs : public WillingPs {
 public:
  LoadingPs(Notification* loading, std::atomic<bool>* closed)
      : loading_(loading), was_closed_(closed) {}
  absl::Status Make(const ControlCall& call) override {
    if (call.method() != "LoadSlices") return absl::OkStatus();
    loading_->Notify();
    *was_closed_ = closed_.WaitFor(absl::Seconds(20));
    return absl::CancelledError("closed");
  }
  void Close() override { closed_.Notify(); }

 private:
  Notification* const loading_;
  std::atomic<bool>* const was_closed_;
  Notification closed_;
};

// A ps that registered when the run was over, and receives the end late.
class SlowToEndAgainPs : public WillingPs {
 public:
  SlowToEndAgainPs(std::atomic<int>* finishes, Notification* may_finish)
      : finishes_(finishes), may_finish_(may_finish) {}
  absl::Status Make(const ControlCall& call) override {
    if (call.method() == "Finish" && ++*finishes_ > 1) may_finish_->Wait();
    return absl::OkStatus();
  }

 private:
  std::atomic<int>* const finishes_;
  Notification* const may_finish_;
};

class ChiefTest : public ::testing::Test {
 protected:
  void Start(absl::Duration lease) {
    Chief::Options options;
    options.session = TestSessionOptions();
    options.session.run_id = "run";
    options.session.lease = lease;
    options.session.run.set_batch_size(10);
    options.session.run.set_max_steps(1);
    ResolveDefaults(TaskCounts(), &options.session.run);
    options.clock = time_;
    options.recorder = &recorder_;
    options.connect = connect_;
    chief_ = std::make_unique<Chief>(std::move(options));
  }

  ~ChiefTest() override { recorder_.may_publish.Notify(); }

  absl::Status Register(
      v1::Job job, const std::string& nonce,
      const std::function<bool()>& is_gone = [] { return false; }) {
    v1::RegisterTaskRequest request;
    request.mutable_identity()->mutable_member()->set_job(job);
    request.set_nonce(nonce);
    request.set_protocol(kProtocolVersion);
    if (job == v1::JOB_WORKER) {
      v1::VariableSpec* variable = request.mutable_model()->add_variables();
      variable->set_name("v");
      variable->add_shape(4);
      variable->set_dtype(v1::DATA_TYPE_FLOAT32);
      variable->set_update(v1::UPDATE_KIND_OPTIMIZER);
      request.mutable_model()->set_train_examples(80);
    }
    v1::RegisterTaskResponse response;
    const absl::Status status = chief_->RegisterFor(is_gone, request, &response);
    if (!status.ok()) return status;
    v1::Identity& identity = job == v1::JOB_PS ? ps_ : worker_;
    identity.set_run_id(response.run_id());
    identity.set_term(response.term());
    identity.set_incarnation(response.incarnation());
    identity.set_lineage(1);
    identity.mutable_member()->set_job(job);
    return absl::OkStatus();
  }

  absl::Status BeatWithTerm(uint64_t term) {
    v1::HeartbeatRequest request;
    *request.mutable_identity() = worker_;
    request.mutable_identity()->set_term(term);
    v1::HeartbeatResponse response;
    return chief_->Heartbeat(request, &response);
  }

  // The run's only step is through, and its checkpoint is being published.
  void TrainUntilPublishing() {
    ASSERT_TRUE(Register(v1::JOB_PS, "ps").ok());
    ASSERT_TRUE(Register(v1::JOB_WORKER, "worker").ok());
    recorder_.training.Wait();
    v1::ReportStepsRequest steps;
    *steps.mutable_identity() = ps_;
    steps.add_steps()->set_step(1);
    v1::ReportStepsResponse steps_response;
    ASSERT_TRUE(chief_->ReportSteps(steps, &steps_response).ok());
    v1::ReportShardRequest shard;
    *shard.mutable_identity() = ps_;
    shard.set_version(1);
    shard.set_directory("ckpt-1");
    shard.mutable_file()->set_name("shard");
    v1::ReportShardResponse shard_response;
    ASSERT_TRUE(chief_->ReportShard(shard, &shard_response).ok());
    recorder_.publishing.Wait();
  }

  size_t LiveTasks() {
    v1::GetRunStatusResponse status;
    EXPECT_TRUE(chief_->GetRunStatus({}, &status).ok());
    return static_cast<size_t>(status.tasks_size());
  }

  const RealClock clock_;
  const Clock* time_ = &clock_;
  FakeRecorder recorder_;
  v1::Identity ps_, worker_;
  std::function<std::unique_ptr<ParameterClient>(uint32_t, const std::string&)> connect_ =
      [](uint32_t, const std::string&) { return ClientOf<WillingPs>(); };
  std::unique_ptr<Chief> chief_;
};

TEST_F(ChiefTest, ContinuesWhileACheckpointIsPublished) {
  Start(absl::Milliseconds(300));
  TrainUntilPublishing();
  // Only the driver ends leases.
  const absl::Time give_up = absl::Now() + absl::Seconds(20);
  while (LiveTasks() > 0 && absl::Now() < give_up) Notification().WaitFor(absl::Milliseconds(5));
  EXPECT_EQ(LiveTasks(), 0u);
  recorder_.may_publish.Notify();
  EXPECT_TRUE(chief_->Wait().ok());
  EXPECT_EQ(chief_->outcome().checkpoint, "ckpt-1");
}

// The chief may die in between, and must not leave a checkpoint that has lost its lines.
TEST_F(ChiefTest, ARollbackRemovesVoidCheckpointsBeforeTheirLines) {
  Start(absl::Minutes(10));
  TrainUntilPublishing();
  v1::HeartbeatRequest leaving;
  *leaving.mutable_identity() = ps_;
  leaving.set_leaving(true);
  v1::HeartbeatResponse response;
  ASSERT_TRUE(chief_->Heartbeat(leaving, &response).ok());
  ASSERT_TRUE(Register(v1::JOB_PS, "the next one, without state").ok());
  recorder_.may_publish.Notify();
  recorder_.lines_are_void.Wait();
  EXPECT_THAT(recorder_.removed(), ElementsAre("checkpoints above 0", "lines above 0"));
}

TEST_F(ChiefTest, DoesNotWaitAtItsEndForAPsThatLoads) {
  Notification loading;
  std::atomic<bool> closed{false};
  connect_ = [&](uint32_t, const std::string&) { return ClientOf<LoadingPs>(&loading, &closed); };
  Start(absl::Seconds(10));
  ASSERT_TRUE(Register(v1::JOB_PS, "ps").ok());
  ASSERT_TRUE(Register(v1::JOB_WORKER, "worker").ok());
  loading.Wait();
  chief_.reset();
  EXPECT_TRUE(closed);
}

// Otherwise the call to the lost process would last until its deadline, and its successor would
// wait for that.
TEST_F(ChiefTest, ACallToALostPsDoesNotHoldUpItsSuccessor) {
  Notification loading;
  std::atomic<bool> closed{false};
  std::atomic<int> connections{0};
  connect_ = [&](uint32_t, const std::string&) -> std::unique_ptr<ParameterClient> {
    if (++connections > 1) return ClientOf<WillingPs>();
    return ClientOf<LoadingPs>(&loading, &closed);
  };
  Start(absl::Seconds(10));
  ASSERT_TRUE(Register(v1::JOB_PS, "ps").ok());
  ASSERT_TRUE(Register(v1::JOB_WORKER, "worker").ok());
  loading.Wait();
  v1::HeartbeatRequest leaving;
  *leaving.mutable_identity() = ps_;
  leaving.set_leaving(true);
  v1::HeartbeatResponse response;
  ASSERT_TRUE(chief_->Heartbeat(leaving, &response).ok());
  ASSERT_TRUE(Register(v1::JOB_PS, "again").ok());
  recorder_.training.Wait();
  EXPECT_TRUE(closed);
}

TEST_F(ChiefTest, ContinuesWhileItConnectsToAPs) {
  FakeClock clock;
  time_ = &clock;
  Notification connecting, fenced, may_connect;
  std::atomic<bool> ended_meanwhile{false};
  connect_ = [&](uint32_t, const std::string&) {
    connecting.Notify();
    fenced.Wait();
    // The chief waits for a ps that has not received the end, but not for long.
    for (int i = 0; i < 10000 && !ended_meanwhile; ++i) {
      clock.Advance(absl::Milliseconds(20));
      ended_meanwhile = may_connect.WaitFor(absl::Milliseconds(1));
    }
    return ClientOf<WillingPs>();
  };
  Start(absl::Minutes(10));
  ASSERT_TRUE(Register(v1::JOB_PS, "ps").ok());
  ASSERT_TRUE(Register(v1::JOB_WORKER, "worker").ok());
  connecting.Wait();
  recorder_.term = absl::AbortedError("a newer chief, of term 2, has taken /out over");
  EXPECT_TRUE(absl::IsUnavailable(BeatWithTerm(2)));
  fenced.Notify();
  EXPECT_FALSE(chief_->Wait().ok());
  may_connect.Notify();
  chief_.reset();
  EXPECT_TRUE(ended_meanwhile);
}

TEST_F(ChiefTest, AWorkerThatComesAfterTheEndReceivesIt) {
  Start(absl::Milliseconds(300));
  recorder_.may_publish.Notify();
  TrainUntilPublishing();
  EXPECT_TRUE(chief_->Wait().ok());
  EXPECT_FALSE(chief_->all_notified());
  ASSERT_TRUE(Register(v1::JOB_WORKER, "late").ok());
  EXPECT_FALSE(chief_->all_notified());
  v1::HeartbeatRequest request;
  *request.mutable_identity() = worker_;
  v1::HeartbeatResponse response;
  ASSERT_TRUE(chief_->Heartbeat(request, &response).ok());
  EXPECT_EQ(response.state().phase(), v1::RunState::PHASE_DONE);
  EXPECT_TRUE(chief_->all_notified());
}

TEST_F(ChiefTest, APsThatComesAfterTheEndReceivesIt) {
  std::atomic<int> finishes{0};
  Notification may_finish;
  connect_ = [&](uint32_t, const std::string&) {
    return ClientOf<SlowToEndAgainPs>(&finishes, &may_finish);
  };
  Start(absl::Seconds(10));
  recorder_.may_publish.Notify();
  TrainUntilPublishing();
  EXPECT_TRUE(chief_->Wait().ok());
  v1::HeartbeatRequest request;
  *request.mutable_identity() = worker_;
  v1::HeartbeatResponse response;
  ASSERT_TRUE(chief_->Heartbeat(request, &response).ok());
  EXPECT_TRUE(chief_->all_notified());
  *request.mutable_identity() = ps_;
  request.set_leaving(true);
  ASSERT_TRUE(chief_->Heartbeat(request, &response).ok());
  ASSERT_TRUE(Register(v1::JOB_PS, "late").ok());
  EXPECT_FALSE(chief_->all_notified());
  may_finish.Notify();
  const absl::Time give_up = absl::Now() + absl::Seconds(20);
  while (!chief_->all_notified() && absl::Now() < give_up) {
    Notification().WaitFor(absl::Milliseconds(5));
  }
  EXPECT_TRUE(chief_->all_notified());
}

TEST_F(ChiefTest, AWorkerThatComesBackAfterTheEndReceivesItAgain) {
  Start(absl::Milliseconds(300));
  recorder_.may_publish.Notify();
  TrainUntilPublishing();
  EXPECT_TRUE(chief_->Wait().ok());
  v1::HeartbeatRequest request;
  *request.mutable_identity() = worker_;
  request.set_leaving(true);
  v1::HeartbeatResponse response;
  ASSERT_TRUE(chief_->Heartbeat(request, &response).ok());
  EXPECT_TRUE(chief_->all_notified());
  ASSERT_TRUE(Register(v1::JOB_WORKER, "again").ok());
  EXPECT_FALSE(chief_->all_notified());
}

// Otherwise a task would wait for a chief that has ended.
TEST_F(ChiefTest, AChiefThatEndsRegistersNoTask) {
  Start(absl::Minutes(10));
  recorder_.may_publish.Notify();
  TrainUntilPublishing();
  EXPECT_TRUE(chief_->Wait().ok());
  EXPECT_FALSE(chief_->CloseRegistration(/*if_all_notified=*/true));
  v1::HeartbeatRequest request;
  *request.mutable_identity() = worker_;
  v1::HeartbeatResponse response;
  ASSERT_TRUE(chief_->Heartbeat(request, &response).ok());
  // One that waits for a place that is taken, and one that comes later.
  Notification waits;
  absl::Status waiting;
  std::thread other([&] {
    waiting = Register(v1::JOB_PS, "waiting", [&] {
      waits.Notify();
      return false;
    });
  });
  waits.Wait();
  EXPECT_TRUE(chief_->CloseRegistration(/*if_all_notified=*/true));
  other.join();
  EXPECT_TRUE(absl::IsUnavailable(waiting)) << waiting;
  EXPECT_TRUE(absl::IsUnavailable(Register(v1::JOB_WORKER, "late")));
}

TEST_F(ChiefTest, ANewerChiefInTheDirectoryEndsThisOne) {
  Start(absl::Seconds(10));
  recorder_.result = absl::AbortedError("a newer chief, of term 7, has taken /out over");
  recorder_.may_publish.Notify();
  TrainUntilPublishing();
  const absl::Status status = chief_->Wait();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("of term 7, has taken /out over; this one, of term 1, ends"));
}

TEST_F(ChiefTest, AMadeUpTermEndsNothingSinceTheDirectoryKnowsNoNewerChief) {
  Start(absl::Seconds(10));
  recorder_.may_publish.Notify();
  ASSERT_TRUE(Register(v1::JOB_PS, "ps").ok());
  ASSERT_TRUE(Register(v1::JOB_WORKER, "worker").ok());
  EXPECT_TRUE(absl::IsUnavailable(BeatWithTerm(uint64_t{1} << 40)));
  recorder_.asked_for_term.Wait();
  TrainUntilPublishing();
  EXPECT_EQ(chief_->Wait(), absl::OkStatus());
}

TEST_F(ChiefTest, ATaskThatWantsATakenPlaceWaitsForTheEndOfTheLease) {
  constexpr absl::Duration kLease = absl::Seconds(3);
  Start(kLease);
  const absl::Time start = absl::Now();
  ASSERT_TRUE(Register(v1::JOB_PS, "first").ok());
  // On a busy machine the chief may notice that it stood still, and makes it wait longer.
  absl::Status second;
  do {
    second = Register(v1::JOB_PS, "second");
  } while (absl::IsUnavailable(second));
  EXPECT_TRUE(second.ok()) << second;
  EXPECT_GE(absl::Now() - start, kLease);
}

TEST_F(ChiefTest, ATaskThatDiedWhileItWaitedForAPlaceDoesNotTakeIt) {
  Start(absl::Milliseconds(300));
  ASSERT_TRUE(Register(v1::JOB_PS, "first").ok());
  bool is_dead = false;
  const auto dies = [&is_dead] { return std::exchange(is_dead, true); };
  EXPECT_TRUE(absl::IsCancelled(Register(v1::JOB_PS, "second", dies)));
  const absl::Time give_up = absl::Now() + absl::Seconds(20);
  while (LiveTasks() > 0 && absl::Now() < give_up) Notification().WaitFor(absl::Milliseconds(5));
  EXPECT_EQ(LiveTasks(), 0u);
}

TEST_F(ChiefTest, ARegistrationIsAnsweredBeforeItsCallerGivesUp) {
  FakeClock clock;
  time_ = &clock;
  Start(absl::Minutes(10));
  ASSERT_TRUE(Register(v1::JOB_PS, "first").ok());
  const absl::Time start = clock.Now();
  const auto waits = [&clock] {  // Asked whenever the chief looks at the place again.
    clock.Advance(absl::Milliseconds(100));
    return false;
  };
  EXPECT_TRUE(absl::IsUnavailable(Register(v1::JOB_PS, "second", waits))) << "the first is silent";
  EXPECT_LT(clock.Now() - start, kControlTimeout);
}

TEST_F(ChiefTest, AWorkerWhoseDeathItsLauncherReportsLosesItsPlaceAtOnce) {
  Start(absl::Minutes(10));
  ASSERT_TRUE(Register(v1::JOB_PS, "ps").ok());
  ASSERT_TRUE(Register(v1::JOB_WORKER, "first").ok());
  v1::ReportBadBatchRequest report;
  report.mutable_died()->set_job(v1::JOB_WORKER);
  report.mutable_identity()->set_incarnation(worker_.incarnation());
  report.set_reason(v1::ReportBadBatchRequest::REASON_CRASH);
  v1::ReportBadBatchResponse response;
  ASSERT_TRUE(chief_->ReportBadBatch(report, &response).ok());
  EXPECT_TRUE(Register(v1::JOB_WORKER, "second").ok());
}

}  // namespace
}  // namespace shoal

// Chief, ps and worker call each other over gRPC, and something between them answers in place of
// the chief or the ps, like a proxy, a quota or gRPC itself may do. No such answer may do any harm
// to a run.
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "base/clock.h"
#include "base/file_system.h"
#include "base/mutex.h"
#include "chief/chief_task.h"
#include "proto/v1/chief_service.grpc.pb.h"
#include "proto/v1/parameter_service.grpc.pb.h"
#include "ps/ps_task.h"
#include "runtime/config/run_config.h"
#include "runtime/config/validate.h"
#include "runtime/observability/metrics_file.h"
#include "runtime/process/shutdown.h"
#include "runtime/rpc/channel.h"
#include "runtime/rpc/chief_client.h"
#include "runtime/rpc/grpc_chief_service.h"
#include "runtime/rpc/grpc_control_channel.h"
#include "runtime/rpc/in_process_control_channel.h"
#include "runtime/rpc/parameter_client.h"
#include "runtime/task/task_options.h"
#include "runtime/transport/call_status.h"
#include "tests/cluster/trained_run.h"
#include "worker/worker_task.h"

namespace shoal {
namespace {

constexpr char kRun[] = R"pb(
  name: "wrong_answers"
  model { layer { dense { units: 5 } } }
  data {
    format: FORMAT_SYNTHETIC_CLASSIFICATION
    features: 12
    classes: 5
    train_examples: 230
    test_examples: 60
    evaluation_block: 25
  }
  optimizer {
    learning_rate: 0.01
    sgd {}
  }
  cluster { wait_seconds: 60 }
  checkpoint { save_every: 7 }
  batch_size: 16
  num_epochs: 4
  eval_every: 5
)pb";
constexpr uint64_t kSteps = 4 * 15;

// The calls that get a wrong answer: for each method their numbers, from 1.
class WrongAnswers {
 public:
  WrongAnswers(grpc::StatusCode code, std::map<std::string, std::set<int>> calls)
      : code_(code), calls_(std::move(calls)) {}

  template <typename Client, typename Service, typename Request, typename Response>
  grpc::Status Pass(const std::string& name, Client& target,
                    grpc::Status (Service::*method)(grpc::ServerContext*, const Request*,
                                                    Response*),
                    grpc::ServerContext* context, const Request* request, Response* response) {
    {
      MutexLock lock(&mutex_);
      const auto wrong = calls_.find(name);
      if (wrong != calls_.end() && wrong->second.count(++made_[name]) > 0) {
        ++given_[name];
        return grpc::Status(code_, "stream reset");
      }
    }
    return MarkAnswer(context, target.Call(method, *request, response));
  }

  // The number of calls of each method that had a wrong answer.
  std::map<std::string, int> given() const {
    MutexLock lock(&mutex_);
    return given_;
  }

 private:
  const grpc::StatusCode code_;
  const std::map<std::string, std::set<int>> calls_;
  mutable Mutex mutex_;
  std::map<std::string, int> made_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, int> given_ ABSL_GUARDED_BY(mutex_);
};

std::unique_ptr<grpc::Server> Serve(grpc::Service* service, std::string* address) {
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(service);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  *address = absl::StrCat("127.0.0.1:", port);
  return server;
}

#define SHOAL_TEST_PASS(Method)                                                           \
  grpc::Status Method(grpc::ServerContext* context, const v1::Method##Request* request,   \
                      v1::Method##Response* response) override {                          \
    return wrong_->Pass(#Method, *target_, &Service::Method, context, request, response); \
  }

// Stands between the tasks and the chief.
class BeforeChief : public v1::ChiefService::Service {
 public:
  using Service = v1::ChiefService::Service;
  BeforeChief(ChiefClient* target, WrongAnswers* wrong) : target_(target), wrong_(wrong) {}
  SHOAL_TEST_PASS(RegisterTask)
  SHOAL_TEST_PASS(Heartbeat)
  SHOAL_TEST_PASS(ReportSteps)
  SHOAL_TEST_PASS(ReportShard)
  SHOAL_TEST_PASS(ReportEvaluation)
  SHOAL_TEST_PASS(LeaseBatches)
  SHOAL_TEST_PASS(ReportNorms)

 private:
  ChiefClient* const target_;
  WrongAnswers* const wrong_;
};

// Stands between the chief and a ps.
class BeforePs : public v1::ParameterService::Service {
 public:
  using Service = v1::ParameterService::Service;
  BeforePs(ParameterClient* target, WrongAnswers* wrong) : target_(target), wrong_(wrong) {}
  SHOAL_TEST_PASS(LoadSlices)
  SHOAL_TEST_PASS(WithholdBatch)
  SHOAL_TEST_PASS(DecideBatch)
  SHOAL_TEST_PASS(RequestCut)
  SHOAL_TEST_PASS(GetApplied)
  SHOAL_TEST_PASS(Finish)

 private:
  ParameterClient* const target_;
  WrongAnswers* const wrong_;
};

#undef SHOAL_TEST_PASS

// The chief's way to a ps, through a BeforePs.
class WayToPs : public ControlChannel {
 public:
  WayToPs(const std::string& address, WrongAnswers* wrong)
      : real_(Dial(address)), before_(&real_, wrong), server_(Serve(&before_, &own_address_)) {
    channel_ = Dial(own_address_);
  }
  ~WayToPs() override {
    Close();
    real_.Close();
    server_->Shutdown();
  }
  absl::Status Make(const ControlCall& call) override { return channel_->Make(call); }
  void Close() override { channel_->Close(); }

 private:
  static std::unique_ptr<ControlChannel> Dial(const std::string& address) {
    return NewGrpcControlChannel(
        NewGrpcChannel(address, ChannelUse::kControl, kMaxControlMessageBytes));
  }

  ParameterClient real_;
  BeforePs before_;
  std::string own_address_;
  const std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<ControlChannel> channel_;
};

class WrongAnswersTest : public ::testing::Test {
 protected:
  // Returns the results of chief, ps and worker.
  std::vector<absl::Status> Train(WrongAnswers* wrong, const std::string& extra = "") {
    v1::RunConfig run = *ParseRunConfig(kRun, "test");
    run.MergeFrom(*ParseRunConfig(extra, "extra"));
    run.set_out(absl::StrCat(::testing::TempDir(), "/",
                             ::testing::UnitTest::GetInstance()->current_test_info()->name()));
    EXPECT_TRUE(RemoveTree(*files_, run.out()).ok());
    EXPECT_TRUE(files_->MakeDirectory(run.out()).ok());
    run.mutable_deployment()->set_num_replicas(1);
    run.mutable_deployment()->set_num_ps_tasks(1);
    ResolveDefaults(TaskCounts(), &run);
    TaskOptions options;
    options.run = run;
    options.clock = &clock_;
    options.file_system = files_.get();
    options.shutdown = &shutdown_;
    run_ = run;

    auto chief = ChiefTask::Create(options, 1, [wrong](uint32_t, const std::string& address) {
      return std::make_unique<ParameterClient>(std::make_unique<WayToPs>(address, wrong));
    });
    if (!chief.ok()) return {chief.status()};
    GrpcChiefService<Chief> service((*chief)->chief());
    ChiefClient client(NewInProcessControlChannel(&service));
    BeforeChief before(&client, wrong);
    TaskOptions task = options;
    const std::unique_ptr<grpc::Server> server = Serve(&before, &task.chief_address);
    std::vector<absl::Status> ends(3);
    std::thread ps([&ends, ps_task = task]() mutable {
      ps_task.task = TaskId{Job::kPs, 0};
      ps_task.listen_address = "127.0.0.1:0";
      ends[1] = RunPs(ps_task);
    });
    std::thread worker([&ends, worker_task = task]() mutable {
      worker_task.task = TaskId{Job::kWorker, 0};
      ends[2] = RunWorker(worker_task);
    });
    ends[0] = (*chief)->WaitAndConclude();
    worker.join();
    ps.join();
    server->Shutdown();
    return ends;
  }

  void ExpectTrained(const std::vector<absl::Status>& ends) {
    for (const absl::Status& end : ends) EXPECT_EQ(end, absl::OkStatus());
    uint64_t lines = 0;
    for (const StepMetrics& step : RecordedSteps(files_.get(), run_)) {
      EXPECT_EQ(step.step, ++lines);
    }
    EXPECT_EQ(lines, kSteps);
    const absl::StatusOr<std::string> summary = ReadFile(*files_, run_.out() + "/summary.json");
    ASSERT_TRUE(summary.ok()) << summary.status();
    EXPECT_NE(summary->find(absl::StrCat("/checkpoints/ckpt-", kSteps, "-")), std::string::npos)
        << *summary;
  }

  const RealClock clock_;
  const std::unique_ptr<FileSystem> files_ = NewPosixFileSystem();
  ShutdownNotification shutdown_;
  v1::RunConfig run_;
};

TEST_F(WrongAnswersTest, AReportOfStepsThatFailsOnItsWayLosesNoStepAndNoCheckpoint) {
  WrongAnswers wrong(grpc::StatusCode::INTERNAL, {{"ReportSteps", {2, 3}}});
  ExpectTrained(Train(&wrong));
  EXPECT_EQ(wrong.given().count("ReportSteps"), 1u);
}

TEST_F(WrongAnswersTest, ALoadThatFailsInTransitIsRepeated) {
  WrongAnswers wrong(grpc::StatusCode::INTERNAL, {{"LoadSlices", {1, 2}}});
  ExpectTrained(Train(&wrong));
  EXPECT_EQ(wrong.given()["LoadSlices"], 2);
}

// The first calls of every method.
const std::map<std::string, std::set<int>>& FirstCalls() {
  static const auto* const calls = new std::map<std::string, std::set<int>>{
      {"RegisterTask", {1, 2}}, {"Heartbeat", {1, 3}}, {"ReportSteps", {1}},
      {"ReportShard", {1, 2}},  {"ReportNorms", {1}},  {"ReportEvaluation", {1, 2}},
      {"LeaseBatches", {1, 3}}, {"GetApplied", {1}},   {"LoadSlices", {1}},
      {"RequestCut", {1}},      {"Finish", {1}}};
  return *calls;
}

TEST_F(WrongAnswersTest, NoCallOfASynchronousRunNeedsItsFirstAnswer) {
  for (const grpc::StatusCode code :
       {grpc::StatusCode::RESOURCE_EXHAUSTED, grpc::StatusCode::FAILED_PRECONDITION}) {
    WrongAnswers wrong(code, FirstCalls());
    ExpectTrained(Train(&wrong, "optimizer { clip_by_global_norm: 0.1 }"));
    EXPECT_EQ(wrong.given().size(), 8u) << "all but those of asynchronous training and RequestCut";
  }
}

TEST_F(WrongAnswersTest, NoCallOfAnAsynchronousRunNeedsItsFirstAnswer) {
  for (const grpc::StatusCode code : {grpc::StatusCode::UNKNOWN, grpc::StatusCode::ABORTED}) {
    WrongAnswers wrong(code, FirstCalls());
    ExpectTrained(Train(&wrong, "sync { sync_replicas: false }"));
    EXPECT_EQ(wrong.given().size(), 10u) << "all but ReportNorms";
  }
}

}  // namespace
}  // namespace shoal

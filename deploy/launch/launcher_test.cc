// Tests the launcher with tasks that are shell scripts: which tasks are restarted, which end the
// run, and what is printed.
#include "deploy/launch/launcher.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/clock.h"
#include "base/file_system.h"
#include "base/mutex.h"
#include "deploy/launch/launcher_testing.h"
#include "deploy/launch/task_places.h"
#include "runtime/observability/metrics_file.h"
#include "runtime/observability/progress.h"
#include "runtime/observability/summary.h"
#include "runtime/process/shutdown.h"
#include "runtime/rpc/fake_chief.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(LauncherTest, WorkersRunAProgramOfTheirOwn) {
  const std::string program = directory_ + "/own.sh";
  std::ofstream(program) << "#!/bin/bash\n[ $1 = worker ] && touch " << directory_ << "/own.done\n";
  chmod(program.c_str(), 0755);
  options_.run.mutable_deployment()->set_worker_binary(program);
  options_.run.mutable_deployment()->set_num_ps_tasks(0);  // one ps process all the same
  EXPECT_EQ(Launch("await own.done; touch $dir/over"), absl::OkStatus());
  for (const char* task : {"chief-0", "ps-0"}) EXPECT_EQ(Starts(task), 1);
  EXPECT_EQ(Starts("worker-0"), 0);
}

TEST_F(LauncherTest, AllTasksStartOnceAndEndByThemselves) {
  EXPECT_EQ(Launch("case $task in chief-0) await worker-1.done; touch $dir/over;;"
                   " worker-1) touch $dir/worker-1.done; await over;; *) await over;; esac"),
            absl::OkStatus());
  for (const char* task : {"chief-0", "ps-0", "worker-0", "worker-1"}) EXPECT_EQ(Starts(task), 1);
  EXPECT_EQ(Content("worker-1.chief"), "127.0.0.1:77\n");
  EXPECT_EQ(Content("worker-0.local"), "0\n");
  EXPECT_EQ(Content("worker-1.local"), "1\n");
  EXPECT_EQ(printed_, "");
  EXPECT_THAT(Content("cluster.textproto"), HasSubstr("127.0.0.1:74"));
}

// Places every task on a different host; all of them are this machine.
class OwnHosts : public TaskPlaces {
 public:
  absl::Status Prepare(FileSystem*, const ShutdownNotification&) const override {
    return absl::OkStatus();
  }
  std::string ListenAddress(TaskId task) const override { return task.FileStem() + ".cluster:0"; }
  uint32_t LocalIndex(TaskId worker) const override { return 5 + worker.index; }
  std::vector<std::string> Command(TaskId, bool, const std::string&,
                                   const std::vector<std::string>& args) const override {
    return args;
  }
  std::string Describe(TaskId task) const override { return "on " + task.FileStem(); }
};

TEST_F(LauncherTest, EveryTaskServesItsMetricsWhereItCan) {
  const auto metrics_of = [this](const std::string& address, const TaskPlaces* places) {
    options_.metrics_address = address;
    options_.places = places;
    EXPECT_EQ(Launch("exit 0"), absl::OkStatus());
    return Content("chief-0.metrics") + Content("ps-0.metrics") + Content("worker-1.metrics");
  };
  const OwnHosts hosts;
  EXPECT_EQ(metrics_of("127.0.0.1:9100", nullptr), "127.0.0.1:9100\n127.0.0.1:0\n127.0.0.1:0\n");
  EXPECT_EQ(metrics_of("alpha:9100", &hosts), "alpha:9100\nps-0.cluster:0\nworker-1.cluster:0\n");
  EXPECT_EQ(Content("worker-1.local"), "6\n");
  EXPECT_EQ(metrics_of("0.0.0.0:9100", &hosts), "0.0.0.0:9100\n0.0.0.0:0\n0.0.0.0:0\n");
}

TEST_F(LauncherTest, AKilledWorkerIsRestartedAndNotBlamed) {
  EXPECT_EQ(Launch("case $task in worker-0) [ $starts = 1 ] && kill -KILL $$; touch $dir/over;;"
                   " *) await over;; esac"),
            absl::OkStatus());
  EXPECT_EQ(Starts("worker-0"), 2);
  EXPECT_EQ(Starts("worker-1"), 1);
  EXPECT_THAT(printed_, HasSubstr("worker/0 died (killed by SIGKILL); restarting it, 1 of 3"));
  EXPECT_EQ(Content("crash"), "");
}

TEST_F(LauncherTest, AWorkersCrashIsReportedToTheChief) {
  MarkBatch({{0, 3}, 7});
  EXPECT_EQ(Launch("case $task in worker-1)"
                   " [ $starts = 1 ] && { mark; ulimit -c 0; kill -SEGV $$; };"
                   " await crash; touch $dir/over;; *) await over;; esac"),
            absl::OkStatus());
  EXPECT_EQ(Content("crash"), "1 killed by SIGSEGV");
}

TEST_F(LauncherTest, AWorkerIsGivenUpAfterThreeRestartsAndTheOthersContinue) {
  EXPECT_EQ(Launch("case $task in worker-0) exit 1;; *) await given_up; exit 0;; esac"),
            absl::OkStatus());
  EXPECT_EQ(Starts("worker-0"), 4);
  EXPECT_THAT(printed_,
              HasSubstr("worker/0 died (exit code 1 (internal error)) after 3 restarts; the "
                        "others continue without it"));
}

TEST_F(LauncherTest, RestartsBeforeALongLifeDoNotCount) {
  options_.restarts_forgotten = absl::ZeroDuration();  // Every life is long.
  EXPECT_EQ(
      Launch("case $task in worker-0) [ $starts = 8 ] || exit 138; await ps; touch $dir/over;;"
             " ps-0) [ $starts = 14 ] || kill -KILL $$; touch $dir/ps; await over;;"
             " *) await over;; esac"),
      absl::OkStatus());
  EXPECT_EQ(Starts("worker-0"), 8);
  EXPECT_EQ(Starts("ps-0"), 14);
  EXPECT_THAT(printed_, HasSubstr("restarting it, 1 of 3"));
  EXPECT_THAT(printed_, ::testing::Not(HasSubstr("restarting it, 2 of 3")));
}

TEST_F(LauncherTest, WithTheLastWorkerTheRunEndsByTheChiefAndNamesItAndTheCheckpoint) {
  options_.run.mutable_deployment()->set_num_replicas(1);
  Summary summary;
  summary.status = "stopped";
  summary.checkpoint = "/checkpoints/ckpt-20";
  std::ofstream(directory_ + "/chiefs_summary") << SummaryJson(summary);
  const absl::Status status = Launch(
      "case $task in worker-0) echo 'shoal worker: out of luck' >&2; exit 1;;"
      " chief-0) await stop; cp $dir/chiefs_summary $dir/summary.json; touch $dir/over; exit 143;;"
      " *) await over; touch $dir/saved;; esac");
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(status.message(), HasSubstr("worker/0 ended the run: exit code 1 (internal error): "
                                          "out of luck; see "));
  EXPECT_THAT(status.message(), HasSubstr("; resume from /checkpoints/ckpt-20"));
  EXPECT_THAT(printed_, HasSubstr("after 3 restarts and no worker is left"));
  EXPECT_EQ(Content("stop"), "no worker is left");
  EXPECT_EQ(access((directory_ + "/saved").c_str(), F_OK), 0);  // The ps was not killed.
  const absl::StatusOr<Summary> after = ReadSummary(file_system_.get(), directory_);
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_EQ(after->status, "failed");
  EXPECT_EQ(absl::StrCat(after->exit_reason, "; resume from /checkpoints/ckpt-20"),
            status.message());
}

TEST_F(LauncherTest, AChiefThatCannotEndWithoutWorkersIsEndedAfterAWhile) {
  options_.run.mutable_deployment()->set_num_replicas(1);
  options_.stop_timeout = absl::Milliseconds(200);
  const absl::Status status = Launch("case $task in worker-0) kill -KILL $$;; *) sleep 60;; esac");
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr("; there is no checkpoint to resume from"));
}

TEST_F(LauncherTest, TheSummaryOfAnEarlierStartIsNotTakenForThatOfAChiefThatCannotEnd) {
  options_.run.mutable_deployment()->set_num_replicas(1);
  options_.stop_timeout = absl::Milliseconds(200);
  Summary before;
  before.status = "finished";
  before.steps = 20;
  before.checkpoint = "/checkpoints/ckpt-20";
  before.final_loss = 0.5;
  ASSERT_EQ(WriteSummary(file_system_.get(), directory_, before), absl::OkStatus());
  for (const char* made : {"/checkpoints", "/checkpoints/ckpt-60-2-0000000000000001"}) {
    mkdir((directory_ + made).c_str(), 0755);
  }
  std::ofstream(directory_ + "/checkpoints/ckpt-60-2-0000000000000001/MANIFEST") << "m";
  StepMetrics line;
  line.step = 64;
  std::ofstream(directory_ + "/metrics.jsonl") << MetricsLine(line);
  const absl::Status status = Launch("case $task in worker-0) kill -KILL $$;; *) sleep 60;; esac");
  EXPECT_THAT(status.message(),
              HasSubstr("; resume from " + directory_ + "/checkpoints/ckpt-60-2-0000000000000001"));
  const absl::StatusOr<Summary> after = ReadSummary(file_system_.get(), directory_);
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_EQ(after->status, "failed");
  EXPECT_EQ(after->steps, 64u);
  EXPECT_FALSE(after->final_loss.has_value());
}

TEST_F(LauncherTest, ALostPsIsRestartedWhileTheOthersLive) {
  EXPECT_EQ(Launch("case $task in ps-0) [ $starts = 1 ] && kill -KILL $$; touch $dir/over;;"
                   " *) await over;; esac"),
            absl::OkStatus());
  EXPECT_EQ(Starts("ps-0"), 2);
  EXPECT_EQ(Starts("worker-0"), 1);
  EXPECT_THAT(printed_, HasSubstr("ps/0 died (killed by SIGKILL); restarting it"));
}

// Lists the ps with the number in ps.pid a few times and then no longer, because its lease has
// ended.
class ChiefOfSilentPs : public FakeChief {
 public:
  explicit ChiefOfSilentPs(std::string directory) : directory_(std::move(directory)) {}
  absl::Status GetRunStatus(const v1::GetRunStatusRequest&,
                            v1::GetRunStatusResponse* response) override {
    response->mutable_state()->set_phase(v1::RunState::PHASE_TRAINING);
    uint32_t process_id = 0;
    std::ifstream(directory_ + "/ps.pid") >> process_id;
    if (process_id == 0 || ++times_ > 4) return absl::OkStatus();
    v1::GetRunStatusResponse::Task* task = response->add_tasks();
    task->mutable_member()->set_job(v1::JOB_PS);
    task->set_process_id(process_id);
    task->set_incarnation(1);
    return absl::OkStatus();
  }

 private:
  const std::string directory_;
  int times_ = 0;
};

TEST_F(LauncherTest, APsThatLosesItsPlaceAndLivesIsKilledAndStartedAgain) {
  options_.connect = [this](const std::string&) {
    return NewClient(std::make_unique<ChiefOfSilentPs>(directory_));
  };
  EXPECT_EQ(Launch("case $task in ps-0) [ $starts = 2 ] && { touch $dir/over; exit 0; };"
                   " echo $$ > $dir/ps.pid; kill -STOP $$;; *) await over;; esac"),
            absl::OkStatus());
  EXPECT_EQ(Starts("ps-0"), 2);
  EXPECT_THAT(printed_, HasSubstr("ps/0 was silent until its lease ended, although its process is "
                                  "alive; the launcher kills it"));
  EXPECT_THAT(printed_, HasSubstr("ps/0 died (killed by SIGKILL); restarting it"));
}

// Lists the first incarnation of a ps, with the number in ps.pid, until a while after it was
// started again; `only_then`: not before, as if it had died between two questions.
class SlowChief : public FakeChief {
 public:
  SlowChief(std::string directory, bool only_then)
      : directory_(std::move(directory)), only_then_(only_then) {}
  absl::Status GetRunStatus(const v1::GetRunStatusRequest&,
                            v1::GetRunStatusResponse* response) override {
    response->mutable_state()->set_phase(v1::RunState::PHASE_TRAINING);
    if (++times_ == 3) std::ofstream(directory_ + "/listed");
    const bool again = access((directory_ + "/again").c_str(), F_OK) == 0;
    if (again && ++late_ > 3) {
      if (late_ == 7) std::ofstream(directory_ + "/over");
      return absl::OkStatus();
    }
    uint32_t process_id = 0;
    std::ifstream(directory_ + "/ps.pid") >> process_id;
    if (process_id == 0 || (only_then_ && !again)) return absl::OkStatus();
    v1::GetRunStatusResponse::Task* task = response->add_tasks();
    task->mutable_member()->set_job(v1::JOB_PS);
    task->set_process_id(process_id);
    task->set_incarnation(1);
    return absl::OkStatus();
  }

 private:
  const std::string directory_;
  const bool only_then_;
  int times_ = 0, late_ = 0;
};

constexpr char kPsDiesOnceListed[] =
    "case $task in ps-0) [ $starts = 1 ] && { echo $$ > $dir/ps.pid; await listed; kill -KILL $$; "
    "};"
    " touch $dir/again; await over;; *) await over;; esac";

TEST_F(LauncherTest, APsThatWasStartedAgainIsNotKilledForTheLeaseOfTheOneBefore) {
  // First the tasks are children, then on hosts of their own, whose processes are not the
  // launcher's children.
  const OwnHosts hosts;
  for (const TaskPlaces* places :
       {static_cast<const TaskPlaces*>(nullptr), static_cast<const TaskPlaces*>(&hosts)}) {
    SCOPED_TRACE(places == nullptr ? "here" : "on hosts");
    options_.places = places;
    options_.connect = [this](const std::string&) {
      return NewClient(std::make_unique<SlowChief>(directory_, /*only_then=*/false));
    };
    EXPECT_EQ(Launch(kPsDiesOnceListed), absl::OkStatus());
    EXPECT_EQ(Starts("ps-0"), 2);
    EXPECT_THAT(printed_, Not(HasSubstr("killing it")));
    for (const char* file : {"/ps-0.starts", "/ps.pid", "/listed", "/again", "/over"}) {
      unlink((directory_ + file).c_str());
    }
  }
}

TEST_F(LauncherTest, ARestartedPsIsNotKilledForTheLeaseOfOneThatDiedBeforeItWasListed) {
  options_.connect = [this](const std::string&) {
    return NewClient(std::make_unique<SlowChief>(directory_, /*only_then=*/true));
  };
  EXPECT_EQ(Launch(kPsDiesOnceListed), absl::OkStatus());
  EXPECT_EQ(Starts("ps-0"), 2);
  EXPECT_THAT(printed_, Not(HasSubstr("killing it")));
}

TEST_F(LauncherTest, ALostChiefStopsAll) {
  const absl::Status status = Launch(
      "case $task in chief-0) sleep 0.1; kill -KILL $$;;"
      " *) sleep 60;; esac");
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr("chief/0 ended the run: killed by SIGKILL; see "));
}

TEST_F(LauncherTest, APermanentErrorIsNotTriedAgainAndKeepsItsCode) {
  const absl::Status status = Launch(
      "case $task in worker-1) echo 'shoal worker: data.directory: truncated' >&2; exit 65;;"
      " *) sleep 60;; esac");
  EXPECT_EQ(status, absl::DataLossError("worker/1: data.directory: truncated"));
  EXPECT_EQ(Starts("worker-1"), 1);
}

TEST_F(LauncherTest, AChiefWithNothingToDoEndsTheRunWell) {
  EXPECT_EQ(Launch("exec {fd}>&-; exit 0").code(), absl::StatusCode::kOk);
}

TEST_F(LauncherTest, WhenTheChiefFailsTheRunItsWordsCount) {
  const absl::Status status = Launch(
      "case $task in worker-1) echo 'shoal worker: the run failed' >&2; touch $dir/over;"
      " exit 78;; chief-0) await over; sleep 0.2;"
      " echo 'shoal chief: ps/0 did not come back' >&2; exit 138;; *) sleep 60;; esac");
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr("chief/0 ended the run"));
  EXPECT_THAT(status.message(), HasSubstr("ps/0 did not come back"));
}

TEST_F(LauncherTest, AChiefThatCannotStartEndsWithItsWords) {
  const absl::Status status = Launch(
      "[ $job = ps ] || exec 2>>$dir/logs/chief-0.log;"
      " echo 'shoal chief: resume: no checkpoint' >&2; exit 78");
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("chief/0: resume: no checkpoint"));
}

TEST_F(LauncherTest, AShutdownAsksTheChiefForACheckpointFirst) {
  const absl::Status status = LaunchAndStop(
      SIGINT,
      "case $task in chief-0) await stop; touch $dir/over; exit 143;; *) await over;; esac");
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(Content("stop"), "Ctrl-C");
}

// The launcher waits for the address of a ps.
TEST_F(LauncherTest, AStopBeforeAPsReportsItsAddressAlsoMakesACheckpoint) {
  std::ofstream(directory_ + "/ps-0.silent") << "x";
  const absl::Status status = LaunchAndStop(
      SIGTERM,
      "case $task in chief-0) await stop; touch $dir/over; exit 143;; *) await over;; esac",
      "ps-0.starts");
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(Content("stop"), "asked to stop");
  EXPECT_THAT(printed_, Not(HasSubstr("before the run had started")));
  EXPECT_EQ(Starts("worker-0"), 0) << "a run that ends starts nothing more";
}

TEST_F(LauncherTest, AStopWhileTheChiefStartsStartsNoOtherTask) {
  options_.connect = [this](const std::string&) {  // The chief serves.
    shutdown_.Request(SIGINT);
    return NewClient(std::make_unique<TestChief>(directory_));
  };
  EXPECT_EQ(Launch("await stop; exit 143").code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(Content("stop"), "Ctrl-C");
  EXPECT_EQ(Starts("ps-0"), 0);
  EXPECT_EQ(Starts("worker-0"), 0);
}

TEST_F(LauncherTest, TasksThatEndAsStoppedBeforeTheChiefAreNotStartedAgain) {
  const absl::Status status = LaunchAndStop(
      SIGTERM,
      "case $task in chief-0) await stop; touch $dir/over; sleep 4; exit 143;; *) await over; exit "
      "143;; esac");
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(Content("worker-0.starts"), "x\n");
  EXPECT_EQ(Content("ps-0.starts"), "x\n");
  EXPECT_THAT(printed_, Not(HasSubstr("died")));
}

// A chief that waits for its workers; the test requests a checkpoint once the chief has reported
// that.
class WaitingChief : public TestChief {
 public:
  WaitingChief(std::string directory, std::atomic<int>* wanted)
      : TestChief(std::move(directory)), wanted_(wanted) {}
  absl::Status GetRunStatus(const v1::GetRunStatusRequest&,
                            v1::GetRunStatusResponse* response) override {
    // The answer before this one has reached the launcher.
    if (++calls_ > 1) *wanted_ = 1;
    response->mutable_state()->set_phase(v1::RunState::PHASE_WAITING);
    return absl::OkStatus();
  }

 private:
  std::atomic<int>* const wanted_;
  int calls_ = 0;
};

TEST_F(LauncherTest, ACheckpointBeforeTheRunTrainsIsRefusedInWords) {
  std::atomic<int> wanted = 0;
  options_.checkpoints_wanted = &wanted;
  options_.connect = [&](const std::string&) {
    return NewClient(std::make_unique<WaitingChief>(directory_, &wanted));
  };
  EXPECT_EQ(Launch("await refused; exit 0"), absl::OkStatus());
  EXPECT_THAT(printed_, HasSubstr("SIGUSR1: there is nothing to save yet"));
  EXPECT_EQ(Content("save"), "");
}

TEST_F(LauncherTest, ACheckpointMayBeAskedForWithoutStopping) {
  const std::atomic<int> wanted = 1;
  options_.checkpoints_wanted = &wanted;
  EXPECT_EQ(Launch("case $task in chief-0) await save; touch $dir/over;; *) await over;; esac"),
            absl::OkStatus());
  EXPECT_EQ(Content("save"), "SIGUSR1");
  EXPECT_EQ(Content("stop"), "");
}

// A chief all of whose checkpoints fail.
class FullDiskChief : public TestChief {
 public:
  FullDiskChief(std::string directory, std::atomic<int>* failed)
      : TestChief(std::move(directory)), failed_(failed) {}
  absl::Status GetRunStatus(const v1::GetRunStatusRequest&,
                            v1::GetRunStatusResponse* response) override {
    const int failed = ++*failed_;
    response->set_failed_checkpoints(failed);
    response->set_last_failure("step " + std::to_string(10 * failed) + ": disk full");
    if (failed > 3) std::ofstream(directory() + "/asked.often") << "x";
    return absl::OkStatus();
  }

 private:
  std::atomic<int>* const failed_;
};

TEST_F(LauncherTest, FailedCheckpointsAreShownOnceWhileTheRunContinues) {
  std::atomic<int> failed = 0;
  options_.connect = [&](const std::string&) {
    return NewClient(std::make_unique<FullDiskChief>(directory_, &failed));
  };
  std::string failure;
  ASSERT_TRUE(Launch("[ $job = chief ] && await asked.often; exit 0", &failure).ok());
  EXPECT_GE(failed, 3);
  EXPECT_THAT(printed_, HasSubstr("warning: no checkpoint could be made at step "));
  EXPECT_EQ(printed_.find("warning"), printed_.rfind("warning"));
  EXPECT_THAT(failure, HasSubstr("disk full"));
}

TEST_F(LauncherTest, AChiefThatCannotStopIsEndedAfterAWhile) {
  options_.stop_timeout = absl::Milliseconds(200);
  const absl::Status status = LaunchAndStop(SIGTERM, "sleep 60");
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
  EXPECT_THAT(status.message(), HasSubstr("no checkpoint could be made within 200ms"));
}

// A chief that lists one registered worker.
class ChiefOfWorker1 : public FakeChief {
 public:
  explicit ChiefOfWorker1(std::string directory) : directory_(std::move(directory)) {}
  absl::Status GetRunStatus(const v1::GetRunStatusRequest&,
                            v1::GetRunStatusResponse* response) override {
    // The answer before this one has reached the launcher.
    if (++calls_ > 1) std::ofstream(directory_ + "/asked.twice") << "x";
    v1::Member* member = response->add_tasks()->mutable_member();
    member->set_job(v1::JOB_WORKER);
    member->set_index(1);
    return absl::OkStatus();
  }

 private:
  const std::string directory_;
  int calls_ = 0;
};

// The script of tasks whose chief ends when all tasks except worker/0 are about to end.
constexpr char kLastAreChiefAndWorker0[] =
    "case $task in chief-0) await asked.twice; await ps-0.done; await worker-1.done;;"
    " worker-0) exec sleep 60;; *) touch $dir/$task.done;; esac; exit 0";

TEST_F(LauncherTest, AWorkerThatTheOthersDidNotWaitForIsNotAFailure) {
  options_.connect = [this](const std::string&) {
    return NewClient(std::make_unique<ChiefOfWorker1>(directory_));
  };
  EXPECT_EQ(Launch(kLastAreChiefAndWorker0), absl::OkStatus());
}

TEST_F(LauncherTest, TasksThatDoNotEndAreKilledAndNamed) {
  options_.end_timeout = absl::Seconds(2);
  std::ofstream(directory_ + "/asked.twice") << "x";
  const absl::Status status = Launch(kLastAreChiefAndWorker0);
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);  // although the chief was content
  EXPECT_THAT(status.message(), HasSubstr("worker/0 did not end within 2s after the run"));
}

TEST_F(LauncherTest, ProgressComesFromTheMetricsFile) {
  StepMetrics metrics;
  metrics.step = 1;
  metrics.loss = 0.5;
  metrics.examples = 64;
  metrics.eval_accuracy = 0.875;
  std::ofstream(directory_ + "/lines") << MetricsLine(metrics);
  EXPECT_EQ(Launch("[ $job = chief ] && { sleep 0.1; cat $dir/lines > $dir/metrics.jsonl; };"
                   " exit 0"),
            absl::OkStatus());
  EXPECT_THAT(printed_, HasSubstr("step 1: test accuracy 0.8750\n"));
  EXPECT_THAT(printed_, HasSubstr("loss=0.5000"));
}

// A chief that resumed from an older checkpoint than the newest and has gone back once.
class ChiefThatWentBack : public ChiefOfWorker1 {
 public:
  using ChiefOfWorker1::ChiefOfWorker1;
  absl::Status GetRunStatus(const v1::GetRunStatusRequest& request,
                            v1::GetRunStatusResponse* response) override {
    response->set_resumed_from("ckpt-500");
    response->set_resumed_step(500);
    response->set_rollbacks(1);
    response->mutable_last_rollback()->set_step(700);
    response->mutable_last_rollback()->set_from(750);
    response->mutable_last_rollback()->set_reason("ps/0 came back without its state");
    return ChiefOfWorker1::GetRunStatus(request, response);
  }
};

TEST_F(LauncherTest, AResumeNamesTheCheckpointThatTheChiefUsesAndTheStepsThatAreComputedAgain) {
  options_.connect = [this](const std::string&) {
    return NewClient(std::make_unique<ChiefThatWentBack>(directory_));
  };
  options_.newest_checkpoint = "ckpt-600";
  StepMetrics line;
  line.step = 620;
  std::ofstream(directory_ + "/metrics.jsonl") << MetricsLine(line);
  EXPECT_EQ(Launch("[ $job = chief ] && await asked.twice; exit 0"), absl::OkStatus());
  EXPECT_THAT(printed_,
              HasSubstr("checkpoint ckpt-600 is damaged and not used; see " + directory_ +
                        "/logs/chief-0.log\nresumes from step 500 (ckpt-500); steps 501 to "
                        "620 are computed again\n"));
  const std::string back =
      "back to the last checkpoint, of step 700: ps/0 came back without its "
      "state; steps 701 to 750 are computed again\n";
  EXPECT_THAT(printed_, HasSubstr(back));
  EXPECT_EQ(printed_.find(back), printed_.rfind(back)) << "it is shown once";
}

// A chief that continues to train while no line of metrics.jsonl can be written.
class ChiefOnAFullDisk : public ChiefOfWorker1 {
 public:
  using ChiefOfWorker1::ChiefOfWorker1;
  absl::Status GetRunStatus(const v1::GetRunStatusRequest& request,
                            v1::GetRunStatusResponse* response) override {
    response->set_step(41000);
    response->set_metrics_failure("no space left on device");
    response->set_metric_warning("warning: the metric f1 of step 7");
    return ChiefOfWorker1::GetRunStatus(request, response);
  }
};

TEST_F(LauncherTest, OnAFullDiskTheChiefReportsHowFarTheRunIs) {
  options_.connect = [this](const std::string&) {
    return NewClient(std::make_unique<ChiefOnAFullDisk>(directory_));
  };
  StepMetrics line;
  line.step = 1261;
  std::ofstream(directory_ + "/metrics.jsonl") << MetricsLine(line);
  EXPECT_EQ(Launch("[ $job = chief ] && await asked.twice; exit 0"), absl::OkStatus());
  EXPECT_EQ(progress_->step(), 41000u);
  EXPECT_THAT(printed_, HasSubstr("metrics.jsonl cannot be written (no space left on device)"));
  const std::string metric = "warning: the metric f1 of step 7\n";
  EXPECT_THAT(printed_, HasSubstr(metric));
  EXPECT_EQ(printed_.find(metric), printed_.rfind(metric)) << "it is shown once";
}

TEST_F(LauncherTest, TheMetricWarningsOfAShortRunAreShownAtItsEnd) {
  Summary summary;
  summary.status = "finished";
  summary.metric_warning = "warning: the metric f1 of step 7\nwarning: the metric auc of step 9";
  std::ofstream(directory_ + "/new.json") << SummaryJson(summary);
  EXPECT_EQ(Launch("[ $job = chief ] && mv $dir/new.json $dir/summary.json; exit 0"),
            absl::OkStatus());
  EXPECT_THAT(printed_, HasSubstr("warning: the metric f1 of step 7\n"));
  EXPECT_THAT(printed_, HasSubstr("warning: the metric auc of step 9\n"));
}

}  // namespace
}  // namespace shoal

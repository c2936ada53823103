// Tests when the launcher starts a task again, and what it does if that is impossible. The chief of
// these tests waits 0 s for a task unless a test says otherwise, so restarts have no pauses.
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/faulty_file_system.h"
#include "deploy/launch/launcher_testing.h"
#include "runtime/process/withheld_end.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Dies so that it cannot be started again: its log file is a directory.
constexpr char kLosesItsLog[] =
    "lose_log() { rm $dir/logs/$task.log; mkdir $dir/logs/$task.log; kill -KILL $$; }\n";

TEST_F(LauncherTest, AWorkerThatCannotBeStartedAgainIsTriedUntilItCan) {
  options_.run.mutable_cluster()->set_max_worker_restarts(1000000);
  EXPECT_EQ(Launch(std::string(kLosesItsLog) +
                   "case $task in worker-0) [ $starts = 1 ] && lose_log; touch $dir/over;;"
                   " chief-0) await unstarted; rmdir $dir/logs/worker-0.log; await over;;"
                   " *) await over;; esac"),
            absl::OkStatus());
  EXPECT_EQ(Starts("worker-0"), 2);
  EXPECT_EQ(Starts("worker-1"), 1);
  EXPECT_THAT(printed_, HasSubstr("worker/0 could not be started again (cannot start " +
                                  options_.program + " with log file " + directory_ +
                                  "/logs/worker-0.log: Is a directory); trying again, 2 of "));
}

// A file system on which the second look at the log of worker/0 fails.
class BlinkingFiles : public FaultyFileSystem {
 public:
  absl::StatusOr<FileInfo> GetInfo(const std::string& path) const override {
    if (absl::EndsWith(path, "/worker-0.log") && looks_++ == 1) {
      return absl::UnavailableError("the file server is away");
    }
    return FaultyFileSystem::GetInfo(path);
  }

 private:
  mutable int looks_ = 0;
};

// Otherwise the last words of the one before would explain its end.
TEST_F(LauncherTest, AWorkerIsNotStartedAgainBeforeItsLogCanBeSeen) {
  BlinkingFiles files;
  ASSERT_TRUE(files.MakeDirectory(directory_).ok());
  options_.file_system = &files;
  options_.run.mutable_cluster()->set_max_worker_restarts(3);
  EXPECT_EQ(Launch("case $task in worker-0) [ $starts = 1 ] && kill -KILL $$; touch $dir/over;;"
                   " *) await over;; esac"),
            absl::OkStatus());
  EXPECT_EQ(Starts("worker-0"), 2);
  EXPECT_THAT(printed_, HasSubstr("worker/0 could not be started again (the file server is away); "
                                  "trying again, 2 of 3\n"));
}

TEST_F(LauncherTest, APsThatCannotBeStartedAgainIsTriedUntilItsRestartsAreUsedUp) {
  const absl::Status status =
      Launch(std::string(kLosesItsLog) + "case $task in ps-0) lose_log;; *) sleep 60;; esac");
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr("ps/0 could not be started again (cannot start "));
  EXPECT_EQ(Starts("ps-0"), 1);
  EXPECT_THAT(printed_, HasSubstr("; trying again, 2 of 10\n"));
  EXPECT_THAT(printed_, HasSubstr("; trying again, 10 of 10\n"));
}

TEST_F(LauncherTest, WithoutTheLastWorkerThatCannotBeStartedAgainTheRunEnds) {
  options_.run.mutable_deployment()->set_num_replicas(1);
  const absl::Status status =
      Launch(std::string(kLosesItsLog) +
             "case $task in worker-0) lose_log;; chief-0) await stop; touch $dir/over; exit 143;;"
             " *) await over; touch $dir/saved;; esac");
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr("worker/0 could not be started again (cannot start "));
  EXPECT_THAT(status.message(), HasSubstr("; there is no checkpoint to resume from"));
  EXPECT_THAT(printed_, HasSubstr(" after 3 restarts and no worker is left; the run ends"));
  EXPECT_EQ(Content("stop"), "no worker is left");
  EXPECT_EQ(access((directory_ + "/saved").c_str(), F_OK), 0);  // The ps was not killed.
}

TEST_F(LauncherTest, TasksThatDieAgainSoonAreRestartedAfterAPause) {
  options_.run.mutable_cluster()->set_wait_seconds(3);
  options_.run.mutable_cluster()->set_ps_return_seconds(4);
  EXPECT_EQ(Launch("case $task in worker-0) [ $starts = 3 ] || kill -KILL $$; touch $dir/lives;;"
                   " ps-0) [ $starts = 3 ] || kill -KILL $$; await lives; touch $dir/over;;"
                   " *) await over;; esac"),
            absl::OkStatus());
  for (const char* task : {"worker-0", "ps-0"}) EXPECT_EQ(Starts(task), 3);
  EXPECT_THAT(printed_, HasSubstr("worker/0 died (killed by SIGKILL); restarting it, 1 of 3; log"));
  EXPECT_THAT(printed_, HasSubstr("killed by SIGKILL); restarting it in 1s, 2 of 3; log"));
  EXPECT_THAT(printed_, HasSubstr("ps/0 died (killed by SIGKILL); restarting it; the"));
  EXPECT_THAT(printed_, HasSubstr("ps/0 died (killed by SIGKILL); restarting it in 1s; the"));
}

TEST_F(LauncherTest, ATaskThatWaitsForItsRestartDoesNotKeepTheRunFromItsEnd) {
  options_.run.mutable_cluster()->set_wait_seconds(3000);
  EXPECT_EQ(Launch("case $task in worker-0) kill -KILL $$;;"
                   " chief-0) await pauses; touch $dir/over;; *) await over;; esac"),
            absl::OkStatus());
  EXPECT_THAT(printed_, HasSubstr("restarting it in 5s, 2 of 3"));
  EXPECT_THAT(printed_, Not(HasSubstr("worker/0 ended with")));
}

// A chief of which a checkpoint is requested once the launcher has noticed the end of the process
// with the number in worker.pid.
class ChiefOfADeadWorker : public TestChief {
 public:
  ChiefOfADeadWorker(std::string directory, std::atomic<int>* wanted)
      : TestChief(std::move(directory)), wanted_(wanted) {}
  absl::Status GetRunStatus(const v1::GetRunStatusRequest&, v1::GetRunStatusResponse*) override {
    pid_t worker = 0;
    std::ifstream(directory() + "/worker.pid") >> worker;
    // It can be signalled until the launcher has noticed its end.
    if (worker != 0 && kill(worker, 0) != 0) *wanted_ = 1;
    return absl::OkStatus();
  }

 private:
  std::atomic<int>* const wanted_;
};

TEST_F(LauncherTest, WhileADeadWorkerWaitsForTheChiefsWordRequestsArePassedOn) {
  std::atomic<int> wanted = 0;
  options_.checkpoints_wanted = &wanted;
  options_.chief_exit_wait = absl::Minutes(1);
  options_.connect = [&](const std::string&) {
    return NewClient(std::make_unique<ChiefOfADeadWorker>(directory_, &wanted));
  };
  const absl::Status status = Launch(
      "case $task in worker-0) echo $$ > $dir/pid; mv $dir/pid $dir/worker.pid; exit 138;;"
      " chief-0) await save; echo 'shoal chief: ps/0 did not come back' >&2; exit 138;;"
      " *) sleep 60;; esac");
  EXPECT_THAT(status.message(), HasSubstr("ps/0 did not come back"));
  EXPECT_EQ(Starts("worker-0"), 1);
  EXPECT_THAT(printed_, Not(HasSubstr("worker/0 died")));
}

// Lists the ps with the number in ps.pid a few times and then no longer, because its lease has
// ended. That process seems to hang when it is killed.
class ChiefOfAnUnkillablePs : public TestChief {
 public:
  using TestChief::TestChief;
  absl::Status GetRunStatus(const v1::GetRunStatusRequest&,
                            v1::GetRunStatusResponse* response) override {
    response->mutable_state()->set_phase(v1::RunState::PHASE_TRAINING);
    uint32_t process_id = 0;
    std::ifstream(directory() + "/ps.pid") >> process_id;
    if (process_id == 0) return absl::OkStatus();
    WithholdEndOf(static_cast<pid_t>(process_id));
    if (++times_ > 4) return absl::OkStatus();
    v1::GetRunStatusResponse::Task* task = response->add_tasks();
    task->mutable_member()->set_job(v1::JOB_PS);
    task->set_process_id(process_id);
    task->set_incarnation(1);
    return absl::OkStatus();
  }

 private:
  int times_ = 0;
};

TEST_F(LauncherTest, APsThatDoesNotEndWhenItIsKilledIsNamedAndReplaced) {
  options_.connect = [this](const std::string&) {
    return NewClient(std::make_unique<ChiefOfAnUnkillablePs>(directory_));
  };
  EXPECT_EQ(Launch("case $task in ps-0) [ $starts = 2 ] && { touch $dir/over; exit 0; };"
                   " echo $$ > $dir/ps.pid; await over;; *) await over;; esac"),
            absl::OkStatus());
  EXPECT_EQ(Starts("ps-0"), 2);
  EXPECT_THAT(printed_, HasSubstr("alive; the launcher kills it\nps/0 (process "));
  EXPECT_THAT(printed_, HasSubstr(") does not end after SIGKILL, so it is not waited for; "));
  EXPECT_THAT(printed_, HasSubstr("ps/0 died (killed by SIGKILL); restarting it"));
}

}  // namespace
}  // namespace shoal

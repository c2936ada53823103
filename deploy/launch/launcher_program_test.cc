// Tests what the launcher does in runs with a compute program (docs/compute_program.md).
#include <signal.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <string>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "deploy/launch/launcher.h"
#include "deploy/launch/launcher_testing.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// Ends the run when it is asked to stop.
constexpr char kStoppedChief[] =
    "case $task in chief-0) await stop; touch $dir/over; exit 143;; ps-0) await over;; esac\n";

class ProgramRunTest : public LauncherTest {
 protected:
  ProgramRunTest() {
    options_.run.mutable_program()->set_file("/home/train.py");
    options_.run.mutable_deployment()->set_num_replicas(1);
  }
  size_t Count(const std::string& text) const {
    size_t count = 0;
    for (size_t at = printed_.find(text); at != std::string::npos;
         at = printed_.find(text, at + 1)) {
      ++count;
    }
    return count;
  }
};

TEST_F(ProgramRunTest, ABugOfTheProgramIsShownFirstAndOnceAndEndsTheRunAfterOneRestart) {
  const absl::Status status =
      Launch(std::string(kStoppedChief) +
             "echo 'shoal worker: program: train.py:12: ValueError: boom; see /l' >&2; exit 1");
  EXPECT_EQ(Starts("worker-0"), 2);
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  const std::string log = "log: " + directory_ + "/logs/program-0.log";
  EXPECT_THAT(std::string(status.message()),
              StartsWith("train.py:12: ValueError: boom; the program of every worker fails here, "
                         "also when it is started again; " +
                         log));
  EXPECT_THAT(printed_, StartsWith("train.py:12: ValueError: boom\nworker/0 died of this; "
                                   "restarting it, 1 of 3; " +
                                   log));
  EXPECT_EQ(Count("ValueError"), 1u);
  EXPECT_THAT(printed_, HasSubstr("worker/0 died in the same way; no worker gets further"));
}

TEST_F(ProgramRunTest, ABugOnOneOfTwoWorkersMayBeAFaultOfItsMachine) {
  options_.run.mutable_deployment()->set_num_replicas(2);
  EXPECT_EQ(Launch("case $task in worker-0) [ $starts = 4 ] && touch $dir/over;"
                   " echo 'shoal worker: program: a.py:1: KeyError: 3; see /l' >&2; exit 1;;"
                   " *) await over;; esac"),
            absl::OkStatus());
  EXPECT_EQ(Starts("worker-0"), 4);
}

TEST_F(ProgramRunTest, AModuleThatMayReturnIsTriedAsOftenAsAnyWorker) {
  const absl::Status status =
      Launch(std::string(kStoppedChief) +
             "echo 'shoal worker: program: train.py:3: ImportError: away; see /l' >&2; exit 138");
  EXPECT_EQ(Starts("worker-0"), 4);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()),
              StartsWith("train.py:3: ImportError: away (the program of worker/0; log: "));
  EXPECT_EQ(Count("ImportError"), 1u);
}

TEST_F(ProgramRunTest, ACrashIsNotTakenForABug) {
  const absl::Status status =
      Launch(std::string(kStoppedChief) +
             "echo 'shoal worker: program: train.py ended before the run was over (killed by "
             "SIGSEGV); see /l' >&2; exit 1");
  EXPECT_EQ(Starts("worker-0"), 4);
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
}

TEST_F(ProgramRunTest, WhenTheChiefWaitsInVainForAWorkerItsProgramIsNamed) {
  const absl::Status status = Launch(
      "case $task in chief-0) await failed; sleep 0.2;"
      " echo 'shoal chief: waited 5m for worker/0 to register' >&2; exit 138;;"
      " worker-0) [ $starts = 1 ] || { touch $dir/failed; sleep 60; };"
      " echo 'shoal worker: program: train.py did not declare its variables (DECLARE); see /l' >&2;"
      " exit 138;; *) sleep 60;; esac");
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("waited 5m for worker/0 to register"));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("; before that a program failed: train.py did not declare its variables"));
}

TEST_F(ProgramRunTest, AProgramThatFailsAfterTheRunIsNotAnInternalError) {
  // A process can be signalled until the launcher has noticed its end.
  EXPECT_EQ(Launch("case $task in chief-0) echo $$ > $dir/pid; mv $dir/pid $dir/chief.pid;"
                   " await going; touch $dir/over;;"
                   " worker-0) await chief.pid; touch $dir/going;"
                   " while kill -0 $(cat $dir/chief.pid) 2> /dev/null; do sleep 0.05; done;"
                   " echo 'shoal worker: program: a.py:1: KeyError: 3; see /l' >&2; exit 1;;"
                   " *) await over;; esac"),
            absl::OkStatus());
  EXPECT_THAT(printed_, HasSubstr("a.py:1: KeyError: 3\n"
                                  "worker/0 ended with exit code 1 (its program failed); log: "));
}

// Lists worker/0 once it has written its number, and then no longer.
class ChiefOfALeavingWorker : public TestChief {
 public:
  using TestChief::TestChief;
  absl::Status GetRunStatus(const v1::GetRunStatusRequest&,
                            v1::GetRunStatusResponse* response) override {
    response->add_tasks()->mutable_member()->set_job(v1::JOB_PS);
    uint32_t process_id = 0;
    std::ifstream(directory() + "/worker.pid") >> process_id;
    if (process_id == 0) return absl::OkStatus();
    if (++answers_ > 3) {
      std::ofstream(directory() + "/left") << "x";
      return absl::OkStatus();
    }
    v1::GetRunStatusResponse::Task* task = response->add_tasks();
    task->mutable_member()->set_job(v1::JOB_WORKER);
    task->set_process_id(process_id);
    task->set_incarnation(2);
    return absl::OkStatus();
  }

 private:
  int answers_ = 0;
};

TEST_F(ProgramRunTest, ARestartedWorkerThatHasLeftMayWaitForItsProgram) {
  options_.connect = [this](const std::string&) {
    return NewClient(std::make_unique<ChiefOfALeavingWorker>(directory_));
  };
  options_.end_timeout = absl::Minutes(2);
  EXPECT_EQ(Launch("case $task in worker-0) [ $starts = 1 ] && kill -KILL $$;"
                   " echo $$ > $dir/pid; mv $dir/pid $dir/worker.pid; await over; sleep 4;"
                   " touch $dir/program_ended;; chief-0) await left; touch $dir/over;;"
                   " *) await over;; esac"),
            absl::OkStatus());
  EXPECT_EQ(Starts("worker-0"), 2);
  EXPECT_EQ(access((directory_ + "/program_ended").c_str(), F_OK), 0);
  EXPECT_THAT(printed_, Not(HasSubstr("was killed")));
}

// The line that a worker logs while it waits for its program.
constexpr char kContinues[] =
    "echo 'I 1 a.cc:1] program: train.py continues after the end of the run; it may' >&2;";

TEST_F(ProgramRunTest, AProgramThatContinuesAfterTheRunIsShownAndWaitedFor) {
  options_.end_timeout = absl::Seconds(2);
  EXPECT_EQ(Launch("case $task in worker-0) await over; " + std::string(kContinues) +
                   " sleep 4; touch $dir/program_ended;; chief-0) touch $dir/over;;"
                   " *) await over;; esac"),
            absl::OkStatus());
  EXPECT_EQ(access((directory_ + "/program_ended").c_str(), F_OK), 0);
  EXPECT_EQ(Count("worker/0: train.py continues after the end of the run"), 1u) << printed_;
}

// A chief that never lists worker/0, since the run is over before its program is ready.
class ChiefOfALateWorker : public TestChief {
 public:
  using TestChief::TestChief;
  absl::Status GetRunStatus(const v1::GetRunStatusRequest&,
                            v1::GetRunStatusResponse* response) override {
    response->add_tasks()->mutable_member()->set_job(v1::JOB_PS);
    std::ofstream(directory() + "/asked") << "x";
    return absl::OkStatus();
  }
};

class LateProgramTest : public ProgramRunTest {
 protected:
  LateProgramTest() {
    options_.connect = [this](const std::string&) {
      return NewClient(std::make_unique<ChiefOfALateWorker>(directory_));
    };
    options_.end_timeout = absl::Seconds(1);
  }
};

TEST_F(LateProgramTest, AProgramThatStillStartsWhenTheRunHasFinishedIsShownAndWaitedFor) {
  options_.run.mutable_cluster()->set_wait_seconds(60);
  EXPECT_EQ(Launch("case $task in worker-0) await over; sleep 4; touch $dir/program_ended;;"
                   " chief-0) await asked; sleep 0.5; touch $dir/over;; *) await over;; esac"),
            absl::OkStatus());
  EXPECT_EQ(access((directory_ + "/program_ended").c_str(), F_OK), 0) << printed_;
  EXPECT_EQ(Count("worker/0: train.py is still starting; it is waited for"), 1u) << printed_;
  EXPECT_THAT(printed_, Not(HasSubstr("warning")));
}

TEST_F(LateProgramTest, AProgramThatDoesNotStartInTimeIsKilledAndAWarningNamesIt) {
  options_.run.mutable_cluster()->set_wait_seconds(3);
  EXPECT_EQ(Launch("case $task in worker-0) sleep 60;;"
                   " chief-0) await asked; sleep 0.5; touch $dir/over;; *) await over;; esac"),
            absl::OkStatus());
  EXPECT_THAT(printed_, HasSubstr("worker/0 was still starting, or had left the run"));
  EXPECT_THAT(printed_, HasSubstr("warning: the code behind the loop of train.py did not run in "
                                  "worker/0, because worker/0 was not ready when the run ended"));
}

TEST_F(LateProgramTest, AWarningNamesAWorkerThatWasToBeStartedAgainWhenTheRunEnded) {
  options_.run.mutable_deployment()->set_num_replicas(2);
  EXPECT_EQ(Launch("case $task in worker-0) [ $starts = 1 ] || touch $dir/again; kill -KILL $$;;"
                   " chief-0) await again; sleep 1; touch $dir/over;; *) await over;; esac"),
            absl::OkStatus());
  EXPECT_THAT(printed_, HasSubstr("warning: the code behind the loop of train.py did not run in "
                                  "worker/0"));
  EXPECT_THAT(printed_, Not(HasSubstr("did not run in worker/1")));
}

TEST_F(LateProgramTest, AProgramThatStillStartsWhenTheRunIsStoppedIsKilledAtOnce) {
  options_.run.mutable_cluster()->set_wait_seconds(300);
  const absl::Time began = absl::Now();
  EXPECT_EQ(Launch("case $task in worker-0) sleep 60;;"
                   " chief-0) await asked; sleep 0.5; touch $dir/over; exit 143;;"
                   " *) await over;; esac")
                .code(),
            absl::StatusCode::kCancelled);
  EXPECT_LT(absl::Now() - began, absl::Seconds(30));
  EXPECT_THAT(printed_, Not(HasSubstr("warning")));
}

TEST_F(ProgramRunTest, AStopEndsAProgramThatContinuesAfterTheRun) {
  EXPECT_EQ(LaunchAndStop(SIGTERM,
                          "case $task in worker-0) await over; " + std::string(kContinues) +
                              " trap 'echo x > $dir/was_asked;"
                              " echo \"I 1 a.cc:1] program: train.py was killed after 9s\" >&2;"
                              " exit 0' TERM; sleep 0.5; touch $dir/continues;"
                              " while :; do sleep 0.1; done;;"
                              " chief-0) touch $dir/over;; *) await over;; esac",
                          "continues"),
            absl::OkStatus());
  EXPECT_EQ(Content("was_asked"), "x\n");
  EXPECT_THAT(printed_, HasSubstr("worker/0: train.py was killed after 9s"));
}

TEST_F(ProgramRunTest, AProgramThatContinuesForTooLongIsKilledWithItsWorker) {
  options_.program_timeout = absl::Seconds(2);
  options_.end_timeout = absl::Seconds(1);
  const absl::Status status =
      Launch("case $task in worker-0) await over; " + std::string(kContinues) +
             " sleep 60;; chief-0) touch $dir/over;; *) await over;; esac");
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), HasSubstr("worker/0 did not end within"));
}

}  // namespace
}  // namespace shoal

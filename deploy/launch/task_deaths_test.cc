#include "deploy/launch/task_deaths.h"

#include <signal.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/clock.h"
#include "deploy/launch/task_logs.h"
#include "deploy/launch/task_places.h"
#include "runtime/observability/progress.h"
#include "runtime/process/exit_code.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr ChildExit kKilled{/*by_signal=*/true, SIGKILL};
constexpr ChildExit kFailed{/*by_signal=*/false, kExitInternalError};
constexpr ChildExit kBadFlags{/*by_signal=*/false, kExitBadFlags};
constexpr ChildExit kTerminated{/*by_signal=*/false, kExitTerminated};

// Every task runs on the host beta.
class PlacesOnBeta : public TaskPlaces {
 public:
  absl::Status Prepare(FileSystem*, const ShutdownNotification&) const override {
    return absl::OkStatus();
  }
  std::string ListenAddress(TaskId) const override { return "beta:0"; }
  uint32_t LocalIndex(TaskId worker) const override { return worker.index; }
  std::vector<std::string> Command(TaskId, bool, const std::string&,
                                   const std::vector<std::string>& args) const override {
    return args;
  }
  std::string Describe(TaskId) const override { return "on beta"; }
};

class TaskDeathsTest : public ::testing::Test {
 protected:
  TaskDeathsTest() : progress_(Progress(), &clock_) {}
  void SetUp() override { std::filesystem::create_directories(out_ + "/logs"); }

  ProgressOptions Progress() {
    ProgressOptions options;
    options.write = [this](absl::string_view text) { printed_.append(text.data(), text.size()); };
    return options;
  }
  TaskDeaths::Options Options() {
    TaskDeaths::Options options;
    options.logs = &logs_;
    options.progress = &progress_;
    return options;
  }
  void Write(TaskId task, const std::string& text) { std::ofstream(logs_.Path(task)) << text; }

  const std::string out_ = ::testing::TempDir() + "/task_deaths";
  const TaskLogs logs_{out_};
  const RealClock clock_;
  std::string printed_;
  ProgressReporter progress_;
  const TaskId ps_{Job::kPs, 1};
  const TaskId worker_{Job::kWorker, 0};
};

TEST_F(TaskDeathsTest, AFailureQuotesTheLastWordsOfTheProcessThatEnded) {
  const TaskDeaths deaths(Options());
  const std::string first = "shoal ps: of the process before it\n";
  Write(ps_, first + "shoal ps: the disk is full\n");
  EXPECT_EQ(deaths.Failure(ps_, first.size(), kKilled),
            absl::UnavailableError("ps/1 ended the run: killed by SIGKILL: the disk is full; see " +
                                   logs_.Path(ps_)));
  EXPECT_EQ(deaths.Failure(ps_, first.size(), kBadFlags),
            absl::InvalidArgumentError("ps/1: the disk is full"));
  Write(ps_, first);
  EXPECT_EQ(
      deaths.Failure(ps_, first.size(), kKilled),
      absl::UnavailableError("ps/1 ended the run: killed by SIGKILL; see " + logs_.Path(ps_)));
  EXPECT_THAT(printed_, IsEmpty());
}

TEST_F(TaskDeathsTest, ATaskThatWasStoppedIsCancelledAndOneThatNobodyAskedIsUnavailable) {
  const TaskDeaths deaths(Options());
  Write(ps_, "");
  EXPECT_EQ(deaths.Failure(ps_, 0, kTerminated), absl::CancelledError("stopped"));
  EXPECT_EQ(deaths.Death(ps_, 0, kTerminated, absl::StatusCode::kUnavailable).code(),
            absl::StatusCode::kUnavailable);
}

TEST_F(TaskDeathsTest, TheSameCauseOfTwoDeathsIsNamedOnce) {
  TaskDeaths::Options options = Options();
  options.has_programs = true;
  TaskDeaths deaths(options);
  const std::string cause = "train.py:12: ValueError: boom";
  Write(worker_, "shoal worker: program: " + cause + "; see x\n");
  const auto failure = deaths.FindProgramFailure(worker_, 0);
  ASSERT_TRUE(failure.has_value());
  EXPECT_EQ(failure->cause, cause);
  EXPECT_EQ(deaths.DescribeExit(worker_, 0, kFailed), "exit code 1 (its program failed)");
  EXPECT_EQ(deaths.DescribeExit(worker_, 0, kKilled), "killed by SIGKILL");
  EXPECT_EQ(deaths.DiedText(worker_, kFailed, failure), cause + "\nworker/0 died of this");
  EXPECT_EQ(deaths.DiedText(worker_, kFailed, failure), "worker/0 died in the same way");
  EXPECT_EQ(deaths.program_failures().CauseAt(0), cause);
  EXPECT_EQ(deaths.Failure(worker_, 0, kFailed),
            absl::InternalError(
                cause + " (the program of worker/0; log: " + logs_.ProgramPath(worker_) + ")"));
}

TEST_F(TaskDeathsTest, WithoutComputeProgramsNoProgramFails) {
  TaskDeaths deaths(Options());
  Write(worker_, "shoal worker: program: train.py:12: ValueError: boom; see x\n");
  EXPECT_FALSE(deaths.FindProgramFailure(worker_, 0).has_value());
  EXPECT_EQ(deaths.DiedText(worker_, kKilled, std::nullopt), "worker/0 died (killed by SIGKILL)");
}

TEST_F(TaskDeathsTest, TheEndOfALogOnAnotherHostIsPrinted) {
  PlacesOnBeta places;
  TaskDeaths::Options options = Options();
  options.places = &places;
  const TaskDeaths deaths(options);
  Write(ps_, "starting\nno route\n");
  deaths.PrintLogEnd(ps_);
  EXPECT_THAT(printed_, HasSubstr("--- ps/1 on beta, the end of " + logs_.Path(ps_) +
                                  ":\nstarting\nno route\n---"));
}

}  // namespace
}  // namespace shoal

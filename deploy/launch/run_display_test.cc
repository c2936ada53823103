#include "deploy/launch/run_display.h"

#include <stdlib.h>

#include <fstream>
#include <memory>
#include <optional>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/clock.h"
#include "base/file_system.h"
#include "runtime/observability/metrics_file.h"
#include "runtime/observability/progress.h"
#include "runtime/observability/summary.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class RunDisplayTest : public ::testing::Test {
 protected:
  RunDisplayTest() : reporter_(Options(), &clock_) {
    std::string pattern = ::testing::TempDir() + "/run_display.XXXXXX";
    run_.set_out(mkdtemp(pattern.data()));
    run_.set_num_epochs(1);
    status_.mutable_state()->set_phase(v1::RunState::PHASE_TRAINING);
  }

  ProgressOptions Options() {
    ProgressOptions options;
    options.log_every = 1;
    options.write = [this](absl::string_view text) { shown_.append(text.data(), text.size()); };
    return options;
  }

  RunDisplay NewDisplay(const std::string& newest_checkpoint = "",
                        const std::string& chief_log = "/run/logs/chief-0.log") {
    return RunDisplay(
        RunDisplay::Options{&run_, files_.get(), &reporter_, newest_checkpoint, chief_log});
  }

  // Returns what is shown for the status.
  std::string Show(RunDisplay* display) {
    shown_.clear();
    display->Show(status_);
    return shown_;
  }

  void AppendSteps(uint64_t first, uint64_t last) {
    const auto file = MetricsFile::Open(files_.get(), run_.out() + "/metrics.jsonl", first - 1);
    ASSERT_TRUE(file.ok()) << file.status();
    for (uint64_t step = first; step <= last; ++step) {
      StepMetrics line;
      line.step = step;
      line.loss = static_cast<double>(step);
      line.examples = 64;
      ASSERT_TRUE((*file)->Append(line).ok());
    }
  }

  const RealClock clock_;
  const std::unique_ptr<FileSystem> files_ = NewPosixFileSystem();
  std::string shown_;
  ProgressReporter reporter_;
  v1::RunConfig run_;
  v1::GetRunStatusResponse status_;
};

TEST_F(RunDisplayTest, ShowsTheStepsThatTheChiefAddsAfterTheStart) {
  AppendSteps(1, 2);
  RunDisplay display = NewDisplay();
  AppendSteps(3, 4);
  const std::string shown = Show(&display);
  EXPECT_THAT(shown, HasSubstr("step 3"));
  EXPECT_THAT(shown, HasSubstr("step 4"));
  EXPECT_THAT(shown, Not(HasSubstr("step 2")));
  EXPECT_EQ(reporter_.step(), 4u);
}

TEST_F(RunDisplayTest, SaysWhatTheRunWaitsFor) {
  RunDisplay display = NewDisplay();
  status_.mutable_state()->set_phase(v1::RunState::PHASE_WAITING);
  status_.mutable_state()->add_waiting_for("ps/0");
  status_.mutable_state()->add_waiting_for("worker/1");
  EXPECT_THAT(Show(&display), HasSubstr("waiting for ps/0, worker/1"));
}

TEST_F(RunDisplayTest, NamesTheProgramThatAWorkerWaitsFor) {
  run_.mutable_program()->set_file("/home/me/train.py");
  RunDisplay display = NewDisplay();
  status_.mutable_state()->set_phase(v1::RunState::PHASE_WAITING);
  status_.mutable_state()->add_waiting_for("worker/0");
  status_.mutable_state()->add_waiting_for("worker/1");
  EXPECT_THAT(Show(&display), HasSubstr("waiting for worker/0, worker/1 to start train.py\n"));
}

TEST_F(RunDisplayTest, ShowsOnceWhereTheRunResumedAndThatAnotherCheckpointWasExpected) {
  AppendSteps(1, 9);
  RunDisplay display = NewDisplay("step-8");
  status_.set_resumed_from("step-5");
  status_.set_resumed_step(5);
  const std::string shown = Show(&display);
  EXPECT_THAT(shown,
              HasSubstr("checkpoint step-8 is damaged and not used; see /run/logs/chief-0.log"));
  EXPECT_THAT(shown, HasSubstr("step-5"));
  EXPECT_THAT(Show(&display), Not(HasSubstr("step-5")));
}

TEST_F(RunDisplayTest, ShowsEachRollbackAndEachSkippedBatchOnce) {
  RunDisplay display = NewDisplay();
  status_.set_rollbacks(1);
  status_.mutable_last_rollback()->set_step(4);
  status_.mutable_last_rollback()->set_from(7);
  status_.mutable_last_rollback()->set_reason("ps/1 was lost");
  status_.set_skipped_batches(1);
  status_.set_last_skipped("batch 3 of epoch 1 is skipped: a crash");
  const std::string shown = Show(&display);
  EXPECT_LT(shown.find("batch 3 of epoch 1"), shown.find("ps/1 was lost"));
  EXPECT_THAT(shown,
              HasSubstr("warning: batch 3 of epoch 1 is skipped: a crash (batches skipped: 1)"));
  EXPECT_THAT(Show(&display), IsEmpty());
}

TEST_F(RunDisplayTest, RemembersWhyCheckpointsFailUntilOneSucceeds) {
  RunDisplay display = NewDisplay();
  status_.set_failed_checkpoints(1);
  status_.set_last_failure("step 8: no space left");
  EXPECT_THAT(Show(&display), HasSubstr("step 8: no space left"));
  status_.set_failed_checkpoints(2);
  status_.set_last_failure("step 9: no space left");
  EXPECT_THAT(Show(&display), IsEmpty());  // The user was warned.
  EXPECT_EQ(display.checkpoint_failure(), "step 9: no space left");
  status_.set_last_checkpoint("step-10");
  Show(&display);
  EXPECT_EQ(display.checkpoint_failure(), "");
}

TEST_F(RunDisplayTest, ShowsProgressWithoutLinesWhileTheyCannotBeWritten) {
  RunDisplay display = NewDisplay();
  status_.set_metrics_failure("no space left");
  status_.set_step(12);
  EXPECT_THAT(Show(&display), HasSubstr("no space left"));
  EXPECT_EQ(reporter_.step(), 12u);
  EXPECT_THAT(Show(&display), Not(HasSubstr("no space left")));
}

TEST_F(RunDisplayTest, ShowsEachMetricWarningOnce) {
  RunDisplay display = NewDisplay();
  status_.set_metric_warning("rmse is not finite since step 3");
  EXPECT_THAT(Show(&display), HasSubstr("rmse is not finite since step 3"));
  status_.set_metric_warning("rmse is not finite since step 3\nauc is not finite since step 4");
  EXPECT_EQ(Show(&display), "auc is not finite since step 4\n");
  Summary summary;
  summary.metric_warning = status_.metric_warning() + "\nauc is not finite since step 5";
  ASSERT_TRUE(WriteSummary(files_.get(), run_.out(), summary).ok());
  shown_.clear();
  display.ShowSummary(SummaryJson(summary));
  EXPECT_THAT(shown_, IsEmpty());
  display.ShowSummary("");
  EXPECT_EQ(shown_, "auc is not finite since step 5\n");
}

TEST_F(RunDisplayTest, ShowsTheChiefsNewWarningsOfInitialValuesThatDiffer) {
  const std::string path = run_.out() + "/chief-0.log";
  std::ofstream log(path);
  const std::string head = "W 10:00:00.000 chief/0 run_recorder.cc:1] ";
  log << head << "the initial values of worker/2 differ, in an earlier start\n" << std::flush;
  RunDisplay display = NewDisplay("", path);
  log << "I 10:00:01.000 chief/0 chief.cc:1] worker/1 registered\n"
      << head << "the initial values of worker/1 differ from those in use (w)\n"
      << std::flush;
  EXPECT_EQ(Show(&display),
            "warning: the initial values of worker/1 differ from those in use (w)\n");
  EXPECT_THAT(Show(&display), IsEmpty());
  log << head << "the initial values of worker/3 differ\n" << std::flush;
  display.ShowSummary("");
  EXPECT_EQ(shown_, "warning: the initial values of worker/3 differ\n");
}

TEST_F(RunDisplayTest, WarnsOnceOfMemory) {
  RunDisplay display = NewDisplay();
  status_.set_memory_warning("ps/0 uses 93 MiB of 100");
  EXPECT_THAT(Show(&display), HasSubstr("warning: ps/0 uses 93 MiB of 100"));
  EXPECT_THAT(Show(&display), IsEmpty());
}

}  // namespace
}  // namespace shoal

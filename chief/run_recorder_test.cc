#include "chief/run_recorder.h"

#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/fake_clock.h"
#include "runtime/checkpoint/initial_model.h"
#include "runtime/checkpoint/safetensors.h"
#include "runtime/observability/metric_page.h"
#include "runtime/observability/metrics_file.h"
#include "runtime/observability/progress.h"
#include "runtime/plan/step_plan.h"
#include "runtime/variables/metric_messages.h"
#include "runtime/variables/metric_sums.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class RunRecorderTest : public ::testing::Test {
 protected:
  RunRecorderTest() {
    RunRecorder::Options options;
    options.file_system = files_.get();
    options.clock = &clock_;
    options.directory = absl::StrCat(
        ::testing::TempDir(), "/", ::testing::UnitTest::GetInstance()->current_test_info()->name());
    directory_ = options.directory;
    EXPECT_TRUE(RemoveTree(*files_, options.directory).ok());
    EXPECT_TRUE(files_->MakeDirectory(options.directory).ok());
    ProgressOptions bar;
    bar.write = [this](absl::string_view text) { printed_.append(text.data(), text.size()); };
    progress_ = std::make_unique<ProgressReporter>(bar, &clock_);
    options.progress = progress_.get();
    options.publish = [](const ManifestToWrite&) { return absl::OkStatus(); };
    options.discard_failed = [this](const std::string& directory) {
      discarded_.push_back(directory);
      return absl::OkStatus();
    };
    options.may_write = [this] { return may_write_; };
    recorder_ = *RunRecorder::Create(options);
  }

  void Line(uint64_t step, uint64_t examples, double loss_sum = 0) {
    StepLine line;
    line.report.set_loss_sum(loss_sum);
    line.report.set_step(step);
    line.report.set_examples(examples);
    recorder_->Record(line);
  }

  std::vector<uint64_t> StepsInFile() const {
    std::vector<uint64_t> steps;
    const std::string text = *ReadFile(*files_, directory_ + "/metrics.jsonl");
    for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
      steps.push_back(ParseMetricsLine(line)->step);
    }
    return steps;
  }

  FakeClock clock_;
  const std::unique_ptr<FileSystem> files_ = NewPosixFileSystem();
  std::string directory_;
  absl::Status may_write_;
  std::string printed_;
  std::vector<std::string> discarded_;
  std::unique_ptr<ProgressReporter> progress_;
  std::unique_ptr<RunRecorder> recorder_;
};

TEST_F(RunRecorderTest, CountsTheExamplesOfTheValidLines) {
  // Epochs of three steps, the last one smaller.
  for (uint64_t step = 1; step <= 9; ++step) Line(step, step % 3 == 0 ? 4 : 10);
  EXPECT_EQ(recorder_->summary().examples, 72u);
  ASSERT_TRUE(recorder_->Record(RolledBack{5, ""}).ok());
  EXPECT_EQ(recorder_->summary().examples, 44u);
  EXPECT_EQ(recorder_->summary().steps, 5u);
  Line(6, 0);  // skipped now
  Line(7, 10);
  EXPECT_EQ(recorder_->summary().examples, 54u);
  ASSERT_TRUE(recorder_->Record(RolledBack{4, ""}).ok());
  EXPECT_EQ(recorder_->summary().examples, 34u);
  ASSERT_TRUE(recorder_->Record(RolledBack{0, ""}).ok());
  EXPECT_EQ(recorder_->summary().examples, 0u);
}

TEST_F(RunRecorderTest, TheRateOfTheFirstSecondsCountsAllStepsSinceTrainingStarted) {
  const auto rates = [this] {
    std::vector<double> rates;
    const std::string text = *ReadFile(*files_, directory_ + "/metrics.jsonl");
    for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
      rates.push_back(ParseMetricsLine(line)->examples_per_second);
    }
    return rates;
  };
  const TrainingStarts starts{*StepPlan::Create({0, 0, 1000, 10, 1}), 100};
  recorder_->Record(starts);
  clock_.Advance(absl::Milliseconds(500));  // The first step takes longer than others.
  Line(1, 10);
  clock_.Advance(absl::Milliseconds(125));
  Line(2, 10);
  clock_.Advance(absl::Milliseconds(1375));
  Line(3, 10);
  clock_.Advance(absl::Milliseconds(500));
  Line(4, 10);
  EXPECT_THAT(rates(), ElementsAre(20, 32, 15, 15));
  // The run goes back to step 2 and trains again.
  ASSERT_TRUE(recorder_->Record(RolledBack{2, ""}).ok());
  recorder_->Record(starts);
  clock_.Advance(absl::Milliseconds(250));
  Line(3, 10);
  EXPECT_THAT(rates(), ElementsAre(20, 32, 40));
}

TEST_F(RunRecorderTest, TheFinalLossIsThatOfTheLastValidLine) {
  for (uint64_t step = 1; step <= 9; ++step) Line(step, 10, static_cast<double>(step) * 10);
  ASSERT_TRUE(recorder_->Record(RolledBack{7, "stopped", true}).ok());
  EXPECT_EQ(recorder_->summary().final_loss, 7);
  EXPECT_EQ(recorder_->summary().steps, 7u);
}

StepLine LineWith(const std::vector<std::string>& names, const MetricSums& sums) {
  StepLine line;
  line.report.set_step(1);
  line.report.set_examples(8);
  for (const std::string& name : names) line.report.add_metric_names(name);
  ToProto(sums, line.report.mutable_metrics());
  return line;
}

TEST_F(RunRecorderTest, TheAccuracyOfAProgramIsThatOfItsOwnSumsAndIsAbsentIfNeverReported) {
  StepLine line = LineWith({"accuracy"}, {{2, 3, {}}});
  line.evaluation = EvaluationSums{1, 0, 7, {{5, 7, {}}}};
  recorder_->Record(line);
  StepMetrics read = *LastMetricsLine(files_.get(), directory_ + "/metrics.jsonl");
  EXPECT_DOUBLE_EQ(*read.accuracy, 2.0 / 3);
  EXPECT_DOUBLE_EQ(*read.eval_accuracy, 5.0 / 7);
  EXPECT_TRUE(read.named.empty());
  EXPECT_TRUE(read.eval_named.empty());
  EXPECT_THAT(printed_, HasSubstr("test accuracy 0.7143"));
  printed_.clear();

  line = LineWith({"accuracy"}, {{0, 0, {}}});
  line.report.set_step(2);
  line.evaluation = EvaluationSums{1, 0, 7, {{0, 0, {}}}};
  recorder_->Record(line);
  read = *LastMetricsLine(files_.get(), directory_ + "/metrics.jsonl");
  EXPECT_EQ(read.accuracy, std::nullopt);
  EXPECT_EQ(read.eval_accuracy, std::nullopt);
  EXPECT_THAT(printed_, Not(HasSubstr("accuracy")));
}

TEST_F(RunRecorderTest, AMetricThatIsNotFiniteIsNullAndNamedOnce) {
  const double nan = std::nan("");
  for (uint64_t step = 1; step <= 3; ++step) {
    StepLine line = LineWith({"f1", "auc"}, {{step == 1 ? 1 : nan, 2, {}}, {1, 2, {}}});
    line.report.set_step(step);
    recorder_->Record(line);
    const StepMetrics read = *LastMetricsLine(files_.get(), directory_ + "/metrics.jsonl");
    EXPECT_EQ(read.named.at("f1").has_value(), step == 1);
    EXPECT_EQ(read.named.at("auc"), 0.5);
  }
  const std::string warning = "the metric f1 of step 2 is not finite and is recorded as null";
  EXPECT_THAT(printed_, HasSubstr(warning));
  EXPECT_THAT(printed_, Not(HasSubstr("of step 3 is not finite")));
  v1::GetRunStatusResponse status;
  recorder_->Describe(&status);
  EXPECT_THAT(status.metric_warning(), HasSubstr(warning));
}

TEST_F(RunRecorderTest, EachMetricThatIsNotFiniteIsNamedInTheSummary) {
  EXPECT_EQ(recorder_->summary().metric_warning, std::nullopt);
  const double nan = std::nan("");
  recorder_->Record(LineWith({"f1", "auc"}, {{nan, 2, {}}, {nan, 2, {}}}));
  EXPECT_THAT(*recorder_->summary().metric_warning, HasSubstr("the metric f1 of step 1 is not"));
  EXPECT_THAT(*recorder_->summary().metric_warning,
              HasSubstr("\nwarning: the metric auc of step 1 is not"));
}

TEST_F(RunRecorderTest, ASkippedBatchIsShownWhenItIsSkipped) {
  SessionNote note{"batch 3 of epoch 1 is skipped: a loss", SessionNote::Kind::kTrouble, false, ""};
  recorder_->OnNote(note);
  EXPECT_THAT(printed_, Not(HasSubstr("skipped")));
  note.kind = SessionNote::Kind::kSkip;
  recorder_->OnNote(note);
  EXPECT_THAT(printed_, HasSubstr("warning: batch 3 of epoch 1 is skipped: a loss\n"));
}

TEST_F(RunRecorderTest, TheWarningOfOtherInitialValuesNamesTheVariableAsLongAsTheFilesAreThere) {
  const auto newest_event = [this](const InitialValuesDiffer& differ) {
    recorder_->Record(differ);
    RunPage page;
    recorder_->history().Describe(&page);
    return page.events.empty() ? "" : page.events[0].text;
  };
  ASSERT_TRUE(files_->MakeDirectory(directory_ + "/initial").ok());
  SafetensorsHeader header;
  header.tensors.push_back({"a.weight", "F32", {1}, 0, 4});
  for (const uint64_t values : {7, 8}) {
    const std::string data(4, static_cast<char>(values));
    ASSERT_TRUE(WriteAtomically(*files_, InitialValuesPath(directory_, values),
                                EncodeSafetensorsHeader(header) + data)
                    .ok());
  }
  EXPECT_EQ(newest_event({1, 8, 7}),
            "the initial values of worker/1 differ from those in use (a.weight): the program's "
            "random numbers differ between workers; give all workers the same seed");
  ASSERT_TRUE(RemoveInitialValues(*files_, directory_).ok());
  EXPECT_EQ(newest_event({2, 8, 7}),
            "the initial values of worker/2 differ from those in use: the program's random numbers "
            "differ between workers; give all workers the same seed");
}

TEST_F(RunRecorderTest, MetricsAreRecordedByName) {
  StepLine line = LineWith({"f1", "auc", "rare"}, {{3, 12, {}}, {1, 4, {}}, {0, 0, {}}});
  line.evaluation = EvaluationSums{1, 0, 2, {{1, 2, {}}, {3, 4, {}}, {0, 0, {}}}};
  recorder_->Record(line);
  EXPECT_THAT(*ReadFile(*files_, directory_ + "/metrics.jsonl"),
              HasSubstr("\"auc\": 0.25, \"f1\": 0.25, \"rare\": null, \"eval_loss\": 0.5, "
                        "\"eval_examples\": 2, \"eval_auc\": 0.75, \"eval_f1\": 0.5, "
                        "\"eval_rare\": null}"));
  EXPECT_THAT(printed_, HasSubstr("step 1: test loss 0.5000, test auc 0.7500, test f1 0.5000"));
  MetricPage page;
  CollectChief(recorder_->metrics(), v1::GetRunStatusResponse(), &page);
  EXPECT_THAT(page.ToText(), HasSubstr("shoal_metric{metric=\"auc\"} 0.25"));
  EXPECT_THAT(page.ToText(), HasSubstr("shoal_evaluation_metric{metric=\"f1\"} 0.5"));
  EXPECT_THAT(page.ToText(), Not(HasSubstr("rare")));
}

TEST_F(RunRecorderTest, ALineHasTheFiguresOfTables) {
  StepLine line;
  line.report.set_step(1);
  v1::GetRunStatusResponse::Table& item = line.tables.emplace_back();
  item.set_name("item");
  item.set_rows(5);
  item.set_bytes(320);
  item.set_rows_per_second(1.5);
  item.set_keys_read(40);
  item.set_rows_found(30);
  recorder_->Record(line);
  Line(2, 10);
  const std::string text = *ReadFile(*files_, directory_ + "/metrics.jsonl");
  const std::vector<std::string> lines = absl::StrSplit(text, '\n', absl::SkipEmpty());
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_THAT(lines[0], HasSubstr("\"table:item:rows\": 5, \"table:item:bytes\": 320, "
                                  "\"table:item:rows_per_second\": 1.5, "
                                  "\"table:item:keys_read\": 40, \"table:item:rows_found\": 30"));
  EXPECT_THAT(lines[1], Not(HasSubstr("table:")));
}

TEST_F(RunRecorderTest, LinesThatAreAnotherChiefsAreNotCut) {
  Line(1, 10);
  Line(2, 10);
  may_write_ = absl::AbortedError("a newer chief");
  EXPECT_TRUE(absl::IsAborted(recorder_->Record(RolledBack{1, ""})));
  EXPECT_EQ(recorder_->summary().examples, 20u);
}

TEST_F(RunRecorderTest, LinesAreCutLaterIfTheTermCannotBeReadNow) {
  for (uint64_t step = 1; step <= 5; ++step) Line(step, 10);
  may_write_ = absl::InternalError("TERM: input/output error");
  EXPECT_TRUE(recorder_->Record(RolledBack{2, ""}).ok());
  EXPECT_EQ(recorder_->summary().steps, 2u);
  Line(3, 7);
  EXPECT_EQ(StepsInFile(), (std::vector<uint64_t>{1, 2, 3, 4, 5})) << "whose they are is not known";
  may_write_ = absl::OkStatus();
  Line(4, 7);
  EXPECT_EQ(StepsInFile(), (std::vector<uint64_t>{1, 2, 3, 4}));
  EXPECT_EQ(recorder_->summary().examples, 34u);
}

TEST_F(RunRecorderTest, LinesThatWaitAreWrittenWithoutANewStep) {
  for (uint64_t step = 1; step <= 5; ++step) Line(step, 10);
  may_write_ = absl::InternalError("TERM: input/output error");
  EXPECT_TRUE(recorder_->Record(RolledBack{2, ""}).ok());
  Line(3, 7);
  recorder_->WriteWaitingLines();
  v1::GetRunStatusResponse run;
  recorder_->Describe(&run);
  EXPECT_THAT(run.metrics_failure(), HasSubstr("TERM: input/output error"));
  EXPECT_THAT(run.metrics_failure(), Not(HasSubstr("INTERNAL"))) << "users read it";
  may_write_ = absl::OkStatus();
  recorder_->WriteWaitingLines();
  EXPECT_EQ(StepsInFile(), (std::vector<uint64_t>{1, 2, 3}));
  recorder_->Describe(&run);
  EXPECT_EQ(run.metrics_failure(), "");
}

TEST_F(RunRecorderTest, LinesThatTurnOutToBeAnotherChiefsAreNotCut) {
  for (uint64_t step = 1; step <= 5; ++step) Line(step, 10);
  may_write_ = absl::InternalError("TERM: input/output error");
  EXPECT_TRUE(recorder_->Record(RolledBack{2, ""}).ok());
  may_write_ = absl::AbortedError("a newer chief");
  Line(3, 7);
  EXPECT_TRUE(absl::IsAborted(recorder_->FlushLines()));
  EXPECT_EQ(StepsInFile(), (std::vector<uint64_t>{1, 2, 3, 4, 5}));
}

TEST_F(RunRecorderTest, FailedCheckpointsAreLoggedOnceAndRemovedEachTime) {
  ASSERT_TRUE(recorder_->OnCheckpointFailed({"a", "step 10: no space"}).ok());
  ASSERT_TRUE(recorder_->OnCheckpointFailed({"a", ""}).ok());
  ASSERT_TRUE(recorder_->OnCheckpointFailed({"b", "step 20: no space"}).ok());
  EXPECT_THAT(printed_, HasSubstr("warning: no checkpoint could be made at step 10: no space"));
  EXPECT_THAT(printed_, Not(HasSubstr("step 20")));
  EXPECT_THAT(discarded_, ElementsAre("a", "a", "b"));
  // One was made: the next that fails is news again.
  ASSERT_TRUE(recorder_->Publish(ManifestToWrite()).ok());
  ASSERT_TRUE(recorder_->OnCheckpointFailed({"c", "step 40: no space"}).ok());
  EXPECT_THAT(printed_, HasSubstr("step 40"));
}

}  // namespace
}  // namespace shoal

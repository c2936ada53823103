#include "runtime/observability/metrics_file.h"

#include <cmath>
#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/faulty_file_system.h"
#include "base/file_system.h"
#include "base/json.h"
#include "base/status_matchers.h"
#include "runtime/observability/summary.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class MetricsFileTest : public ::testing::Test {
 protected:
  MetricsFileTest() : path_(::testing::TempDir() + "/metrics.jsonl") {
    file_system_->Remove(path_).IgnoreError();
  }

  std::unique_ptr<MetricsFile> Open(uint64_t last_step) {
    auto file = MetricsFile::Open(file_system_.get(), path_, last_step);
    EXPECT_TRUE(file.ok()) << file.status();
    return *std::move(file);
  }

  std::string Content() {
    auto file = file_system_->OpenForRead(path_);
    std::string text(*(*file)->Size(), '\0');
    EXPECT_TRUE((*file)->Read(0, absl::MakeSpan(text)).ok());
    return text;
  }

  static StepMetrics Step(uint64_t step) {
    StepMetrics metrics;
    metrics.step = step;
    metrics.loss = 0.5;
    metrics.examples = 64;
    return metrics;
  }

  const std::unique_ptr<FileSystem> file_system_ = NewPosixFileSystem();
  const std::string path_;
};

TEST_F(MetricsFileTest, FiguresOfTablesAreFieldsOfTheirOwn) {
  StepMetrics metrics = Step(7);
  metrics.named["auc"] = 0.7;
  metrics.tables["user"] = {1000, 64000, 2.5, 400, 100};
  metrics.tables["item.c1"] = {7, 448, 0.0, 0, 0};
  const std::string line = MetricsLine(metrics);
  EXPECT_THAT(line, HasSubstr("\"table:user:rows\": 1000, \"table:user:bytes\": 64000, "
                              "\"table:user:rows_per_second\": 2.5, \"table:user:keys_read\": "
                              "400, \"table:user:rows_found\": 100}"));
  const absl::StatusOr<StepMetrics> again = ParseMetricsLine(line);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->named.size(), 1u);
  ASSERT_EQ(again->tables.size(), 2u);
  EXPECT_EQ(again->tables.at("user").rows, 1000u);
  EXPECT_EQ(again->tables.at("user").bytes, 64000u);
  EXPECT_EQ(*again->tables.at("user").rows_per_second, 2.5);
  EXPECT_EQ(again->tables.at("user").keys_read, 400u);
  EXPECT_EQ(again->tables.at("user").rows_found, 100u);
  EXPECT_EQ(again->tables.at("item.c1").rows, 7u);
}

TEST_F(MetricsFileTest, ALineIsReadBackAsItWasWritten) {
  StepMetrics metrics = Step(7);
  metrics.epoch = 2;
  metrics.loss = 0.1 + 0.2;
  metrics.accuracy = 0.25;
  metrics.learning_rate = 1e-3;
  metrics.eval_accuracy = 0.9;
  metrics.staleness = 4;
  const absl::StatusOr<StepMetrics> again = ParseMetricsLine(MetricsLine(metrics));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->step, 7u);
  EXPECT_EQ(again->epoch, 2u);
  EXPECT_EQ(again->loss, 0.1 + 0.2);
  EXPECT_EQ(*again->accuracy, 0.25);
  EXPECT_EQ(again->learning_rate, 1e-3);
  EXPECT_EQ(*again->eval_accuracy, 0.9);
  EXPECT_EQ(*again->staleness, 4u);
  EXPECT_FALSE(again->eval_loss.has_value());
}

TEST_F(MetricsFileTest, AbsentAndNonFiniteValuesAreNull) {
  StepMetrics metrics = Step(1);
  metrics.loss = std::nan("");
  const std::string line = MetricsLine(metrics);
  EXPECT_THAT(line, HasSubstr("\"loss\": null"));
  EXPECT_THAT(line, HasSubstr("\"accuracy\": null"));
  EXPECT_THAT(line, Not(HasSubstr("eval_")));
}

TEST(MetricsLineTest, MetricsHaveFieldsOfTheirNames) {
  StepMetrics metrics;
  metrics.step = 3;
  metrics.named = {{"val/f1", 0.25}, {"auc", std::nullopt}};
  metrics.eval_loss = 2;
  metrics.eval_named = {{"auc", 0.75}};
  const std::string line = MetricsLine(metrics);
  EXPECT_EQ(line,
            "{\"step\": 3, \"epoch\": 0, \"loss\": 0, \"accuracy\": null, \"examples\": 0, "
            "\"examples_per_second\": 0, \"learning_rate\": 0, \"auc\": null, \"val/f1\": 0.25, "
            "\"eval_loss\": 2, \"eval_auc\": 0.75}\n");
  const absl::StatusOr<StepMetrics> again = ParseMetricsLine(line);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->named, metrics.named);
  EXPECT_EQ(again->eval_named, metrics.eval_named);
  EXPECT_TRUE(ParseMetricsLine("{\"step\": 1, \"note\": \"a text\"}")->named.empty());
}

TEST(MetricsLineTest, ANullLossIsNaN) {
  const absl::StatusOr<StepMetrics> line = ParseMetricsLine("{\"step\": 3, \"loss\": null}");
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_TRUE(std::isnan(line->loss));
}

TEST_F(MetricsFileTest, StepsOnlyIncrease) {
  auto file = Open(0);
  ASSERT_TRUE(file->Append(Step(1)).ok());
  ASSERT_TRUE(file->Append(Step(2)).ok());
  EXPECT_EQ(file->Append(Step(2)).code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(file->Append(Step(5)).ok());
  EXPECT_EQ(Content(), MetricsLine(Step(1)) + MetricsLine(Step(2)) + MetricsLine(Step(5)));
}

TEST_F(MetricsFileTest, ARollbackRemovesLinesAndContinues) {
  auto file = Open(0);
  for (uint64_t step = 1; step <= 5; ++step) ASSERT_TRUE(file->Append(Step(step)).ok());
  ASSERT_TRUE(file->CutBackTo(3).ok());
  EXPECT_EQ(file->last_step(), 3u);
  ASSERT_TRUE(file->Append(Step(4)).ok());
  EXPECT_EQ(Content(), MetricsLine(Step(1)) + MetricsLine(Step(2)) + MetricsLine(Step(3)) +
                           MetricsLine(Step(4)));
}

TEST_F(MetricsFileTest, OpeningDropsLaterStepsAndATornLine) {
  {
    auto writer = file_system_->Create(path_);
    ASSERT_TRUE((*writer)
                    ->Append(MetricsLine(Step(1)) + MetricsLine(Step(2)) + MetricsLine(Step(3)) +
                             "{\"step\": 4, \"lo")
                    .ok());
  }
  EXPECT_EQ(Open(9)->last_step(), 3u);
  EXPECT_EQ(Open(2)->last_step(), 2u);
  EXPECT_EQ(Content(), MetricsLine(Step(1)) + MetricsLine(Step(2)));
}

TEST_F(MetricsFileTest, AMissingDirectoryIsNamed) {
  const auto file = MetricsFile::Open(file_system_.get(), "/nowhere/metrics.jsonl", 0);
  EXPECT_THAT(file.status().message(), HasSubstr("/nowhere/metrics.jsonl"));
}

TEST_F(MetricsFileTest, TheLastEvaluationIsFound) {
  EXPECT_TRUE(absl::IsNotFound(LastEvaluation(file_system_.get(), path_).status()));
  std::string text;
  for (uint64_t step = 1; step <= 5; ++step) {
    StepMetrics metrics = Step(step);
    if (step % 2 == 0) {
      metrics.eval_loss = 0.1 * static_cast<double>(step);
      metrics.eval_examples = 10;
      metrics.eval_named["f1"] = 0.5;
    }
    text += MetricsLine(metrics);
    ASSERT_TRUE(WriteAtomically(*file_system_, path_, text).ok());
    const absl::StatusOr<StepMetrics> last = LastEvaluation(file_system_.get(), path_);
    if (step == 1) {
      EXPECT_TRUE(absl::IsNotFound(last.status()));
      continue;
    }
    ASSERT_TRUE(last.ok()) << last.status();
    EXPECT_EQ(last->step, step / 2 * 2);
    EXPECT_EQ(last->eval_named.at("f1"), 0.5);
  }
  // Its end is still being written.
  text += "{\"step\": 6, \"eval_examples\": 1";
  ASSERT_TRUE(WriteAtomically(*file_system_, path_, text).ok());
  EXPECT_EQ(LastEvaluation(file_system_.get(), path_)->step, 4u);
}

TEST(SummaryTest, AbsentValuesAreNullAndItIsReadBack) {
  const std::unique_ptr<FileSystem> file_system = NewPosixFileSystem();
  Summary summary;
  summary.status = "stopped";
  summary.exit_reason = "Ctrl-C \"twice\"\n";
  summary.steps = 12;
  summary.skipped_batches = 4;
  summary.test_step = 8;
  summary.test_accuracy = 0.9;
  EXPECT_EQ(
      SummaryJson(summary),
      "{\"status\": \"stopped\", \"exit_reason\": \"Ctrl-C \\\"twice\\\"\\n\", \"steps\": "
      "12, \"epochs\": null, \"first_step\": null, \"examples\": null, \"skipped_batches\": 4, "
      "\"seconds\": null, "
      "\"train_seconds\": null, "
      "\"examples_per_second\": null, \"final_loss\": null, \"test_step\": 8, \"test_loss\": null, "
      "\"test_accuracy\": 0.9, \"checkpoint\": null, \"checkpoint_failure\": null, "
      "\"metric_warning\": null}\n");
  summary.exit_reason = "ok";
  summary.checkpoint = "/a/b";
  summary.checkpoint_failure = "no space";
  summary.metric_warning = "f1 of step 1\nauc of step 2";
  ASSERT_TRUE(WriteSummary(file_system.get(), ::testing::TempDir(), summary).ok());
  const absl::StatusOr<Summary> again = ReadSummary(file_system.get(), ::testing::TempDir());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->skipped_batches, 4u);
  EXPECT_EQ(again->metric_warning, summary.metric_warning);
  EXPECT_EQ(SummaryJson(*again), SummaryJson(summary));
  EXPECT_TRUE(absl::IsNotFound(ReadSummary(file_system.get(), "/nowhere").status()));
}

TEST(SummaryTest, FiguresOfTablesAreReadBack) {
  const std::unique_ptr<FileSystem> file_system = NewPosixFileSystem();
  Summary summary;
  summary.status = "finished";
  summary.tables["item"] = {1000, 64000, std::nullopt, 400, 100};
  EXPECT_THAT(SummaryJson(summary),
              HasSubstr("\"table:item:rows\": 1000, \"table:item:bytes\": 64000, "
                        "\"table:item:keys_read\": 400, \"table:item:rows_found\": 100}"));
  ASSERT_TRUE(WriteSummary(file_system.get(), ::testing::TempDir(), summary).ok());
  const absl::StatusOr<Summary> again = ReadSummary(file_system.get(), ::testing::TempDir());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(again->test_named.empty());
  EXPECT_EQ(SummaryJson(*again), SummaryJson(summary));
}

TEST(SummaryTest, MetricsAreFieldsOfTheTest) {
  const std::unique_ptr<FileSystem> file_system = NewPosixFileSystem();
  Summary summary;
  summary.test_step = 3;
  summary.test_loss = 0.5;
  summary.test_named = {{"auc", 0.875}, {"f1", std::nullopt}};
  EXPECT_THAT(SummaryJson(summary), HasSubstr("\"test_accuracy\": null, \"test_auc\": 0.875, "
                                              "\"test_f1\": null, \"checkpoint\""));
  ASSERT_TRUE(WriteSummary(file_system.get(), ::testing::TempDir(), summary).ok());
  const absl::StatusOr<Summary> again = ReadSummary(file_system.get(), ::testing::TempDir());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->test_named, summary.test_named);
  EXPECT_EQ(again->test_step, 3u);
}

TEST(JsonTest, OnlyFlatObjectsAreRead) {
  for (const char* bad : {"", "{", "[]", "{\"a\"}", "{\"a\": }", "{\"a\": {}}", "{\"a\": [1]}",
                          "{\"a\": 1} x", "{\"a\": \"b", "{a: 1}", "{\"a\": 1,}"}) {
    EXPECT_FALSE(ParseFlatJson(bad).ok()) << bad;
  }
  EXPECT_TRUE(ParseFlatJson("{}")->empty());
  EXPECT_EQ(ParseFlatJson(" {\"a\\\"\" : -1.5e3 , \"b\":true}\n")->at("a\""), "-1.5e3");
}

TEST_F(MetricsFileTest, TheLastWholeLineIsFound) {
  EXPECT_TRUE(absl::IsNotFound(LastMetricsLine(file_system_.get(), path_).status()));
  auto file = Open(0);
  ASSERT_TRUE(file->Append(Step(3)).ok());
  EXPECT_EQ(LastMetricsLine(file_system_.get(), path_)->step, 3u);
  ASSERT_TRUE(file->Append(Step(4)).ok());
  auto torn = std::move(file_system_->OpenForAppend(path_)).value();
  ASSERT_TRUE(torn->Append("{\"step\": 5").ok());
  EXPECT_EQ(LastMetricsLine(file_system_.get(), path_)->step, 4u);
}

std::string ContentOn(FileSystem& disk, const std::string& path) {
  auto file = disk.OpenForRead(path);
  EXPECT_TRUE(file.ok()) << file.status();
  std::string text(*(*file)->Size(), '\0');
  EXPECT_TRUE((*file)->Read(0, absl::MakeSpan(text)).ok());
  return text;
}

StepMetrics LineOf(uint64_t step) {
  StepMetrics metrics;
  metrics.step = step;
  metrics.examples = 64;
  return metrics;
}

TEST(MetricsOnAFullDiskTest, NoLineIsTornAndNoneIsLostOnceThereIsRoom) {
  FaultyFileSystem disk;
  const auto file = std::move(MetricsFile::Open(&disk, "metrics.jsonl", 0)).value();
  ASSERT_TRUE(file->Append(LineOf(1)).ok());
  const size_t line = MetricsLine(LineOf(1)).size();
  disk.SetCapacity(line + line / 2);
  EXPECT_FALSE(file->Append(LineOf(2)).ok());
  EXPECT_FALSE(file->Append(LineOf(3)).ok());
  EXPECT_EQ(ContentOn(disk, "metrics.jsonl"), MetricsLine(LineOf(1)));
  disk.SetCapacity(1 << 20);
  ASSERT_TRUE(file->Append(LineOf(4)).ok());
  EXPECT_EQ(ContentOn(disk, "metrics.jsonl"), MetricsLine(LineOf(1)) + MetricsLine(LineOf(2)) +
                                                  MetricsLine(LineOf(3)) + MetricsLine(LineOf(4)));
}

TEST(MetricsOnAFullDiskTest, ALineIsTakenOnceThereIsRoomForTheManyThatWait) {
  FaultyFileSystem disk;
  const auto file = std::move(MetricsFile::Open(&disk, "metrics.jsonl", 0)).value();
  disk.SetCapacity(0);
  StepMetrics huge = LineOf(1);
  huge.named[std::string(size_t{65} << 20, 'x')] = 1;
  EXPECT_FALSE(file->Append(huge).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(file->Append(LineOf(2)))) << "too much waits";
  disk.SetCapacity(size_t{1} << 30);
  ASSERT_TRUE(file->Append(LineOf(3)).ok());
  EXPECT_EQ(ContentOn(disk, "metrics.jsonl"), MetricsLine(huge) + MetricsLine(LineOf(3)));
}

TEST(MetricsOnAFullDiskTest, ACutKeepsTheLinesThatWait) {
  FaultyFileSystem disk;
  const auto file = std::move(MetricsFile::Open(&disk, "metrics.jsonl", 0)).value();
  ASSERT_TRUE(file->Append(LineOf(1)).ok());
  disk.SetCapacity(0);
  EXPECT_FALSE(file->Append(LineOf(2)).ok());
  EXPECT_FALSE(file->Append(LineOf(3)).ok());
  EXPECT_FALSE(file->CutBackTo(2).ok());
  EXPECT_FALSE(file->Append(LineOf(4)).ok()) << "after a cut that failed the file is still usable";
  disk.SetCapacity(1 << 20);
  ASSERT_TRUE(file->CutBackTo(2).ok());
  ASSERT_TRUE(file->Append(LineOf(3)).ok());
  EXPECT_EQ(ContentOn(disk, "metrics.jsonl"),
            MetricsLine(LineOf(1)) + MetricsLine(LineOf(2)) + MetricsLine(LineOf(3)));
}

TEST(MetricsOnAFullDiskTest, LinesAfterACutThatFailedAreTakenAndReplaceTheVoidOnes) {
  FaultyFileSystem disk;
  const auto file = std::move(MetricsFile::Open(&disk, "metrics.jsonl", 0)).value();
  for (uint64_t step = 1; step <= 5; ++step) ASSERT_TRUE(file->Append(LineOf(step)).ok());
  disk.SetCapacity(0);
  EXPECT_TRUE(absl::IsResourceExhausted(file->CutBackTo(2)));
  EXPECT_EQ(file->last_step(), 2u);
  EXPECT_TRUE(absl::IsResourceExhausted(file->Append(LineOf(3))));
  EXPECT_TRUE(absl::IsFailedPrecondition(file->Append(LineOf(3)))) << "steps still only increase";
  EXPECT_TRUE(absl::IsResourceExhausted(file->CutBackTo(1))) << "a second rollback";
  EXPECT_TRUE(absl::IsResourceExhausted(file->Append(LineOf(2))));
  disk.SetCapacity(1 << 20);
  ASSERT_TRUE(file->Append(LineOf(3)).ok());
  EXPECT_EQ(ContentOn(disk, "metrics.jsonl"),
            MetricsLine(LineOf(1)) + MetricsLine(LineOf(2)) + MetricsLine(LineOf(3)));
}

}  // namespace
}  // namespace shoal

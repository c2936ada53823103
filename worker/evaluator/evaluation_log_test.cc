#include "worker/evaluator/evaluation_log.h"

#include <cstdlib>
#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/fake_clock.h"
#include "base/file_system.h"
#include "base/status_matchers.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class EvaluationLogTest : public ::testing::Test {
 protected:
  EvaluationLogTest() {
    std::string pattern = ::testing::TempDir() + "/evaluator.XXXXXX";
    out_ = mkdtemp(pattern.data());
  }
  std::unique_ptr<EvaluationLog> Open(const std::string& name = "evaluator") {
    return std::move(EvaluationLog::Open(files_.get(), &clock_, out_, name).value());
  }
  std::string Lines() { return ReadFile(*files_, out_ + "/evaluator.jsonl").value(); }

  const std::unique_ptr<FileSystem> files_ = NewPosixFileSystem();
  FakeClock clock_;
  std::string out_;
};

TEST_F(EvaluationLogTest, ALineHasTheDocumentedFieldsInOrder) {
  EXPECT_OK(Open()->Add("ckpt-20", {20, 1000, 0.5, true, 0.75}, absl::Milliseconds(250)));
  EXPECT_THAT(Lines(), StartsWith("{\"step\": 20, \"checkpoint\": \"ckpt-20\", \"loss\": 0.5, "
                                  "\"accuracy\": 0.75, \"examples\": 1000, \"seconds\": 0.25, "
                                  "\"unix_seconds\": "));
  EXPECT_EQ(Lines().back(), '\n');
}

TEST_F(EvaluationLogTest, MetricsAreFieldsBehindTheOthers) {
  const Evaluation evaluation{20, 1000, 0.5, true, 0.75, {{"f1", 0.25}, {"rare", std::nullopt}}};
  EXPECT_OK(Open()->Add("ckpt-20", evaluation, absl::ZeroDuration()));
  EXPECT_THAT(Lines(), HasSubstr(", \"eval_f1\": 0.25, \"eval_rare\": null}\n"));
}

TEST_F(EvaluationLogTest, AModelThatDoesNotClassifyHasNoAccuracy) {
  EXPECT_OK(Open()->Add("ckpt-20", {20, 1000, 0.5, false, 0}, absl::ZeroDuration()));
  EXPECT_THAT(Lines(), HasSubstr("\"accuracy\": null"));
}

TEST_F(EvaluationLogTest, LogsOfAnotherNameAreApart) {
  EXPECT_OK(Open()->Add("ckpt-20", {20, 1000, 0.5, true, 0.75}, absl::ZeroDuration()));
  const std::string lines = Lines();
  const std::unique_ptr<EvaluationLog> averages = Open("evaluator_averages");
  EXPECT_FALSE(averages->Has("ckpt-20"));
  EXPECT_OK(averages->Add("ckpt-20", {20, 1000, 0.4, true, 0.8}, absl::ZeroDuration()));
  EXPECT_EQ(Lines(), lines);
  EXPECT_THAT(ReadFile(*files_, out_ + "/evaluator_averages.jsonl").value(),
              HasSubstr("\"loss\": 0.4,"));
}

TEST_F(EvaluationLogTest, KnowsWhatAnEarlierOneWroteAndDropsATornLine) {
  EXPECT_OK(Open()->Add("ckpt-20", {20, 1000, 0.5, true, 0.75}, absl::ZeroDuration()));
  const std::string first = Lines();
  EXPECT_OK(WriteAtomically(*files_, out_ + "/evaluator.jsonl", first + "{\"step\": 40, \"che"));
  const std::unique_ptr<EvaluationLog> log = Open();
  EXPECT_TRUE(log->Has("ckpt-20"));
  EXPECT_FALSE(log->Has("ckpt-40"));
  EXPECT_OK(log->Add("ckpt-40", {40, 1000, 0.4, true, 0.8}, absl::ZeroDuration()));
  EXPECT_THAT(Lines(), StartsWith(first + "{\"step\": 40, \"checkpoint\": \"ckpt-40\""));
  EXPECT_TRUE(log->Has("ckpt-40"));
}

}  // namespace
}  // namespace shoal

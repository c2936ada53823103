#include "runtime/observability/metrics_events.h"

#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "base/fake_clock.h"
#include "base/faulty_file_system.h"
#include "base/status_matchers.h"
#include "ml/data/records/tf_record_file.h"
#include "runtime/observability/event.pb.h"

namespace shoal {
namespace {

class MetricsEventsTest : public ::testing::Test {
 protected:
  void Record(uint64_t step, std::optional<double> eval_accuracy = std::nullopt) {
    StepMetrics metrics;
    metrics.step = step;
    metrics.loss = 1.0 / static_cast<double>(step);
    metrics.accuracy = 0.5;
    metrics.learning_rate = 0.125;
    metrics.examples_per_second = 1000;
    metrics.eval_accuracy = eval_accuracy;
    if (eval_accuracy.has_value()) metrics.eval_loss = 0.25;
    metrics.named = named_;
    if (eval_accuracy.has_value()) metrics.eval_named = named_;
    EXPECT_OK(events_.Record(metrics));
  }

  // (step, tag) -> value, of what stands.
  std::map<std::pair<int64_t, std::string>, float> Read(const std::string& run) {
    std::map<std::pair<int64_t, std::string>, float> values;
    const auto names = files_.List(absl::StrCat("events/", run));
    if (!names.ok()) return values;
    const auto records =
        TfRecordFile::Open(files_, absl::StrCat("events/", run, "/", names->at(0)));
    EXPECT_OK(records);
    std::string buffer;
    for (int64_t i = 0; i < (*records)->size(); ++i) {
      tensorboard::Event event;
      EXPECT_TRUE(event.ParseFromString(std::string(*(*records)->Read(i, &buffer))));
      if (event.has_session_log()) {
        values.erase(values.lower_bound({event.step(), ""}), values.end());
      }
      for (const auto& value : event.summary().value()) {
        values[{event.step(), value.tag()}] = value.simple_value();
      }
    }
    return values;
  }

  FakeClock clock_{absl::FromUnixSeconds(1)};
  MetricValues named_;
  FaultyFileSystem files_;
  MetricsEvents events_{&files_, &clock_, "events", 10};
};

TEST_F(MetricsEventsTest, MetricsHaveTagsOfTheirNames) {
  named_ = {{"f1", 0.25}, {"rare", std::nullopt}};
  Record(1, 0.75);
  const auto train = Read("train");
  EXPECT_EQ(train.at({1, "f1"}), 0.25f);
  EXPECT_EQ(train.count({1, "rare"}), 0u);
  EXPECT_EQ(Read("test").at({1, "f1"}), 0.25f);
}

TEST_F(MetricsEventsTest, RecordsTheFirstStepAndEveryTenth) {
  for (uint64_t step = 1; step <= 25; ++step) Record(step);
  const auto train = Read("train");
  EXPECT_EQ(train.size(), 12u);
  EXPECT_EQ(train.at({1, "loss"}), 1);
  EXPECT_EQ(train.at({20, "loss"}), 0.05f);
  EXPECT_EQ(train.at({20, "accuracy"}), 0.5f);
  EXPECT_EQ(train.at({20, "learning_rate"}), 0.125f);
  EXPECT_EQ(train.at({20, "examples_per_second"}), 1000);
  EXPECT_FALSE(files_.GetInfo("events/test").ok());
}

TEST_F(MetricsEventsTest, RecordsEveryEvaluation) {
  Record(3);
  Record(4, 0.75);
  const auto test = Read("test");
  EXPECT_EQ(test.size(), 2u);
  EXPECT_EQ(test.at({4, "accuracy"}), 0.75f);
  EXPECT_EQ(test.at({4, "loss"}), 0.25f);
}

TEST_F(MetricsEventsTest, AfterARollbackWhatCameLaterIsVoid) {
  for (uint64_t step = 1; step <= 30; ++step) Record(step);
  events_.GoBack();
  for (uint64_t step = 12; step <= 20; ++step) Record(step);
  const auto train = Read("train");
  EXPECT_EQ(train.count({1, "loss"}), 1u);
  EXPECT_EQ(train.count({10, "loss"}), 1u);
  EXPECT_EQ(train.count({12, "loss"}), 1u);
  EXPECT_EQ(train.count({20, "loss"}), 1u);
  EXPECT_EQ(train.count({30, "loss"}), 0u);
}

}  // namespace
}  // namespace shoal

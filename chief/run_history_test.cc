#include "chief/run_history.h"

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/fake_clock.h"
#include "base/file_system.h"

namespace shoal {
namespace {

using ::testing::EndsWith;

StepMetrics Line(uint64_t step) {
  StepMetrics line;
  line.step = step;
  line.loss = 1.0 / static_cast<double>(step);
  line.accuracy = 0.5;
  line.examples = 64;
  line.examples_per_second = 1000;
  return line;
}

class RunHistoryTest : public ::testing::Test {
 protected:
  RunPage Page() const {
    RunPage page;
    history_.Describe(&page);
    return page;
  }

  FakeClock clock_;
  RunHistory history_{&clock_};
};

TEST_F(RunHistoryTest, HasTheNewestLineAndTheCurves) {
  history_.SetPlan({0, 100, 50, 2});
  EXPECT_FALSE(Page().loss.has_value());
  for (uint64_t step = 1; step <= 10; ++step) history_.Add(Line(step));
  StepMetrics evaluated = Line(11);
  evaluated.eval_loss = 0.7;
  evaluated.eval_accuracy = 0.8;
  history_.Add(evaluated);
  history_.Add(Line(12));
  const RunPage page = Page();
  EXPECT_EQ(page.last_step, 100u);
  EXPECT_EQ(page.num_epochs, 2u);
  EXPECT_EQ(page.epoch, 0u);
  EXPECT_EQ(page.loss, 1.0 / 12);
  EXPECT_EQ(page.test_loss, 0.7);
  EXPECT_EQ(page.test_accuracy, 0.8);
  EXPECT_EQ(page.curves.loss.size(), 12u);
  ASSERT_EQ(page.curves.test_accuracy.size(), 1u);
  EXPECT_EQ(page.curves.test_accuracy[0].step, 11u);
}

TEST_F(RunHistoryTest, MetricsHaveCurvesByName) {
  for (uint64_t step = 1; step <= 10; ++step) {
    StepMetrics line = Line(step);
    line.named = {{"f1", static_cast<double>(step)}, {"rare", std::nullopt}};
    if (step % 5 == 0) line.eval_named = {{"f1", 0.5}, {"rare", std::nullopt}};
    history_.Add(line);
  }
  const RunPage page = Page();
  ASSERT_EQ(page.named.size(), 2u);
  EXPECT_EQ(page.named[0].name, "f1");
  EXPECT_EQ(page.named[0].value, 10.0);
  EXPECT_EQ(page.named[0].test_value, 0.5);
  EXPECT_EQ(page.named[0].train.size(), 10u);
  EXPECT_EQ(page.named[0].test.size(), 2u);
  EXPECT_FALSE(page.named[1].value.has_value());
  history_.GoBackTo(4);
  EXPECT_EQ(Page().named[0].train.size(), 4u);
  EXPECT_FALSE(Page().named[0].test_value.has_value());
}

TEST_F(RunHistoryTest, ARollbackTakesBackWhatIsVoid) {
  for (uint64_t step = 1; step <= 10; ++step) {
    StepMetrics line = Line(step);
    if (step % 5 == 0) line.eval_loss = static_cast<double>(step);
    history_.Add(line);
  }
  history_.OnCheckpoint("ckpt-5", 5);
  history_.OnCheckpoint("ckpt-10", 10);
  history_.DiscardAbove(7);
  history_.GoBackTo(7);
  const RunPage page = Page();
  EXPECT_EQ(page.curves.loss.back().step, 7u);
  EXPECT_EQ(page.test_loss, 5.0);
  ASSERT_EQ(page.checkpoints.size(), 2u);
  EXPECT_EQ(page.checkpoints[0].state, RunPage::Checkpoint::State::kVoid);
  EXPECT_EQ(page.checkpoints[1].state, RunPage::Checkpoint::State::kDurable);
  history_.GoBackTo(0);
  EXPECT_FALSE(Page().test_loss.has_value());
}

TEST_F(RunHistoryTest, HasTheMeanRateSinceTheLastStart) {
  history_.SetPlan({0, 100, 50, 2});
  for (uint64_t step = 1; step <= 10; ++step) history_.Add(Line(step));
  clock_.Advance(absl::Seconds(5));
  EXPECT_EQ(Page().mean_steps_per_second, 2);
  history_.GoBackTo(4);
  history_.SetPlan({0, 100, 50, 2});
  EXPECT_EQ(Page().mean_steps_per_second, 0);
  clock_.Advance(absl::Seconds(4));
  history_.Add(Line(5));
  EXPECT_EQ(Page().mean_steps_per_second, 0.25);
}

TEST_F(RunHistoryTest, KeepsTheNewestEventsAndCheckpoints) {
  for (uint64_t i = 1; i <= RunHistory::kMostEvents + 5; ++i) {
    history_.Add(Line(i));
    history_.AddEvent(absl::StrCat("event ", i), i % 2 == 0);
    history_.OnCheckpoint(absl::StrCat("ckpt-", i), i);
  }
  const RunPage page = Page();
  ASSERT_EQ(page.events.size(), RunHistory::kMostEvents);
  EXPECT_EQ(page.num_events, RunHistory::kMostEvents + 5);
  EXPECT_EQ(page.events[0].number, RunHistory::kMostEvents + 5);
  EXPECT_EQ(page.events[0].step, RunHistory::kMostEvents + 5);
  EXPECT_FALSE(page.events[0].is_trouble);
  EXPECT_TRUE(page.events[1].is_trouble);
  ASSERT_EQ(page.checkpoints.size(), RunHistory::kMostCheckpoints);
  EXPECT_EQ(page.checkpoints[0].step, RunHistory::kMostEvents + 5);
  history_.AddEvent(std::string(1 << 20, 'x'), true);
  EXPECT_LT(Page().events[0].text.size(), 2000u);
  EXPECT_THAT(Page().events[0].text, EndsWith(" …"));
}

TEST_F(RunHistoryTest, AWaitIsOneEventHoweverOftenItIsNoted) {
  history_.AddEvent("worker/0 is lost", true);
  for (int i = 1; i <= 200; ++i) {
    history_.AddEvent(absl::StrCat("waiting ", i, "0s for worker/0"), true, "wait 1");
    if (i == 100) history_.AddEvent("worker/1 is lost", true);
  }
  history_.AddEvent("waiting 10s for ps/0", true, "wait 2");
  const RunPage page = Page();
  ASSERT_EQ(page.events.size(), 4u);
  EXPECT_EQ(page.events[0].text, "waiting 10s for ps/0");
  EXPECT_EQ(page.events[1].text, "worker/1 is lost");
  EXPECT_EQ(page.events[2].text, "waiting 2000s for worker/0");
  EXPECT_EQ(page.events[3].text, "worker/0 is lost");
}

TEST_F(RunHistoryTest, CheckpointsAreExportedOrFail) {
  history_.Add(Line(40));
  history_.OnCheckpoint("ckpt-20", 20);
  history_.OnCheckpointFailed("step 40: no space");
  history_.OnExported("ckpt-20");
  const RunPage page = Page();
  ASSERT_EQ(page.checkpoints.size(), 2u);
  EXPECT_EQ(page.checkpoints[0].state, RunPage::Checkpoint::State::kFailed);
  EXPECT_EQ(page.checkpoints[0].text, "step 40: no space");
  EXPECT_FALSE(page.checkpoints[0].is_exported);
  EXPECT_TRUE(page.checkpoints[1].is_exported);
}

// A run that was resumed has its curves from the begin.
class EarlierLinesTest : public RunHistoryTest {
 protected:
  void Write(uint64_t num_lines) {
    std::string text;
    for (uint64_t step = 1; step <= num_lines; ++step) text += MetricsLine(Line(step));
    text += "{\"step\": 99";  // An incomplete line is left out.
    ASSERT_TRUE(WriteAtomically(*files_, path_, text).ok());
    history_.AddLinesFrom(files_.get(), path_);
  }

  const std::unique_ptr<FileSystem> files_ = NewPosixFileSystem();
  const std::string path_ = ::testing::TempDir() + "/metrics.jsonl";
};

TEST_F(EarlierLinesTest, ASmallFileIsReadWhole) {
  Write(2000);  // More than one block.
  EXPECT_EQ(Page().curves.loss.back().step, 2000u);
  double sum = 0;
  for (const CurvePoint& point : Page().curves.accuracy) sum += point.value;
  EXPECT_GT(Page().curves.loss.size(), 250u);
  EXPECT_EQ(sum, 0.5 * static_cast<double>(Page().curves.accuracy.size()));
}

TEST_F(EarlierLinesTest, ALargeFileIsReadInBlocks) {
  Write(150000);
  const std::vector<CurvePoint> loss = Page().curves.loss;
  EXPECT_LE(loss.size(), Curve::kMostPoints);
  EXPECT_GT(loss.size(), 100u);
  EXPECT_LT(loss.front().step, 3000u);
  EXPECT_GT(loss.back().step, 145000u);
}

TEST_F(EarlierLinesTest, AMissingFileAddsNoLines) {
  history_.AddLinesFrom(files_.get(), path_ + ".not_there");
  EXPECT_TRUE(Page().curves.loss.empty());
}

}  // namespace
}  // namespace shoal

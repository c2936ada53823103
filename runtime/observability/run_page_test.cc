#include "runtime/observability/run_page.h"

#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace shoal {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

const absl::Time kNow = absl::FromUnixSeconds(1795391047);  // 2026-11-22 23:44:07 UTC

RunPage Training() {
  RunPage page;
  page.run_name = "fashion";
  page.run_directory = "/runs/fashion";
  page.description = "synchronous, 2 ps, 2 workers";
  page.program = "shoal 2.5";
  page.state = RunPage::State::kTraining;
  page.now = kNow;
  page.step = 300;
  page.last_step = 400;
  page.epoch = 0;
  page.num_epochs = 1;
  page.steps_per_second = 4;
  page.examples_per_second = 512;
  page.uptime_seconds = 75;
  page.loss = 0.25;
  page.accuracy = 0.9;
  for (uint64_t step = 1; step <= 300; ++step) {
    page.curves.loss.push_back({step, 100.0 / static_cast<double>(step)});
    page.curves.accuracy.push_back({step, 0.9});
    page.curves.examples_per_second.push_back({step, 512});
  }
  return page;
}

// Counts how often the text is in the page.
size_t Times(const std::string& html, const std::string& text) {
  return std::vector<std::string>(absl::StrSplit(html, text)).size() - 1;
}

TEST(RunPageTest, AnEmptyRunHasAWholePage) {
  RunPage page;
  page.now = kNow;
  const std::string html = RunPageHtml(page);
  EXPECT_THAT(html, StartsWith("<!DOCTYPE html>"));
  EXPECT_THAT(html, HasSubstr("… starting"));
  EXPECT_THAT(html, HasSubstr("There is no value yet."));
  EXPECT_THAT(html, HasSubstr("No task has registered yet."));
  EXPECT_THAT(html, HasSubstr("There is no checkpoint yet."));
  EXPECT_THAT(html, HasSubstr("step 0</strong>"));
  EXPECT_THAT(html, Not(HasSubstr("nan")));
  EXPECT_THAT(html, Not(HasSubstr("role=\"progressbar\""))) << "its length is not known";
}

TEST(RunPageTest, ShowsProgressAndTimeLeft) {
  const std::string html = RunPageHtml(Training());
  EXPECT_THAT(html, HasSubstr("step 300 of 400 (75.0 %)"));
  EXPECT_THAT(html, HasSubstr("epoch 1 of 1"));
  EXPECT_THAT(html, HasSubstr("about 00:25 left"));
  RunPage slower = Training();
  slower.mean_steps_per_second = 2;
  EXPECT_THAT(RunPageHtml(slower), HasSubstr("about 00:50 left"));
  EXPECT_THAT(html, HasSubstr("<dt>training loss, last step</dt><dd>0.2500</dd>"));
  EXPECT_THAT(html, HasSubstr("<dt>examples/s now</dt>"));
  EXPECT_THAT(html, HasSubstr("aria-valuenow=\"300\""));
}

// Returns the labels of the axes of a chart, the vertical one first.
std::vector<std::string> TickLabels(double low, double high, uint64_t last_step) {
  RunPage page;
  page.now = kNow;
  page.curves.loss = {{1, high}, {last_step, low}};
  const std::string html = RunPageHtml(page);
  std::vector<std::string> labels;
  for (size_t at = html.find("<text class=\"tick"); at != std::string::npos;
       at = html.find("<text class=\"tick", at + 1)) {
    const size_t begin = html.find('>', at) + 1;
    labels.push_back(html.substr(begin, html.find('<', begin) - begin));
  }
  return labels;
}

TEST(RunPageTest, LabelsOfAnAxisHaveOneUnitAndOneNumberOfDecimals) {
  EXPECT_THAT(TickLabels(0.3, 0.5, 4000), ElementsAre("0.30", "0.35", "0.40", "0.45", "0.50", "0",
                                                      "1000", "2000", "3000", "4000"));
  EXPECT_THAT(TickLabels(0, 20000, 20000),
              ElementsAre("0", "5k", "10k", "15k", "20k", "0", "5k", "10k", "15k", "20k"));
  EXPECT_THAT(TickLabels(1e-6, 5e-6, 2), Contains("1e-06"));
}

TEST(RunPageTest, APageIsOneDocumentThatWorksWithoutScripts) {
  const std::string html = RunPageHtml(Training());
  for (const char* reference : {" src=", "@import", "url(http", "//cdn", "<link rel=\"style"}) {
    EXPECT_THAT(html, Not(HasSubstr(reference)));
  }
  EXPECT_THAT(html, HasSubstr("default-src 'none'"));
  EXPECT_THAT(html, HasSubstr("<noscript><meta http-equiv=\"refresh\""));
  EXPECT_EQ(Times(html, "<polyline class=\"train\""), 3u);
  EXPECT_EQ(Times(html, "<script"), 1u);
  EXPECT_THAT(html, Not(HasSubstr("<form")));
}

TEST(RunPageTest, TextsAreEscapedEverywhere) {
  const std::string bad = "<script>alert('1')</script>\"&\x01";
  RunPage page = Training();
  page.run_name = page.run_directory = page.description = page.program = page.activity = bad;
  page.waits_for = bad;
  page.settings = {{bad, bad}};
  RunPage::Task task;
  task.name = task.activity = task.trouble = task.place = bad;
  page.tasks = {task};
  RunPage::Checkpoint checkpoint;
  checkpoint.text = bad;
  page.checkpoints = {checkpoint};
  page.events = {{kNow, 1, 5, true, bad}};
  page.named = {{bad, 0.5, 0.5, {{1, 0.5}}, {}}};
  for (const RunPage::State state : {RunPage::State::kWaiting, RunPage::State::kFailed}) {
    page.state = state;
    const std::string html = RunPageHtml(page);
    EXPECT_EQ(Times(html, "<script"), 1u) << "the page's own";
    EXPECT_THAT(html, Not(HasSubstr("alert('1')")));
    EXPECT_THAT(html, Not(HasSubstr("\x01")));
    EXPECT_GE(Times(html, "&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;&quot;&amp;"), 13u);
  }
}

TEST(RunPageTest, MetricsHaveNumbersAndCharts) {
  RunPage page = Training();
  const std::string without = RunPageHtml(page);
  page.named = {{"val/f1", 0.25, 0.75, {{1, 0.5}, {2, 0.25}}, {{2, 0.75}}},
                {"rare", std::nullopt, std::nullopt, {}, {}}};
  const std::string html = RunPageHtml(page);
  EXPECT_THAT(html, HasSubstr("<dt>training val/f1, last step</dt><dd>0.2500</dd>"));
  EXPECT_THAT(html, HasSubstr("<dt>test val/f1</dt><dd>0.7500</dd>"));
  EXPECT_THAT(html, HasSubstr("<dt>training rare, last step</dt><dd>–</dd>"));
  EXPECT_THAT(html, HasSubstr("<h3>val/f1</h3>"));
  EXPECT_EQ(Times(html, "<figure"), Times(without, "<figure") + 2);
}

TEST(RunPageTest, ALongRunHasABoundedPage) {
  RunPage page = Training();
  page.step = 5000000;
  page.curves = {};
  Curve loss;
  for (uint64_t step = 1; step <= 5000000; step += 7) {
    loss.Add(step, 1 + std::sin(static_cast<double>(step)));
  }
  page.curves.loss = page.curves.test_loss = page.curves.accuracy = page.curves.test_accuracy =
      page.curves.examples_per_second = loss.Points();
  for (uint64_t i = 0; i < 100; ++i) {
    page.events.push_back({kNow, 1000 - i, 5000000 - i, true, std::string(1000, 'x')});
  }
  page.num_events = 1000;
  const std::string html = RunPageHtml(page);
  EXPECT_LT(html.size(), 400u << 10);
  EXPECT_THAT(html, HasSubstr("The 900 earlier ones are in the chief's log."));
  EXPECT_THAT(html, HasSubstr(">4M<"));
}

TEST(RunPageTest, ChartsOfExtremeValuesAreBounded) {
  for (const double value : {0.0, 1e-300, 1e300, -1e17, 0.1}) {
    for (const double other : {value, value * (1 + 1e-15), 1.0, -1e308}) {
      RunPage page = Training();
      page.curves.loss = {{1, value}, {2, other}};
      page.curves.test_loss = {{2, value}};
      const std::string html = RunPageHtml(page);
      EXPECT_LT(html.size(), 100u << 10) << value << " and " << other;
      EXPECT_THAT(html, Not(HasSubstr("nan,")));
    }
  }
}

TEST(RunPageTest, ChartsDescribeThemselvesInWordsAndMarkTroubles) {
  RunPage page = Training();
  page.curves.test_loss = {{100, 0.5}, {200, 0.4}};
  page.events = {{kNow, 2, 150, true, "worker/1 is gone"}, {kNow, 1, 10, false, "training"}};
  const std::string html = RunPageHtml(page);
  EXPECT_THAT(html, HasSubstr("test: 0.5 at step 100, 0.4 at step 200."));
  EXPECT_EQ(Times(html, "<circle class=\"test\""), 2u + 1u) << "two points and the legend";
  EXPECT_EQ(Times(html, "class=\"number mid\""), 3u) << "the trouble in each chart";
  EXPECT_THAT(html, HasSubstr("<span class=\"bad\">⚠</span> worker/1 is gone"));
  EXPECT_THAT(html, HasSubstr("mean loss per example"));
}

TEST(RunPageTest, TablesAreShownIfTheModelHasSome) {
  RunPage page = Training();
  EXPECT_THAT(RunPageHtml(page), Not(HasSubstr("new rows/s")));
  page.tables.push_back({"item<", 1234567, 96 << 20, 1234, 0.973});
  page.tables.push_back({"user", 0, 0, 0, std::nullopt});
  const std::string html = RunPageHtml(page);
  EXPECT_THAT(html, HasSubstr("item&lt;"));
  for (const char* words : {">1234567<", ">96.0<", ">1234<", ">97.3 %<", ">–<"}) {
    EXPECT_THAT(html, HasSubstr(words));
  }
}

TEST(RunPageTest, TasksAndCheckpointsHaveStatesInWords) {
  RunPage page = Training();
  RunPage::Task slow, missing;
  slow.name = "worker/0";
  slow.state = RunPage::Task::State::kSlow;
  slow.activity = "at step 300, waiting for positions 1";
  slow.trouble = "9.0 s in one batch, 0.10 s on average";
  missing.name = "worker/1";
  missing.state = RunPage::Task::State::kMissing;
  missing.step = 17;
  page.tasks = {slow, missing};
  RunPage::Checkpoint durable, failed, gone;
  durable.is_exported = true;
  durable.time = failed.time = kNow;
  gone.time = kNow - absl::Hours(24);
  failed.state = RunPage::Checkpoint::State::kFailed;
  failed.text = "step 200: ps/0: no space left";
  gone.state = RunPage::Checkpoint::State::kVoid;
  page.checkpoints = {durable, failed, gone};
  const std::string html = RunPageHtml(page);
  EXPECT_THAT(html, HasSubstr("⚠ slow"));
  EXPECT_THAT(html, HasSubstr("waiting for positions 1; 9.0 s in one batch"));
  EXPECT_THAT(html, HasSubstr("✗ missing"));
  EXPECT_THAT(html, Not(HasSubstr(">17<"))) << "the step of a task that is not there";
  EXPECT_THAT(html, HasSubstr("✓ durable"));
  EXPECT_EQ(Times(html, "✓ yes"), 1u);
  EXPECT_THAT(html, HasSubstr("step 200: ps/0: no space left"));
  EXPECT_THAT(html, HasSubstr("↶ rolled back"));
  EXPECT_THAT(html, HasSubstr(">23:44:07<"));
  EXPECT_THAT(html, HasSubstr(">2026-11-21 23:44:07<")) << "the date of another day";
}

TEST(RunPageTest, AFinishedRunAsksNothingMore) {
  RunPage page = Training();
  page.state = RunPage::State::kFinished;
  page.step = 400;
  page.test_accuracy = 0.8664;
  const std::string html = RunPageHtml(page);
  EXPECT_THAT(html, HasSubstr("✓ finished"));
  EXPECT_THAT(html, HasSubstr("<main data-over=\"1\">"));
  EXPECT_THAT(html, Not(HasSubstr("http-equiv=\"refresh\"")));
  EXPECT_THAT(html, HasSubstr("0.8664"));
  EXPECT_THAT(html, HasSubstr("ended 01:15 after its last start"));
}

TEST(RunPageTest, AFinishedRunHasTheRateOfTheConsole) {
  RunPage page = Training();
  page.state = RunPage::State::kFinished;
  page.examples_per_second = 5;  // The last seconds have the last evaluation.
  page.mean_examples_per_second = 4176;
  const std::string html = RunPageHtml(page);
  EXPECT_THAT(html, HasSubstr("<dt>examples/s since the last start</dt><dd>4176</dd>"));
  EXPECT_THAT(html, Not(HasSubstr("/s now")));
}

TEST(RunPageTest, AFailedRunShowsTheReason) {
  RunPage page = Training();
  page.state = RunPage::State::kFailed;
  page.activity = "failed: ps/1 is gone and did not come back";
  page.loss = std::nan("");
  const std::string html = RunPageHtml(page);
  EXPECT_THAT(html, HasSubstr("✗ failed"));
  EXPECT_THAT(html, HasSubstr("role=\"status\">failed: ps/1 is gone and did not come back</p>"));
  EXPECT_THAT(html, HasSubstr("<dt>training loss, last step</dt><dd>–</dd>"));
}

TEST(RunPageTest, AReportIsReadWithoutAChief) {
  RunPage page = Training();
  page.is_live = false;
  page.state = RunPage::State::kStopped;
  const std::string html = RunPageHtml(page);
  EXPECT_THAT(html, Not(HasSubstr("data-live=\"1\"")));
  EXPECT_THAT(html, Not(HasSubstr("href=\"/metrics\"")));
  EXPECT_THAT(html, Not(HasSubstr("id=\"offline\"")));
}

TEST(RunPageTest, AWaitNamesTheTask) {
  RunPage page = Training();
  page.state = RunPage::State::kWaiting;
  page.waits_for = "ps/1 to come back";
  page.seconds_waiting = 65;
  EXPECT_THAT(RunPageHtml(page), HasSubstr("The run waits for ps/1 to come back, for 01:05 now."));
}

}  // namespace
}  // namespace shoal

#include "runtime/observability/task_monitor.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/fake_clock.h"
#include "runtime/observability/metric_page.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class FakeSource : public TaskSource {
 public:
  TaskStatus Status() const override { return status; }
  void Collect(MetricPage* page) const override {
    page->AddGauge("shoal_global_step", "Step.", static_cast<double>(status.step));
  }

  std::optional<RunPage> DescribeRun() const override { return page; }

  TaskStatus status;
  std::optional<RunPage> page;
};

class TaskMonitorTest : public ::testing::Test {
 protected:
  TaskMonitorTest() : monitor_(Options()) {
    chief_.status.step = 40;
    chief_.status.waits_for = "worker/1 to get past step 40";
    chief_.status.activity = "waits for ps/0";
  }
  TaskMonitor::Options Options() {
    TaskMonitor::Options options;
    options.task = {Job::kChief, 0};
    options.run_name = "small";
    options.version = "2.5";
    options.protocol = 3;
    options.run_directory = "/runs/small";
    options.clock = &clock_;
    return options;
  }

  FakeClock clock_;
  TaskMonitor monitor_;
  FakeSource chief_, worker_;
};

TEST_F(TaskMonitorTest, LivesBeforeItIsReady) {
  EXPECT_EQ(monitor_.Answer({"/healthz", "", ""}).code, 200);
  EXPECT_EQ(monitor_.Answer({"/readyz", "", ""}).code, 503);
  const TaskMonitor::Shown shown(&monitor_, {Job::kChief, 0}, &chief_);
  const HttpResponse waiting = monitor_.Answer({"/readyz", "", ""});
  EXPECT_EQ(waiting.code, 503);
  EXPECT_EQ(waiting.body, "chief/0: waits for ps/0\n");
  chief_.status.ready = true;
  EXPECT_EQ(monitor_.Answer({"/readyz", "", ""}).code, 200);
  EXPECT_EQ(monitor_.Answer({"/healthz", "", ""}).code, 200);
}

TEST_F(TaskMonitorTest, AllRolesOfAProcessMustBeReady) {
  const TaskMonitor::Shown chief(&monitor_, {Job::kChief, 0}, &chief_);
  const TaskMonitor::Shown worker(&monitor_, {Job::kWorker, 0}, &worker_);
  chief_.status.ready = true;
  EXPECT_EQ(monitor_.Answer({"/readyz", "", ""}).code, 503);
  worker_.status.ready = true;
  EXPECT_EQ(monitor_.Answer({"/readyz", "", ""}).code, 200);
}

TEST_F(TaskMonitorTest, MetricsCarryTheirRunAndRole) {
  const TaskMonitor::Shown chief(&monitor_, {Job::kChief, 0}, &chief_);
  const TaskMonitor::Shown worker(&monitor_, {Job::kWorker, 2}, &worker_);
  const std::string text = monitor_.Answer({"/metrics", "", ""}).body;
  EXPECT_THAT(text, HasSubstr("shoal_global_step{run=\"small\",role=\"chief\",task=\"0\"} 40"));
  EXPECT_THAT(text, HasSubstr("shoal_global_step{run=\"small\",role=\"worker\",task=\"2\"} 0"));
  EXPECT_THAT(text, HasSubstr("shoal_ready{run=\"small\",role=\"chief\",task=\"0\"} 0"));
  EXPECT_THAT(text,
              HasSubstr("process_resident_memory_bytes{run=\"small\",role=\"chief\",task=\"0\"} "));
  EXPECT_THAT(text, HasSubstr("shoal_build_info{run=\"small\",role=\"chief\",task=\"0\",version="
                              "\"2.5\",protocol=\"3\""));
}

TEST_F(TaskMonitorTest, StatusIsTextAndJson) {
  const TaskMonitor::Shown chief(&monitor_, {Job::kChief, 0}, &chief_);
  const std::string text = monitor_.Answer({"/statusz", "", ""}).body;
  EXPECT_THAT(text, HasSubstr("chief/0 of run small in /runs/small"));
  EXPECT_THAT(text, HasSubstr("worker/1 to get past step 40"));
  const HttpResponse json = monitor_.Answer({"/statusz", "format=json", ""});
  EXPECT_EQ(json.content_type, "application/json");
  EXPECT_THAT(json.body, HasSubstr("\"roles\": [{\"task\": \"chief/0\""));
  EXPECT_THAT(json.body, HasSubstr("\"step\": 40"));
}

TEST_F(TaskMonitorTest, ARoleThatHasEndedIsNotShown) {
  { const TaskMonitor::Shown chief(&monitor_, {Job::kChief, 0}, &chief_); }
  EXPECT_THAT(monitor_.Answer({"/metrics", "", ""}).body, Not(HasSubstr("shoal_global_step")));
  EXPECT_EQ(monitor_.Answer({"/readyz", "", ""}).code, 503);
}

TEST_F(TaskMonitorTest, OnlyABrowserGetsThePageOfTheRun) {
  const TaskMonitor::Shown worker(&monitor_, {Job::kWorker, 0}, &worker_);
  const HttpResponse without = monitor_.Answer({"/", "", "text/html"});
  EXPECT_THAT(without.content_type, StartsWith("text/plain"));
  EXPECT_THAT(without.body, StartsWith("run small, chief/0: step 0 (/statusz has more)\n"));
  EXPECT_THAT(without.body, HasSubstr("/metrics"));
  chief_.page.emplace();
  chief_.page->run_name = "small";
  const TaskMonitor::Shown chief(&monitor_, {Job::kChief, 0}, &chief_);
  for (const char* accept : {"", "*/*", "application/json"}) {
    EXPECT_THAT(monitor_.Answer({"/", "", accept}).body,
                StartsWith("run small, chief/0: waits for ps/0, step 40 (/statusz has more)\n"))
        << accept;
  }
  const HttpResponse page = monitor_.Answer({"/", "", "text/html,application/xml;q=0.9,*/*;q=0.8"});
  EXPECT_EQ(page.code, 200);
  EXPECT_EQ(page.content_type, "text/html; charset=utf-8");
  EXPECT_THAT(page.body, StartsWith("<!DOCTYPE html>"));
  EXPECT_THAT(page.body, HasSubstr("shoal 2.5, chief/0, process "));
}

TEST_F(TaskMonitorTest, OtherPathsAreNotThere) {
  EXPECT_EQ(monitor_.Answer({"/etc/passwd", "", ""}).code, 404);
  EXPECT_EQ(monitor_.Answer({"/", "", ""}).code, 200);
  EXPECT_THAT(monitor_.Answer({"/", "", ""}).body,
              StartsWith("run small, chief/0: starts or ends (/statusz has more)\n"));
}

}  // namespace
}  // namespace shoal

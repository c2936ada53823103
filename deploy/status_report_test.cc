#include "deploy/status_report.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "runtime/observability/summary.h"

namespace shoal {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

const absl::Time kNow = absl::FromUnixSeconds(1000);

v1::GetRunStatusResponse TrainingRun() {
  v1::GetRunStatusResponse run;
  run.set_run_name("mlp");
  run.set_run_directory("/runs/mlp");
  run.mutable_state()->set_phase(v1::RunState::PHASE_TRAINING);
  run.mutable_state()->set_synchronous(true);
  run.mutable_state()->set_last_step(500);
  run.mutable_state()->add_waiting_for("worker/2");
  run.set_step(120);
  run.set_steps_per_second(12.5);
  run.set_examples_per_second(1600);
  run.set_last_checkpoint("ckpt-100");
  run.set_last_checkpoint_step(100);
  run.set_last_checkpoint_unix_seconds(970);
  run.set_waits_for("worker/1 (7.1 s in one batch) to get past step 120");
  run.set_seconds_waiting(7.2);
  v1::GetRunStatusResponse::Task* task = run.add_tasks();
  task->mutable_member()->set_job(v1::JOB_WORKER);
  task->mutable_member()->set_index(1);
  task->set_incarnation(3);
  task->set_seconds_since_heartbeat(0.25);
  task->set_host("b");
  task->set_process_id(77);
  task->set_activity("computes \"x\"");
  task->set_slow("7.1 s in one batch");
  return run;
}

TEST(StatusReportTest, TextNamesTheTasksAndWhatTheRunWaitsFor) {
  const std::string text = StatusText(TrainingRun(), kNow);
  for (const char* words :
       {"run mlp in /runs/mlp", "training", "120 of 500", "12.50 steps/s, 1600 examples/s",
        "worker/1 (7.1 s in one batch) to get past step 120, for 7s", "worker/2",
        "/runs/mlp/checkpoints/ckpt-100, step 100, 30s ago", "77 on b: computes",
        "slow: 7.1 s in one batch"}) {
    EXPECT_THAT(text, HasSubstr(words));
  }
}

TEST(StatusReportTest, RestartsAndRollbacksAreShownOnceThereAreSome) {
  v1::GetRunStatusResponse run = TrainingRun();
  EXPECT_THAT(StatusText(run, kNow), Not(HasSubstr("restarts")));
  EXPECT_THAT(StatusText(run, kNow), Not(HasSubstr("rollbacks")));
  run.mutable_tasks(0)->set_restarts(2);
  run.set_rollbacks(3);
  run.mutable_last_rollback()->set_step(100);
  run.mutable_last_rollback()->set_from(117);
  run.mutable_last_rollback()->set_reason("ps/0 came back without its state");
  EXPECT_THAT(StatusText(run, kNow), HasSubstr("restarts         worker/1 2\n"));
  EXPECT_THAT(StatusText(run, kNow),
              HasSubstr("rollbacks        3, the last from step 117 to 100: ps/0 came back"));
  EXPECT_THAT(StatusJson(run, kNow), HasSubstr("\"restarts\": 2"));
  EXPECT_THAT(StatusJson(run, kNow), HasSubstr("\"rollbacks\": 3"));
}

TEST(StatusReportTest, TablesAreShownWithTheirRowsMemoryGrowthAndReads) {
  v1::GetRunStatusResponse run = TrainingRun();
  EXPECT_THAT(StatusText(run, kNow), Not(HasSubstr("rows/s")));
  v1::GetRunStatusResponse::Table* table = run.add_tables();
  table->set_name("item");
  table->set_rows(1234567);
  table->set_bytes(96 << 20);
  table->set_rows_per_second(1234);
  table->set_keys_read(1000);
  table->set_rows_found(973);
  run.add_tables()->set_name("user");
  run.set_memory_warning("ps/0 uses 93 MiB of 100");
  const std::string text = StatusText(run, kNow);
  EXPECT_THAT(text, HasSubstr("memory           ps/0 uses 93 MiB of 100\n"));
  EXPECT_THAT(text, ContainsRegex("item +1234567 +96.0 +1234 +97.3%\n"));
  EXPECT_THAT(text, ContainsRegex("user +0 +0.0 +0 +-\n"));
  EXPECT_THAT(StatusJson(run, kNow),
              HasSubstr("{\"table\": \"item\", \"rows\": 1234567, \"bytes\": 100663296, "
                        "\"rows_per_second\": 1234, \"keys_read\": 1000, \"rows_found\": 973}"));
  EXPECT_THAT(StatusJson(run, kNow), HasSubstr("\"memory_warning\": \"ps/0 uses 93 MiB of 100\""));
}

TEST(StatusReportTest, AnAgeOfZeroHasItsUnit) {
  v1::GetRunStatusResponse run = TrainingRun();
  run.set_last_checkpoint_unix_seconds(absl::ToUnixSeconds(kNow));
  EXPECT_THAT(StatusText(run, kNow), HasSubstr("step 100, 0s ago"));
}

TEST(StatusReportTest, AnAsynchronousRunHasAnEndToo) {
  v1::GetRunStatusResponse run = TrainingRun();
  run.mutable_state()->set_synchronous(false);
  EXPECT_THAT(StatusText(run, kNow), HasSubstr("120 of about 500"));
  run.mutable_state()->set_last_step(UINT64_MAX);
  EXPECT_THAT(StatusText(run, kNow), Not(HasSubstr("120 of")));
}

TEST(StatusReportTest, ARunThatIsOverIsDescribedByItsSummary) {
  Summary summary;
  summary.status = "finished";
  summary.steps = 500;
  summary.test_accuracy = 0.875;
  summary.checkpoint = "/runs/a/checkpoints/c";
  EXPECT_EQ(OverText("/runs/a", summary, "again"),
            "the run in /runs/a is over: it finished at step 500, test accuracy 0.8750, "
            "checkpoint /runs/a/checkpoints/c");
  summary.test_step = 400;
  EXPECT_THAT(OverText("/runs/a", summary, ""),
              HasSubstr("at step 500, test accuracy of step 400 0.8750, "));
  // It was moved since.
  EXPECT_THAT(OverText("/b", summary, ""), HasSubstr("checkpoint /b/checkpoints/c"));
  EXPECT_THAT(OverJson("/b", summary, ""), HasSubstr("\"last_checkpoint\": \"/b/checkpoints/c\""));
  EXPECT_THAT(OverJson("/runs/a", summary, ""), HasSubstr("\"phase\": \"over\""));
  EXPECT_THAT(OverJson("/runs/a", summary, ""),
              HasSubstr("\"summary\": {\"status\": \"finished\""));
  summary = Summary();
  summary.status = "failed";
  summary.exit_reason = "ps/0 died";
  EXPECT_EQ(OverText("/runs/a", summary, "shoal train --run=F"),
            "the run in /runs/a is over: it failed at step 0: ps/0 died, no "
            "checkpoint; start it again: shoal train --run=F");
  summary.exit_reason = "ps/0 died. There is no checkpoint yet";
  EXPECT_THAT(OverText("/runs/a", summary, ""),
              HasSubstr("ps/0 died. There is no checkpoint yet; start it again"));
  summary.exit_reason =
      "variable w is not finite after the update of step 1: training diverges; lower "
      "--learning_rate (2.5 there) or clip gradients. There is no checkpoint yet";
  EXPECT_THAT(OverText("/runs/a", summary, "shoal train --run=F"),
              HasSubstr("or clip gradients. There is no checkpoint yet; it would diverge again: "
                        "lower the rate (--learning_rate), and name another --out unless a "
                        "checkpoint is from before"));
  // A program's own error that speaks of divergence.
  summary.exit_reason = "train.py:7: my training diverges";
  EXPECT_THAT(OverText("/runs/a", summary, "shoal train --run=F"),
              HasSubstr("start it again: shoal train --run=F"));
}

TEST(StatusReportTest, ARunThatWasKilledHasACheckpointAndACommand) {
  Summary left;
  EXPECT_EQ(NotRunningText("/runs/a", left, "", "shoal train --run=F"),
            "the run in /runs/a is not running: no process holds the directory; it has no "
            "checkpoint; start it again: shoal train --run=F");
  left.steps = 12;
  left.checkpoint = "/old/a/checkpoints/ckpt-10-1-1";
  const std::string text = NotRunningText("/runs/a", left, "pid 7 on b", "shoal train --run=F");
  EXPECT_EQ(text,
            "the run in /runs/a is not running: the last process that held the directory, pid 7 on "
            "b, has ended without a summary; last step 12, newest checkpoint "
            "/runs/a/checkpoints/ckpt-10-1-1; resume it: shoal train --run=F");
  const std::string json = NotRunningJson("/runs/a", left, text);
  for (const char* words :
       {"\"phase\": \"not running\"", "\"step\": 12",
        "\"last_checkpoint\": \"/runs/a/checkpoints/ckpt-10-1-1\"", "resume it"}) {
    EXPECT_THAT(json, HasSubstr(words));
  }
}

TEST(StatusReportTest, AbsentValuesAreLeftOut) {
  const std::string text = StatusText(v1::GetRunStatusResponse(), kNow);
  EXPECT_THAT(text, HasSubstr("none yet"));
  EXPECT_THAT(text, Not(HasSubstr("waits for")));
  EXPECT_THAT(text, Not(HasSubstr("incarnation")));
}

TEST(StatusReportTest, JsonHasAllOfItQuoted) {
  const std::string json = StatusJson(TrainingRun(), kNow);
  for (const char* words : {"\"phase\": \"training\"", "\"missing\": [\"worker/2\"]",
                            "\"seconds_since_checkpoint\": 30",
                            "\"tasks\": [{\"task\": \"worker/1\", \"incarnation\": 3",
                            "\"activity\": \"computes \\\"x\\\"\"", "\"last_step\": 500"}) {
    EXPECT_THAT(json, HasSubstr(words));
  }
  EXPECT_THAT(StatusJson(v1::GetRunStatusResponse(), kNow),
              HasSubstr("\"tasks\": [], \"tables\": []}"));
}

}  // namespace
}  // namespace shoal

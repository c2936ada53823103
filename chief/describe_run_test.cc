#include "chief/describe_run.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/fake_clock.h"
#include "chief/run_history.h"
#include "proto/v1/chief_service.pb.h"
#include "proto/v1/run_config.pb.h"
#include "runtime/config/run_config.h"

namespace shoal {
namespace {

using ::testing::Contains;
using ::testing::Pair;

class DescribeRunTest : public ::testing::Test {
 protected:
  DescribeRunTest() {
    run_ = *ParseRunConfig(
        "name: 'small' model { name: 'mlp' } optimizer { learning_rate: 0.5 group { variables: 'a' "
        "} "
        "adam {} } batch_size: 32 num_epochs: 2 seed: 9",
        "test");
    ResolveDefaults(TaskCounts(), &run_);
    run_.set_out("/runs/small");
    status_.mutable_state()->set_phase(v1::RunState::PHASE_TRAINING);
    status_.set_num_ps_tasks(1);
    status_.set_num_replicas(11);
    status_.set_step(40);
    AddTask(v1::JOB_WORKER, 10);
    AddTask(v1::JOB_WORKER, 2);
    AddTask(v1::JOB_PS, 0);
  }

  void AddTask(v1::Job job, uint32_t index) {
    v1::GetRunStatusResponse::Task* task = status_.add_tasks();
    task->mutable_member()->set_job(job);
    task->mutable_member()->set_index(index);
    task->set_activity("at step 40");
    task->set_host("a");
    task->set_process_id(7);
  }

  RunPage Page() const { return DescribeRun(run_, status_, history_, clock_.Now()); }

  FakeClock clock_;
  RunHistory history_{&clock_};
  v1::RunConfig run_;
  v1::GetRunStatusResponse status_;
};

TEST_F(DescribeRunTest, NamesTheRunAndItsSettings) {
  const RunPage page = Page();
  EXPECT_EQ(page.run_name, "small");
  EXPECT_EQ(page.run_directory, "/runs/small");
  EXPECT_EQ(page.description, "synchronous, 1 ps, 11 workers");
  EXPECT_EQ(page.state, RunPage::State::kTraining);
  EXPECT_EQ(page.step, 40u);
  EXPECT_THAT(page.settings, Contains(Pair("model", "mlp")));
  EXPECT_THAT(page.settings, Contains(Pair("optimizer", "adam, learning rate 0.5, 1 group")));
  EXPECT_THAT(page.settings, Contains(Pair("batch", "32 examples per clone, 1 clone per worker")));
  EXPECT_THAT(page.settings, Contains(Pair("length", "2 epochs")));
  EXPECT_THAT(page.settings, Contains(Pair("updates", "synchronous")));
  EXPECT_THAT(page.settings, Contains(Pair("seed", "9")));
}

TEST_F(DescribeRunTest, TablesHaveThePartOfReadsThatFoundARow) {
  v1::GetRunStatusResponse::Table* item = status_.add_tables();
  item->set_name("item");
  item->set_rows(7);
  item->set_rows_per_second(2);
  item->set_keys_read(8);
  item->set_rows_found(6);
  status_.add_tables()->set_name("user");
  const RunPage page = Page();
  ASSERT_EQ(page.tables.size(), 2u);
  EXPECT_EQ(page.tables[0].name, "item");
  EXPECT_EQ(page.tables[0].rows, 7u);
  EXPECT_EQ(page.tables[0].rows_per_second, 2);
  EXPECT_EQ(page.tables[0].found, 0.75);
  EXPECT_FALSE(page.tables[1].found.has_value());
}

TEST_F(DescribeRunTest, TasksComeInTheirOrderWithThoseThatAreMissing) {
  status_.mutable_state()->add_waiting_for("worker/1");
  status_.mutable_state()->add_waiting_for("worker/3");
  v1::Member* lost = status_.add_lost();
  lost->set_job(v1::JOB_WORKER);
  lost->set_index(3);
  status_.mutable_tasks(1)->set_slow("silent for 4.0 s");
  const RunPage page = Page();
  ASSERT_EQ(page.tasks.size(), 5u);
  EXPECT_EQ(page.tasks[0].name, "ps/0");
  EXPECT_FALSE(page.tasks[0].computed.has_value());
  EXPECT_EQ(page.tasks[0].place, "process 7 on a");
  EXPECT_EQ(page.tasks[1].name, "worker/1");
  EXPECT_EQ(page.tasks[1].state, RunPage::Task::State::kMissing);
  EXPECT_EQ(page.tasks[1].activity, "has not registered");
  EXPECT_EQ(page.tasks[2].name, "worker/2");
  EXPECT_EQ(page.tasks[2].state, RunPage::Task::State::kSlow);
  EXPECT_EQ(page.tasks[2].trouble, "silent for 4.0 s");
  EXPECT_EQ(page.tasks[3].name, "worker/3");
  EXPECT_EQ(page.tasks[3].activity, "it is lost, and has to start again");
  EXPECT_EQ(page.tasks[4].name, "worker/10");
}

TEST_F(DescribeRunTest, AStartNamesWhoIsMissing) {
  status_.mutable_state()->set_phase(v1::RunState::PHASE_WAITING);
  status_.mutable_state()->add_waiting_for("ps/0");
  EXPECT_EQ(Page().state, RunPage::State::kStarting);
  EXPECT_EQ(Page().waits_for, "ps/0 to register");
}

TEST_F(DescribeRunTest, AWaitIsAState) {
  status_.set_waits_for("worker/1 to get past step 40");
  EXPECT_EQ(Page().state, RunPage::State::kWaiting);
}

TEST_F(DescribeRunTest, TheEndHasThreeForms) {
  v1::RunState* state = status_.mutable_state();
  state->add_waiting_for("worker/1");
  state->set_phase(v1::RunState::PHASE_DONE);
  EXPECT_EQ(Page().state, RunPage::State::kFinished);
  EXPECT_EQ(Page().tasks.size(), 3u) << "nobody is missing at the end";
  state->set_failure_code(1);
  EXPECT_EQ(Page().state, RunPage::State::kStopped);
  state->set_phase(v1::RunState::PHASE_FAILED);
  state->set_message("the disk is full");
  EXPECT_EQ(Page().state, RunPage::State::kFailed);
  EXPECT_EQ(Page().activity, "failed: the disk is full");
}

TEST_F(DescribeRunTest, TheTasksOfAFinishedRunAreAtItsLastStep) {
  status_.mutable_tasks(0)->set_step(39);  // It has sent no heartbeat since then.
  EXPECT_EQ(Page().tasks.back().step, 39u);
  status_.mutable_state()->set_phase(v1::RunState::PHASE_DONE);
  for (const RunPage::Task& task : Page().tasks) EXPECT_EQ(task.step, 40u) << task.name;
}

TEST_F(DescribeRunTest, TheModelOfAComputeProgramIsTheProgram) {
  run_.clear_model();
  run_.mutable_program()->set_file("/home/train.py");
  EXPECT_THAT(Page().settings, Contains(Pair("model", "the program /home/train.py")));
}

TEST_F(DescribeRunTest, AsynchronousRunsNameTheirBounds) {
  run_.mutable_sync()->set_sync_replicas(false);
  run_.mutable_sync()->set_max_staleness(4);
  run_.mutable_sync()->set_clock_bound(-1);
  EXPECT_EQ(Page().description, "asynchronous, 1 ps, 11 workers");
  EXPECT_THAT(Page().settings, Contains(Pair("updates", "asynchronous, staleness at most 4")));
}

}  // namespace
}  // namespace shoal

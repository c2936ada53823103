#include "chief/describe_run.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

#include "chief/chief_metrics.h"
#include "chief/run_history.h"
#include "proto/v1/chief_service.pb.h"
#include "proto/v1/run_config.pb.h"
#include "runtime/cluster/task.h"
#include "runtime/config/run_config.h"

namespace shoal {
namespace {

using Setting = std::pair<std::string, std::string>;

std::string Count(uint64_t number, const char* what) {
  return absl::StrCat(number, " ", what, number == 1 ? "" : "s");
}

RunPage::State GetState(const v1::GetRunStatusResponse& status) {
  switch (status.state().phase()) {
    case v1::RunState::PHASE_TRAINING:
      return status.waits_for().empty() ? RunPage::State::kTraining : RunPage::State::kWaiting;
    case v1::RunState::PHASE_STOPPING:
      return RunPage::State::kStopping;
    case v1::RunState::PHASE_DONE:
      return status.state().failure_code() == 0 ? RunPage::State::kFinished
                                                : RunPage::State::kStopped;
    case v1::RunState::PHASE_FAILED:
      return RunPage::State::kFailed;
    default:
      return RunPage::State::kStarting;
  }
}

std::string DescribeTasks(const v1::GetRunStatusResponse& status) {
  if (status.num_ps_tasks() == 0) return "one process";
  return absl::StrCat(status.num_ps_tasks(), " ps, ", Count(status.num_replicas(), "worker"));
}

RunPage::Task LiveTask(const v1::GetRunStatusResponse::Task& task) {
  const TaskId id = ToTaskId(task.member());
  RunPage::Task row;
  row.name = id.ToString();
  row.state = task.slow().empty() ? RunPage::Task::State::kWorks : RunPage::Task::State::kSlow;
  row.activity = task.activity();
  row.trouble = task.slow();
  row.step = task.step();
  if (id.job == Job::kWorker) row.computed = task.computed();
  row.seconds_since_heartbeat = task.seconds_since_heartbeat();
  row.place = absl::StrCat("process ", task.process_id(), " on ", task.host(),
                           task.address().empty() ? "" : ", serves at ", task.address());
  return row;
}

void AddTasks(const v1::GetRunStatusResponse& status, RunPage::State state, RunPage* page) {
  for (const v1::GetRunStatusResponse::Task& task : status.tasks()) {
    page->tasks.push_back(LiveTask(task));
    // Its last heartbeat may be older than its last step.
    if (state == RunPage::State::kFinished) page->tasks.back().step = status.step();
  }
  if (IsOver(state)) return;  // Tasks end as they please.
  std::set<std::string> lost;
  for (const v1::Member& member : status.lost()) lost.insert(ToTaskId(member).ToString());
  for (const std::string& name : status.state().waiting_for()) {
    RunPage::Task row;
    row.name = name;
    row.state = RunPage::Task::State::kMissing;
    row.activity =
        lost.count(name) > 0 ? "it is lost, and has to start again" : "has not registered";
    page->tasks.push_back(std::move(row));
  }
  const auto place = [](const RunPage::Task& task) {
    return std::make_pair(task.name.substr(0, task.name.find('/')), task.name.size());
  };
  std::stable_sort(page->tasks.begin(), page->tasks.end(),
                   [&place](const RunPage::Task& a, const RunPage::Task& b) {
                     return std::make_pair(place(a), a.name) < std::make_pair(place(b), b.name);
                   });
}

void AddTables(const v1::GetRunStatusResponse& status, RunPage* page) {
  for (const v1::GetRunStatusResponse::Table& table : status.tables()) {
    RunPage::Embeddings& row = page->tables.emplace_back();
    row.name = table.name();
    row.rows = table.rows();
    row.bytes = table.bytes();
    row.rows_per_second = table.rows_per_second();
    if (table.keys_read() == 0) continue;
    row.found = static_cast<double>(table.rows_found()) / static_cast<double>(table.keys_read());
  }
}

std::string DescribeModel(const v1::RunConfig& run) {
  if (!run.deployment().worker_binary().empty()) return run.deployment().worker_binary();
  if (!run.program().file().empty()) return absl::StrCat("the program ", run.program().file());
  const std::string layers = Count(static_cast<uint64_t>(run.model().layer_size()), "layer");
  return run.model().name().empty() ? layers : run.model().name();
}

std::string DescribeOptimizer(const v1::RunConfig& run) {
  std::string text = absl::StrCat(OptimizerName(run.optimizer()), ", learning rate ",
                                  run.optimizer().learning_rate());
  if (run.optimizer().schedule().kind() > v1::ScheduleConfig::KIND_CONSTANT) {
    const std::string kind = v1::ScheduleConfig::Kind_Name(run.optimizer().schedule().kind());
    absl::StrAppend(&text, ", schedule ", kind.substr(std::string("KIND_").size()));
  }
  if (run.optimizer().group_size() > 0) {
    absl::StrAppend(&text, ", ", Count(run.optimizer().group_size(), "group"));
  }
  return text;
}

std::string DescribeBatch(const v1::RunConfig& run) {
  return run.replica_batch_size() > 0
             ? Count(run.replica_batch_size(), "example") + " per worker"
             : Count(run.batch_size(), "example") + " per clone, " +
                   Count(run.deployment().num_clones(), "clone") + " per worker";
}

std::string DescribeLength(const v1::RunConfig& run) {
  std::vector<std::string> parts;
  if (run.num_epochs() > 0) parts.push_back(Count(run.num_epochs(), "epoch"));
  if (run.max_steps() > 0)
    parts.push_back(absl::StrCat("at most ", Count(run.max_steps(), "step")));
  return absl::StrJoin(parts, ", ");
}

std::string DescribeInterval(uint64_t steps) {
  return steps > 0 ? absl::StrCat("every ", Count(steps, "step")) : "every epoch";
}

std::string DescribeSaves(const v1::RunConfig& run) {
  std::string text = DescribeInterval(run.checkpoint().save_every());
  if (run.checkpoint().save_seconds() > 0) {
    absl::StrAppend(&text, ", at the latest after ", run.checkpoint().save_seconds(), " s");
  }
  return text;
}

std::string DescribeSynchronisation(const v1::RunConfig& run) {
  if (IsSynchronous(run)) return "synchronous";
  std::string text = "asynchronous";
  if (run.sync().max_staleness() >= 0) {
    absl::StrAppend(&text, ", staleness at most ", run.sync().max_staleness());
  }
  if (run.sync().clock_bound() >= 0) {
    absl::StrAppend(&text, ", workers at most ", run.sync().clock_bound(), " batches apart");
  }
  return text;
}

std::vector<Setting> ListSettings(const v1::RunConfig& run) {
  std::vector<Setting> settings;
  const auto add = [&settings](const char* name, const std::string& value) {
    if (!value.empty()) settings.emplace_back(name, value);
  };
  add("model", DescribeModel(run));
  add("data", run.data().directory());
  add("optimizer", DescribeOptimizer(run));
  add("batch", DescribeBatch(run));
  add("length", DescribeLength(run));
  add("updates", DescribeSynchronisation(run));
  add("checkpoints", DescribeSaves(run));
  add("evaluation", DescribeInterval(run.eval_every()));
  add("seed", absl::StrCat(run.seed()));
  add("products in", run.compute_dtype());
  add("devices", run.deployment().devices());
  add(run.init_state() ? "continues" : "initial values", run.init_from());
  add("trained only", absl::StrJoin(run.trainable(), ", "));
  return settings;
}

}  // namespace

RunPage DescribeRun(const v1::RunConfig& run, const v1::GetRunStatusResponse& status,
                    const RunHistory& history, absl::Time now) {
  RunPage page;
  history.Describe(&page);
  page.run_name = run.name();
  page.run_directory = run.out();
  page.description = absl::StrCat(IsSynchronous(run) ? "synchronous" : "asynchronous", ", ",
                                  DescribeTasks(status));
  page.state = GetState(status);
  page.activity = ChiefStatus(status, 0).activity;
  page.waits_for = status.waits_for();
  if (page.state == RunPage::State::kStarting && page.waits_for.empty() &&
      !status.state().waiting_for().empty()) {
    page.waits_for =
        absl::StrCat(absl::StrJoin(status.state().waiting_for(), ", "), " to register");
  }
  page.seconds_waiting = status.seconds_waiting();
  page.step = status.step();
  page.steps_per_second = status.steps_per_second();
  page.examples_per_second = status.examples_per_second();
  page.uptime_seconds = status.uptime_seconds();
  page.now = now;
  page.settings = ListSettings(run);
  AddTasks(status, page.state, &page);
  AddTables(status, &page);
  return page;
}

}  // namespace shoal

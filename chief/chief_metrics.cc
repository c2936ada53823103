#include "chief/chief_metrics.h"

#include <cmath>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "proto/v1/chief_service.pb.h"
#include "runtime/observability/metric_page.h"

namespace shoal {
namespace {

bool IsTraining(const v1::GetRunStatusResponse& run) {
  return run.state().phase() == v1::RunState::PHASE_TRAINING;
}

std::string DescribeActivity(const v1::GetRunStatusResponse& run) {
  switch (run.state().phase()) {
    case v1::RunState::PHASE_WAITING:
      return absl::StrCat("waits for ", absl::StrJoin(run.state().waiting_for(), ", "),
                          " to register");
    case v1::RunState::PHASE_PREPARING:
      return "ps make or load the variables";
    case v1::RunState::PHASE_TRAINING:
      return run.state().waiting_for().empty()
                 ? "trains"
                 : absl::StrCat("trains without ", absl::StrJoin(run.state().waiting_for(), ", "));
    case v1::RunState::PHASE_STOPPING:
      return "the last checkpoint is being written";
    case v1::RunState::PHASE_DONE:
      return "done";
    case v1::RunState::PHASE_FAILED:
      return absl::StrCat("failed: ", run.state().message());
    default:
      return "starts";
  }
}

// Describes two gauges for the tasks of a job: whether a task is present, and whether it has been
// lost.
struct Presence {
  v1::Job job;
  uint32_t count;  // The number of tasks that the run should have.
  const char* label;
  const char* up;
  const char* up_help;
  const char* lost;
  const char* lost_help;
};

void AddPresence(const v1::GetRunStatusResponse& run, const Presence& presence, MetricPage* page) {
  std::set<uint32_t> live, lost;
  for (const v1::GetRunStatusResponse::Task& task : run.tasks()) {
    if (task.member().job() == presence.job) live.insert(task.member().index());
  }
  for (const v1::Member& task : run.lost()) {
    if (task.job() == presence.job) lost.insert(task.index());
  }
  uint32_t count = presence.count;
  for (const std::set<uint32_t>* known : {&live, &lost}) {
    if (!known->empty()) count = std::max(count, *known->rbegin() + 1);
  }
  for (uint32_t i = 0; i < count; ++i) {
    const MetricPage::Labels labels = {{presence.label, absl::StrCat(i)}};
    page->AddGauge(presence.up, presence.up_help, live.count(i) > 0 ? 1 : 0, labels);
    page->AddGauge(presence.lost, presence.lost_help, lost.count(i) > 0 ? 1 : 0, labels);
  }
}

void AddTasks(const v1::GetRunStatusResponse& run, MetricPage* page) {
  AddPresence(run,
              {v1::JOB_WORKER, run.num_replicas(), "worker", "shoal_worker_up",
               "1 while the worker holds its place, 0 while it is missing.", "shoal_worker_lost",
               "1 while a worker that had registered is missing unexpectedly."},
              page);
  AddPresence(run,
              {v1::JOB_PS, run.num_ps_tasks(), "ps", "shoal_ps_up",
               "1 while the parameter server holds its place, 0 while it is missing.",
               "shoal_ps_lost", "1 while a parameter server that had registered is missing."},
              page);
  double slow = 0, silence = 0;
  for (const v1::GetRunStatusResponse::Task& task : run.tasks()) {
    slow += task.slow().empty() ? 0 : 1;
    silence = std::max(silence, task.seconds_since_heartbeat());
  }
  page->AddGauge("shoal_slow_tasks", "Tasks that hold the others up, as `shoal status` names them.",
                 slow);
  page->AddGauge("shoal_heartbeat_age_seconds",
                 "Time since the last heartbeat of the most silent task.", silence);
}

void AddCheckpoints(const ChiefMetrics& metrics, const v1::GetRunStatusResponse& run,
                    MetricPage* page) {
  page->AddCounter("shoal_checkpoints_total", "Checkpoints that this chief has made durable.",
                   static_cast<double>(metrics.checkpoints.value()));
  page->AddCounter("shoal_checkpoint_failures_total", "Checkpoints that could not be made.",
                   static_cast<double>(run.failed_checkpoints()));
  page->AddHistogram("shoal_checkpoint_publish_duration_seconds",
                     "Time to write the manifest and the exported model of a checkpoint.",
                     metrics.checkpoint_seconds);
  page->AddGauge("shoal_checkpoint_step", "Step of the newest checkpoint.",
                 static_cast<double>(run.last_checkpoint_step()));
  page->AddGauge("shoal_checkpoint_last_success_timestamp_seconds",
                 "When this chief made a checkpoint last, in Unix time; 0: not yet.",
                 run.last_checkpoint_unix_seconds());
}

void AddFigures(const ChiefMetrics& metrics, MetricPage* page) {
  const auto add = [page](const char* name, const char* help, const MetricGauge& gauge) {
    if (!std::isnan(gauge.value())) page->AddGauge(name, help, gauge.value());
  };
  add("shoal_loss", "Loss of the newest update, regularization included.", metrics.loss);
  add("shoal_accuracy", "Accuracy of the newest update's batches.", metrics.accuracy);
  add("shoal_learning_rate", "Learning rate of the newest update.", metrics.learning_rate);
  add("shoal_evaluation_loss", "Loss on the test split, last time.", metrics.evaluation_loss);
  add("shoal_evaluation_accuracy", "Accuracy on the test split, last time.",
      metrics.evaluation_accuracy);
  for (const auto& [name, value] : metrics.named.values()) {
    page->AddGauge("shoal_metric", "A metric of the model, of the newest update's batches.", value,
                   {{"metric", name}});
  }
  for (const auto& [name, value] : metrics.evaluation_named.values()) {
    page->AddGauge("shoal_evaluation_metric", "A metric of the model on the test split, last time.",
                   value, {{"metric", name}});
  }
  page->AddCounter("shoal_non_finite_steps_total", "Updates whose loss was not a finite number.",
                   static_cast<double>(metrics.non_finite_steps.value()));
}

}  // namespace

void CollectChief(const ChiefMetrics& metrics, const v1::GetRunStatusResponse& run,
                  MetricPage* page) {
  page->AddGauge("shoal_global_step", "Updates that are applied to the variables.",
                 static_cast<double>(run.step()));
  page->AddGauge("shoal_training", "1 while the run trains; 0 while it waits, loads or ends.",
                 IsTraining(run) ? 1 : 0);
  page->AddGauge("shoal_waiting_seconds",
                 "Seconds that the run has waited for tasks, without a step.",
                 run.seconds_waiting());
  page->AddCounter("shoal_steps_total", "Updates (chief) or batches (worker) since the task began.",
                   static_cast<double>(metrics.steps.value()));
  page->AddCounter("shoal_examples_total", "Training examples since the task began.",
                   static_cast<double>(metrics.examples.value()));
  AddFigures(metrics, page);
  if (!run.state().synchronous()) {
    page->AddHistogram("shoal_push_staleness_steps",
                       "Updates between the values that a gradient was computed with and its own.",
                       metrics.staleness);
  }
  page->AddGauge("shoal_skipped_batches", "Batches that the run leaves out for ever.",
                 static_cast<double>(run.skipped_batches()));
  page->AddCounter("shoal_rollbacks_total", "Times that the run went back to a checkpoint.",
                   static_cast<double>(metrics.rollbacks.value()));
  AddCheckpoints(metrics, run, page);
  AddTasks(run, page);
}

TaskStatus ChiefStatus(const v1::GetRunStatusResponse& run, double now_unix_seconds) {
  TaskStatus status;
  const v1::RunState::Phase phase = run.state().phase();
  const bool serves =
      phase == v1::RunState::PHASE_TRAINING || phase == v1::RunState::PHASE_STOPPING;
  status.ready = serves && run.state().waiting_for().empty();
  status.activity = DescribeActivity(run);
  status.waits_for = run.waits_for();
  status.step = run.step();
  status.steps_per_second = run.steps_per_second();
  status.examples_per_second = run.examples_per_second();
  if (!run.last_checkpoint().empty()) {
    status.last_checkpoint =
        absl::StrCat(run.run_directory(), "/checkpoints/", run.last_checkpoint());
  }
  if (run.last_checkpoint_unix_seconds() > 0) {
    status.seconds_since_checkpoint = now_unix_seconds - run.last_checkpoint_unix_seconds();
  }
  return status;
}

}  // namespace shoal

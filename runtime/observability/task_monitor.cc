#include "runtime/observability/task_monitor.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "base/clock.h"
#include "base/host_name.h"
#include "base/json.h"
#include "runtime/observability/metric_page.h"
#include "runtime/observability/process_metrics.h"

namespace shoal {
namespace {

constexpr char kIndex[] =
    "/          the page of the run, for browsers (of the chief only)\n"
    "/metrics   for Prometheus\n"
    "/healthz   the process lives\n"
    "/readyz    it can do its work\n"
    "/statusz   what it does; ?format=json\n";

MetricPage::Labels MakeLabels(const std::string& run_name, TaskId task) {
  return {{"run", run_name},
          {"role", std::string(JobName(task.job))},
          {"task", absl::StrCat(task.index)}};
}

std::string ToText(TaskId id, const TaskStatus& status) {
  std::string text = absl::StrCat(id.ToString(), status.ready ? ": ready" : ": not ready");
  const auto add = [&text](absl::string_view name, absl::string_view value) {
    if (!value.empty()) absl::StrAppendFormat(&text, "\n  %-17s%s", name, value);
  };
  add("activity", status.activity);
  add("step", absl::StrCat(status.step));
  if (status.steps_per_second.has_value()) {
    add("steps/s", absl::StrFormat("%.2f", *status.steps_per_second));
  }
  if (status.examples_per_second.has_value()) {
    add("examples/s", absl::StrFormat("%.0f", *status.examples_per_second));
  }
  add("waits for", status.waits_for);
  add("last checkpoint", status.last_checkpoint);
  if (status.seconds_since_checkpoint.has_value()) {
    add("", absl::StrFormat("%.0f s ago", *status.seconds_since_checkpoint));
  }
  return absl::StrCat(text, "\n");
}

std::string ToJson(TaskId id, const TaskStatus& status) {
  JsonObject json;
  json.Add("task", id.ToString())
      .Add("role", JobName(id.job))
      .Add("ready", status.ready ? uint64_t{1} : uint64_t{0})
      .Add("activity", status.activity)
      .Add("step", status.step)
      .Add("steps_per_second", status.steps_per_second)
      .Add("examples_per_second", status.examples_per_second)
      .Add("waits_for", status.waits_for)
      .Add("last_checkpoint", status.last_checkpoint)
      .Add("seconds_since_checkpoint", status.seconds_since_checkpoint);
  return json.ToString();
}

}  // namespace

TaskMonitor::Shown::Shown(TaskMonitor* monitor, TaskId role, const TaskSource* source)
    : monitor_(monitor), source_(source) {
  if (monitor_ == nullptr) return;
  MutexLock lock(&monitor_->mutex_);
  monitor_->roles_.push_back({role, source});
}

TaskMonitor::Shown::~Shown() {
  if (monitor_ == nullptr) return;
  MutexLock lock(&monitor_->mutex_);
  std::vector<Role>& roles = monitor_->roles_;
  roles.erase(std::remove_if(roles.begin(), roles.end(),
                             [this](const Role& role) { return role.source == source_; }),
              roles.end());
}

TaskMonitor::TaskMonitor(Options options)
    : options_(std::move(options)), started_(options_.clock->Now()) {}

HttpResponse TaskMonitor::Answer(const HttpRequest& request) const {
  const std::string& path = request.path;
  const std::string& query = request.query;
  HttpResponse response;
  if (path == "/healthz") {
    response.body = "ok\n";
  } else if (path == "/readyz") {
    response = Ready();
  } else if (path == "/metrics") {
    response.content_type = "text/plain; version=0.0.4; charset=utf-8";
    response.body = Metrics();
  } else if (path == "/statusz" && query == "format=json") {
    response.content_type = "application/json";
    response.body = StatusJson();
  } else if (path == "/statusz") {
    response.body = StatusText();
  } else if (path == "/") {
    response = Index(request.accept);
  } else {
    response.code = 404;
    response.body = kIndex;
  }
  return response;
}

HttpResponse TaskMonitor::Index(const std::string& accept) const {
  std::optional<RunPage> page;
  if (absl::StrContains(accept, "text/html")) {
    MutexLock lock(&mutex_);
    for (const Role& role : roles_) {
      if (!page.has_value()) page = role.source->DescribeRun();
    }
  }
  HttpResponse response;
  if (!page.has_value()) {
    response.body = absl::StrCat(StatusLine(), kIndex);
    return response;
  }
  page->program = absl::StrFormat("shoal %s, %s, process %d on %s", options_.version,
                                  options_.task.ToString(), getpid(), HostName());
  response.content_type = "text/html; charset=utf-8";
  response.body = RunPageHtml(*page);  // Takes milliseconds, so it is done without the mutex.
  return response;
}

std::string TaskMonitor::StatusLine() const {
  MutexLock lock(&mutex_);
  std::string text;
  for (const Role& role : roles_) {
    if (!text.empty() && role.id.job != Job::kChief) continue;
    const TaskStatus status = role.source->Status();
    text = absl::StrCat(status.activity, status.activity.empty() ? "" : ", ", "step ", status.step);
  }
  if (text.empty()) text = "starts or ends";
  return absl::StrCat("run ", options_.run_name, ", ", options_.task.ToString(), ": ", text,
                      " (/statusz has more)\n\n");
}

HttpResponse TaskMonitor::Ready() const {
  MutexLock lock(&mutex_);
  HttpResponse response;
  for (const Role& role : roles_) {
    const TaskStatus status = role.source->Status();
    if (status.ready) continue;
    response.code = 503;
    absl::StrAppend(&response.body, role.id.ToString(), ": ", status.activity, "\n");
  }
  if (roles_.empty()) {
    response.code = 503;
    response.body = absl::StrCat(options_.task.ToString(), ": starts or ends\n");
  }
  if (response.code == 200) response.body = "ready\n";
  return response;
}

absl::Duration TaskMonitor::uptime() const { return options_.clock->Now() - started_; }

std::string TaskMonitor::StatusText() const {
  std::string text = absl::StrFormat("%s of run %s in %s\nshoal %s, process %d on %s, up %s\n",
                                     options_.task.ToString(), options_.run_name,
                                     options_.run_directory, options_.version, getpid(), HostName(),
                                     absl::FormatDuration(absl::Trunc(uptime(), absl::Seconds(1))));
  if (!options_.cluster.empty()) absl::StrAppend(&text, "cluster: ", options_.cluster, "\n");
  MutexLock lock(&mutex_);
  for (const Role& role : roles_) absl::StrAppend(&text, ToText(role.id, role.source->Status()));
  return text;
}

std::string TaskMonitor::StatusJson() const {
  JsonObject json;
  json.Add("task", options_.task.ToString())
      .Add("run", options_.run_name)
      .Add("run_directory", options_.run_directory)
      .Add("version", options_.version)
      .Add("process_id", static_cast<uint64_t>(getpid()))
      .Add("host", HostName())
      .Add("uptime_seconds", absl::ToDoubleSeconds(uptime()))
      .Add("cluster", options_.cluster);
  std::string roles;
  MutexLock lock(&mutex_);
  for (const Role& role : roles_) {
    absl::StrAppend(&roles, roles.empty() ? "" : ", ", ToJson(role.id, role.source->Status()));
  }
  return json.AddJson("roles", absl::StrCat("[", roles, "]")).ToString() + "\n";
}

std::string TaskMonitor::Metrics() const {
  MetricPage page;
  page.SetLabels(MakeLabels(options_.run_name, options_.task));
  page.AddGauge("shoal_build_info", "1; the labels describe the build.", 1,
                {{"version", options_.version},
                 {"protocol", absl::StrCat(options_.protocol)},
                 {"compiler", __VERSION__}});
  AddProcessMetrics(&page);
  MutexLock lock(&mutex_);
  for (const Role& role : roles_) {
    page.SetLabels(MakeLabels(options_.run_name, role.id));
    page.AddGauge("shoal_ready", "1 while the role can do its work, as /readyz says; else 0.",
                  role.source->Status().ready ? 1 : 0);
    role.source->Collect(&page);
  }
  return page.ToText();
}

}  // namespace shoal

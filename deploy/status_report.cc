#include "deploy/status_report.h"

#include <optional>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"

#include "base/json.h"
#include "deploy/launch/divergence.h"
#include "runtime/cluster/task.h"
#include "runtime/observability/progress.h"
#include "runtime/rpc/run_state.h"

namespace shoal {
namespace {

using Task = v1::GetRunStatusResponse::Task;
using Table = v1::GetRunStatusResponse::Table;

std::string TaskName(const Task& task) { return ToTaskId(task.member()).ToString(); }

// "training"
std::string PhaseName(v1::RunState::Phase phase) {
  const std::string name = v1::RunState::Phase_Name(phase);
  return absl::AsciiStrToLower(absl::StripPrefix(name, "PHASE_"));
}

std::string Age(double seconds) {
  const absl::Duration age = absl::Trunc(absl::Seconds(seconds), absl::Seconds(1));
  // FormatDuration writes no unit for 0.
  return age == absl::ZeroDuration() ? "0s" : absl::FormatDuration(age);
}

std::optional<double> SecondsSinceCheckpoint(const v1::GetRunStatusResponse& run, absl::Time now) {
  if (run.last_checkpoint_unix_seconds() <= 0) return std::nullopt;
  return absl::ToDoubleSeconds(now - absl::UnixEpoch()) - run.last_checkpoint_unix_seconds();
}

std::string CheckpointPath(const v1::GetRunStatusResponse& run) {
  if (run.last_checkpoint().empty()) return "";
  return absl::StrCat(run.run_directory(), "/checkpoints/", run.last_checkpoint());
}

void AppendTasks(const v1::GetRunStatusResponse& run, std::string* text) {
  if (run.tasks().empty()) return;
  absl::StrAppendFormat(text, "\n%-10s  %-13s  %8s  %8s  %9s  %s\n", "task", "incarnation", "seen",
                        "step", "computed", "process, activity");
  for (const Task& task : run.tasks()) {
    const bool computes = task.member().job() == v1::JOB_WORKER;
    absl::StrAppendFormat(text, "%-10s  %-13d  %6.1f s  %8d  %9s  %d on %s: %s\n", TaskName(task),
                          task.incarnation(), task.seconds_since_heartbeat(), task.step(),
                          computes ? absl::StrCat(task.computed()) : "-", task.process_id(),
                          task.host(), task.activity().empty() ? "starts" : task.activity());
    if (!task.slow().empty()) absl::StrAppend(text, "            slow: ", task.slow(), "\n");
  }
}

// "97.3%"; "-" if nothing was read.
std::string DescribeFound(const Table& table) {
  if (table.keys_read() == 0) return "-";
  return absl::StrFormat("%.1f%%", 100 * static_cast<double>(table.rows_found()) /
                                       static_cast<double>(table.keys_read()));
}

void AppendTables(const v1::GetRunStatusResponse& run, std::string* text) {
  if (run.tables().empty()) return;
  absl::StrAppendFormat(text, "\n%-16s  %12s  %10s  %10s  %s\n", "table", "rows", "MiB", "rows/s",
                        "reads that found a row");
  for (const Table& table : run.tables()) {
    absl::StrAppendFormat(text, "%-16s  %12d  %10.1f  %10.0f  %s\n", table.name(), table.rows(),
                          static_cast<double>(table.bytes()) / (1 << 20), table.rows_per_second(),
                          DescribeFound(table));
  }
}

std::string TableJson(const Table& table) {
  JsonObject json;
  json.Add("table", table.name())
      .Add("rows", table.rows())
      .Add("bytes", table.bytes())
      .Add("rows_per_second", table.rows_per_second())
      .Add("keys_read", table.keys_read())
      .Add("rows_found", table.rows_found());
  return json.ToString();
}

std::string TaskJson(const Task& task) {
  JsonObject json;
  json.Add("task", TaskName(task))
      .Add("incarnation", task.incarnation())
      .Add("host", task.host())
      .Add("process_id", uint64_t{task.process_id()})
      .Add("address", task.address())
      .Add("seconds_since_heartbeat", task.seconds_since_heartbeat())
      .Add("step", task.step())
      .Add("activity", task.activity())
      .Add("computed", task.computed())
      .Add("seconds_in_batch", task.seconds_in_batch())
      .Add("slow", task.slow())
      .Add("restarts", uint64_t{task.restarts()});
  return json.ToString();
}

}  // namespace

std::string StatusText(const v1::GetRunStatusResponse& run, absl::Time now) {
  std::string text = absl::StrFormat("run %s in %s, up %s\n", run.run_name(), run.run_directory(),
                                     Age(run.uptime_seconds()));
  const auto add = [&text](absl::string_view name, absl::string_view value) {
    if (!value.empty()) absl::StrAppendFormat(&text, "%-17s%s\n", name, value);
  };
  std::string phase = PhaseName(run.state().phase());
  if (!run.state().message().empty()) absl::StrAppend(&phase, ": ", run.state().message());
  add("phase", phase);
  const uint64_t last = run.state().last_step();
  const bool knows_end = last > 0 && last != UINT64_MAX;
  // Does not count the steps of skipped batches, but counts those that were under way.
  const absl::string_view of = run.state().synchronous() ? " of " : " of about ";
  add("step", knows_end ? absl::StrCat(run.step(), of, last) : absl::StrCat(run.step()));
  if (run.steps_per_second() > 0) {
    add("rate", absl::StrFormat("%.2f steps/s, %.0f examples/s", run.steps_per_second(),
                                run.examples_per_second()));
  }
  if (!run.waits_for().empty()) {
    add("waits for", run.seconds_waiting() > 0
                         ? absl::StrCat(run.waits_for(), ", for ", Age(run.seconds_waiting()))
                         : run.waits_for());
  }
  add("missing", absl::StrJoin(run.state().waiting_for(), ", "));
  const std::optional<double> age = SecondsSinceCheckpoint(run, now);
  if (run.last_checkpoint().empty()) {
    add("last checkpoint", "none yet");
  } else {
    add("last checkpoint",
        absl::StrCat(CheckpointPath(run), ", step ", run.last_checkpoint_step(),
                     age.has_value() ? absl::StrCat(", ", Age(*age), " ago") : ""));
  }
  if (run.failed_checkpoints() > 0) {
    add("failed",
        absl::StrCat(run.failed_checkpoints(), " checkpoints, the last at ", run.last_failure()));
  }
  std::vector<std::string> restarts;
  for (const Task& task : run.tasks()) {
    if (task.restarts() > 0) restarts.push_back(absl::StrCat(TaskName(task), " ", task.restarts()));
  }
  add("restarts", absl::StrJoin(restarts, ", "));
  if (run.rollbacks() > 0) {
    const v1::GetRunStatusResponse::Rollback& last = run.last_rollback();
    add("rollbacks", absl::StrCat(run.rollbacks(), ", the last from step ", last.from(), " to ",
                                  last.step(), ": ", last.reason()));
  }
  if (run.skipped_batches() > 0) {
    add("skipped", absl::StrCat(run.skipped_batches(), " batches",
                                run.last_skipped().empty() ? "" : "; ", run.last_skipped()));
  }
  add("memory", run.memory_warning());
  AppendTasks(run, &text);
  AppendTables(run, &text);
  return text;
}

std::string StatusJson(const v1::GetRunStatusResponse& run, absl::Time now) {
  std::vector<std::string> tasks, tables, missing;
  for (const Task& task : run.tasks()) tasks.push_back(TaskJson(task));
  for (const Table& table : run.tables()) tables.push_back(TableJson(table));
  for (const std::string& name : run.state().waiting_for()) {
    missing.push_back(absl::StrCat("\"", name, "\""));
  }
  JsonObject json;
  json.Add("run", run.run_name())
      .Add("run_id", run.run_id())
      .Add("run_directory", run.run_directory())
      .Add("phase", PhaseName(run.state().phase()))
      .Add("message", run.state().message())
      .Add("step", run.step())
      .Add("last_step", run.state().last_step())
      .Add("steps_per_second", run.steps_per_second())
      .Add("examples_per_second", run.examples_per_second())
      .Add("uptime_seconds", run.uptime_seconds())
      .Add("waits_for", run.waits_for())
      .Add("seconds_waiting", run.seconds_waiting())
      .Add("last_checkpoint", CheckpointPath(run))
      .Add("last_checkpoint_step", run.last_checkpoint_step())
      .Add("seconds_since_checkpoint", SecondsSinceCheckpoint(run, now))
      .Add("failed_checkpoints", run.failed_checkpoints())
      .Add("skipped_batches", run.skipped_batches())
      .Add("rollbacks", run.rollbacks())
      .Add("resumed_step", run.resumed_step())
      .AddJson("missing", absl::StrCat("[", absl::StrJoin(missing, ", "), "]"))
      .Add("memory_warning", run.memory_warning())
      .AddJson("tasks", absl::StrCat("[", absl::StrJoin(tasks, ", "), "]"))
      .AddJson("tables", absl::StrCat("[", absl::StrJoin(tables, ", "), "]"));
  return json.ToString() + "\n";
}

namespace {

// Uses the run's current directory; the summary has the path that it was written to.
std::string CheckpointNow(const std::string& directory, const Summary& summary) {
  if (!summary.checkpoint.has_value()) return "";
  return absl::StrCat(directory, "/checkpoints/",
                      summary.checkpoint->substr(summary.checkpoint->rfind('/') + 1));
}

// Returns how to continue from the summary's checkpoint, or to begin again.
std::string Continue(const Summary& summary, const std::string& resume) {
  if (IsDivergence(summary.exit_reason)) {
    return "; it would diverge again: lower the rate (--learning_rate), and name another --out "
           "unless a checkpoint is from before";
  }
  return absl::StrCat(summary.checkpoint.has_value() ? "; resume it: " : "; start it again: ",
                      resume);
}

JsonObject EndJson(const std::string& directory, const Summary& summary, absl::string_view phase,
                   const std::string& message) {
  JsonObject json;
  json.Add("run_directory", directory)
      .Add("phase", phase)
      .Add("message", message)
      .Add("step", summary.steps)
      .Add("last_checkpoint", CheckpointNow(directory, summary));
  return json;
}

}  // namespace

std::string OverText(const std::string& directory, const Summary& summary,
                     const std::string& resume) {
  const absl::string_view was = summary.status == "stopped" ? "was " : "";
  std::string text = absl::StrCat("the run in ", directory, " is over: it ", was, summary.status,
                                  " at step ", summary.steps);
  if (summary.status != "finished") absl::StrAppend(&text, ": ", summary.exit_reason);
  const uint64_t test_step = summary.test_step.value_or(summary.steps);
  const std::string of_step =
      test_step == summary.steps ? "" : absl::StrCat(" of step ", test_step);
  if (summary.test_accuracy.has_value()) {
    absl::StrAppendFormat(&text, ", test accuracy%s %.4f", of_step, *summary.test_accuracy);
  }
  for (const auto& [name, value] : summary.test_named) {
    if (value.has_value()) absl::StrAppend(&text, ", test ", name, of_step, " ", LossText(*value));
  }
  if (summary.checkpoint.has_value()) {
    absl::StrAppend(&text, ", checkpoint ", CheckpointNow(directory, summary));
  } else if (!absl::StrContains(summary.exit_reason, "no checkpoint")) {
    absl::StrAppend(&text, ", no checkpoint");
  }
  if (summary.status != "finished") text += Continue(summary, resume);
  return text;
}

std::string OverJson(const std::string& directory, const Summary& summary,
                     const std::string& resume) {
  return EndJson(directory, summary, "over", OverText(directory, summary, resume))
      .AddJson("summary", absl::StripSuffix(SummaryJson(summary), "\n"))
      .ToString();
}

std::string NotRunningText(const std::string& directory, const Summary& left,
                           const std::string& holder, const std::string& resume) {
  return absl::StrCat("the run in ", directory, " is not running: ",
                      holder.empty() ? "no process holds the directory"
                                     : absl::StrCat("the last process that held the directory, ",
                                                    holder, ", has ended without a summary"),
                      left.steps > 0 ? absl::StrCat("; last step ", left.steps) : "",
                      left.checkpoint.has_value()
                          ? ", newest checkpoint " + CheckpointNow(directory, left)
                          : "; it has no checkpoint",
                      Continue(left, resume));
}

std::string NotRunningJson(const std::string& directory, const Summary& left,
                           const std::string& message) {
  return EndJson(directory, left, "not running", message).ToString();
}

}  // namespace shoal

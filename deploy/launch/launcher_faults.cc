// Handles the deaths of tasks: restarts, and the errors that end the run.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

#include "base/file_system.h"
#include "deploy/launch/launcher.h"
#include "deploy/launch/program_failures.h"
#include "deploy/launch/reconstructed_summary.h"
#include "runtime/config/run_config.h"
#include "runtime/observability/progress.h"
#include "runtime/observability/summary.h"
#include "runtime/process/batch_mark.h"
#include "runtime/process/exit_code.h"

namespace shoal {
namespace {

// Returns whether the run trains or makes its last checkpoint, as far as the chief last reported.
bool Trains(const std::optional<v1::GetRunStatusResponse>& status) {
  return status.has_value() && (status->state().phase() == v1::RunState::PHASE_TRAINING ||
                                status->state().phase() == v1::RunState::PHASE_STOPPING);
}

// Returns how a run ends with `checkpoint`, which cannot be made before the first step.
std::string EndWith(absl::string_view checkpoint,
                    const std::optional<v1::GetRunStatusResponse>& status) {
  const bool has_steps = status.has_value() && status->step() > 0;
  return has_steps ? absl::StrCat("the run makes ", checkpoint, " and ends") : "the run ends";
}

}  // namespace

absl::Status Launcher::CheckTask(Task* task) {
  if (task->child == nullptr || task->ended) return absl::OkStatus();
  if (task->start_at.has_value()) {
    return clock_.Now() < *task->start_at ? absl::OkStatus() : Restart(task);
  }
  const std::optional<ChildExit> exit = EndOf(task);
  if (!exit.has_value()) return absl::OkStatus();
  if (exit->ok()) {
    task->ended = true;  // It was notified of the end before this launcher.
    return absl::OkStatus();
  }
  if (!exit->by_signal) {
    // The chief may have notified it that the run failed: then Watch returns the chief's own
    // message, which is better.
    if (!task->judge_at.has_value()) task->judge_at = clock_.Now() + options_.chief_exit_wait;
    if (clock_.Now() < *task->judge_at) return absl::OkStatus();
    if (exit->status_code() == absl::StatusCode::kCancelled && IsStopping()) {
      task->ended = true;
      return absl::OkStatus();
    }
  }
  if (exit->is_permanent()) {
    if (task->id.job != Job::kWorker || !Trains(link_->status())) {
      return deaths_.Failure(task->id, task->log_begin, *exit);
    }
    OnWorkerFailed(task, *exit);
    return absl::OkStatus();
  }
  ForgetRestarts(task);
  if (task->id.job == Job::kPs) return OnPsDied(task, *exit);
  OnWorkerDied(task, *exit);
  return absl::OkStatus();
}

bool Launcher::IsStopping() const {
  const std::optional<v1::GetRunStatusResponse> status = link_->status();
  return stop_deadline_ != absl::InfiniteFuture() ||
         (status.has_value() && (status->state().phase() == v1::RunState::PHASE_STOPPING ||
                                 status->state().phase() == v1::RunState::PHASE_DONE));
}

void Launcher::OnWorkerFailed(Task* task, const ChildExit& exit) {
  const absl::Status why = deaths_.Failure(task->id, task->log_begin, exit);
  if (ends_with_.ok()) {
    options_.progress->Print(absl::StrCat(
        task->id.ToString(), " failed (", deaths_.DescribeExit(task->id, task->log_begin, exit),
        "), and a restart would not help; ", EndWith("a checkpoint", link_->status()),
        "; log: ", logs_.Path(task->id)));
  }
  const bool is_last = WorkersLeft() == 1;
  EndAfterCheckpoint(why, is_last ? ChiefLink::End::kWithoutSteps : ChiefLink::End::kAfterSteps,
                     absl::StrCat(task->id.ToString(), " failed"));
  task->child.reset();
}

void Launcher::ForgetRestarts(Task* task) const {
  if (clock_.Now() - task->started >= options_.restarts_forgotten) task->restarts = 0;
}

void Launcher::OnWorkerDied(Task* task, const ChildExit& exit) {
  deaths_.PrintLogEnd(task->id);
  const bool identifies_batch = exit.crashed() && ReportCrash(task->id, exit);
  if (!ends_with_.ok()) {  // The run ends.
    task->child.reset();
    return;
  }
  const std::optional<ProgramFailure> failure =
      deaths_.FindProgramFailure(task->id, task->log_begin);
  const std::string died = deaths_.DiedText(task->id, exit, failure);
  const std::string log = absl::StrCat(
      "; log: ", failure.has_value() ? logs_.ProgramPath(task->id) : logs_.Path(task->id));
  if (failure.has_value() && failure->names_a_line && exit.number == kExitInternalError &&
      deaths_.program_failures().IsBug(WorkersLeft())) {
    options_.progress->Print(absl::StrCat(died, "; no worker gets further, so the run ends", log));
    EndAfterCheckpoint(absl::InternalError(absl::StrCat(
                           failure->cause, "; the program of every worker fails here, also ",
                           "when it is started again", log)),
                       ChiefLink::End::kWithoutSteps, "no worker gets further");
    task->child.reset();
    return;
  }
  if (identifies_batch) {
    options_.progress->Print(
        absl::StrCat(died, " on the same batch as a process before it; ",
                     "restarting it, which does not count toward its limit of restarts", log));
    task->start_at = clock_.Now();
    return;
  }
  if (task->restarts < RestartLimit(*task)) {
    const std::string when = PlanRestart(task, clock_.Now() - task->started);
    options_.progress->Print(absl::StrCat(died, "; restarting it", when, ", ", task->restarts,
                                          " of ", RestartLimit(*task), log));
    return;
  }
  absl::Status why;
  if (WorkersLeft() == 1) {
    // Another process than this launcher asked it to end.
    const bool was_stopped = exit.status_code() == absl::StatusCode::kCancelled;
    why = deaths_.Death(task->id, task->log_begin, exit,
                        was_stopped ? absl::StatusCode::kUnavailable : exit.status_code());
  }
  GiveUp(task, died, log, why);
}

uint32_t Launcher::RestartLimit(const Task& task) const {
  return task.id.job == Job::kPs ? kMaxPsRestarts : options_.run.cluster().max_worker_restarts();
}

std::string Launcher::PlanRestart(Task* task, absl::Duration life) {
  const v1::ClusterOptions& cluster = options_.run.cluster();
  const bool is_ps = task->id.job == Job::kPs;
  const absl::Duration patience =
      absl::Seconds(is_ps ? cluster.ps_return_seconds() : cluster.wait_seconds());
  const absl::Duration pause = task->pauses.Next(life, patience);
  ++task->restarts;
  task->start_at = clock_.Now() + pause;
  return pause == absl::ZeroDuration() ? "" : absl::StrCat(" in ", absl::FormatDuration(pause));
}

absl::Status Launcher::Restart(Task* task) {
  task->start_at.reset();
  const bool is_ps = task->id.job == Job::kPs;
  if (!is_ps && !ends_with_.ok()) {  // The run ends.
    task->child.reset();
    return absl::OkStatus();
  }
  const absl::Status started = StartTask(task);
  if (started.ok()) return absl::OkStatus();
  const std::string name = task->id.ToString();
  const std::string what =
      absl::StrCat(name, " could not be started again (",
                   absl::StripPrefix(started.message(), absl::StrCat(name, ": ")), ")");
  if (task->restarts < RestartLimit(*task)) {
    const std::string when = PlanRestart(task, absl::ZeroDuration());
    options_.progress->Print(absl::StrCat(what, "; trying again", when, ", ", task->restarts,
                                          " of ", RestartLimit(*task)));
    return absl::OkStatus();
  }
  if (is_ps) return absl::UnavailableError(what);
  GiveUp(task, what, absl::StrCat("; log: ", logs_.Path(task->id)), absl::UnavailableError(what));
  return absl::OkStatus();
}

void Launcher::GiveUp(Task* worker, const std::string& what, const std::string& log,
                      const absl::Status& why) {
  const std::string often = absl::StrCat(what, " after ", worker->restarts, " restarts");
  if (WorkersLeft() == 1) {
    options_.progress->Print(
        absl::StrCat(often, " and no worker is left; ",
                     EndWith("a checkpoint of its last step", link_->status())));
    EndAfterCheckpoint(why, ChiefLink::End::kWithoutSteps, "no worker is left");
  } else {
    options_.progress->Print(absl::StrCat(often, "; the others continue without it", log));
  }
  worker->child.reset();
}

bool Launcher::ReportCrash(TaskId worker, const ChildExit& exit) {
  const std::optional<MarkedBatch> mark =
      ReadBatchMark(BatchMarkPath(options_.run.out(), worker.index));
  link_->ReportCrash(worker, mark, exit.Describe());
  if (!mark.has_value()) return false;
  const auto before = std::count_if(crashes_.begin(), crashes_.end(), [&mark](const Crash& crash) {
    return crash.batch == mark->batch;
  });
  crashes_.push_back({mark->batch, worker, /*counts=*/before != 1});
  return before == 1;
}

void Launcher::ForgetCrashesOn(const v1::RunState& state) {
  for (const v1::BatchId& skipped : state.skipped()) {
    const BatchKey batch = ToBatchKey(skipped);
    for (Crash& crash : crashes_) {
      if (crash.batch != batch || !crash.counts) continue;
      crash.counts = false;
      for (Task& task : tasks_) {
        if (task.id == crash.worker && task.restarts > 0) --task.restarts;
      }
    }
  }
}

absl::Status Launcher::OnPsDied(Task* task, const ChildExit& exit) {
  if (task->restarts >= RestartLimit(*task)) {
    return deaths_.Failure(task->id, task->log_begin, exit);
  }
  deaths_.PrintLogEnd(task->id);
  const std::string when = PlanRestart(task, clock_.Now() - task->started);
  const bool goes_back = IsSynchronous(options_.run);
  options_.progress->Print(
      absl::StrCat(task->id.ToString(), " died (", exit.Describe(), "); restarting it", when, "; ",
                   goes_back ? "the run goes back to its last checkpoint, or to its start"
                             : "it takes its variables from the last checkpoint, or their initial "
                               "values if there is none; the others continue",
                   "; log: ", logs_.Path(task->id)));
  return absl::OkStatus();
}

uint64_t Launcher::ListedIncarnation(const Task& task,
                                     const v1::GetRunStatusResponse& status) const {
  for (const v1::GetRunStatusResponse::Task& listed : status.tasks()) {
    if (ToTaskId(listed.member()) != task.id) continue;
    // One that died before it was ever listed to us is recognised by its process. Where `places`
    // says where tasks run, the child is only what carries it there.
    const bool is_its_process = options_.places != nullptr ||
                                listed.process_id() == static_cast<uint32_t>(task.child->pid());
    if (is_its_process && listed.incarnation() > task.gone) return listed.incarnation();
  }
  return 0;
}

void Launcher::EndPsWithoutPlace() {
  const std::optional<v1::GetRunStatusResponse> status = link_->status();
  if (!status.has_value()) return;
  const v1::RunState::Phase phase = status->state().phase();
  if (phase != v1::RunState::PHASE_PREPARING && phase != v1::RunState::PHASE_TRAINING) return;
  for (Task& task : tasks_) {
    const bool has_time = task.kill_at == absl::InfiniteFuture();
    if (task.id.job != Job::kPs || task.child == nullptr || task.ended || !has_time ||
        task.child->Poll().has_value()) {
      continue;
    }
    const uint64_t listed = ListedIncarnation(task, *status);
    if (listed == 0 && task.incarnation != 0) {
      options_.progress->Print(absl::StrCat(task.id.ToString(),
                                            " was silent until its lease ended, although its "
                                            "process is alive; the launcher kills it"));
      BeginEnd(&task);
      continue;
    }
    task.incarnation = listed;
  }
}

void Launcher::EndAfterCheckpoint(const absl::Status& why, ChiefLink::End end,
                                  const std::string& reason) {
  ends_with_.Update(why);
  stop_deadline_ = std::min(stop_deadline_, clock_.Now() + options_.stop_timeout);
  link_->RequestCheckpoint(end, reason);
}

absl::Status Launcher::EndedAfterCheckpoint() const {
  const std::string& out = options_.run.out();
  FileSystem* const files = options_.file_system;
  // The chief's summary of a stopped run, if it could write one.
  absl::StatusOr<Summary> summary = ReadSummary(files, out);
  if (!summary.ok() || SummaryJson(*summary) == summary_before_) {
    summary =
        SummaryFromFiles(ends_with_, {options_.progress->step(), checkpoint_failure()}, out, files);
  }
  const std::optional<std::string>& checkpoint = summary->checkpoint;
  const absl::Status status(
      ends_with_.code(),
      absl::StrCat(ends_with_.message(), checkpoint.has_value()
                                             ? absl::StrCat("; resume from ", *checkpoint)
                                             : "; there is no checkpoint to resume from"));
  summary->status = "failed";
  summary->exit_reason = std::string(ends_with_.message());  // The checkpoint has its own field.
  const absl::Status saved = WriteSummary(files, out, *summary);
  if (!saved.ok()) options_.progress->Print(saved.message());
  return status;
}

absl::Status Launcher::ChiefResult(const ChildExit& exit) const {
  if (!ends_with_.ok() && exit.status_code() == absl::StatusCode::kCancelled) {
    return EndedAfterCheckpoint();
  }
  if (exit.ok()) return absl::OkStatus();
  const absl::Status failure = deaths_.Failure(chief_.id, chief_.log_begin, exit);
  // The chief may have given up waiting for a worker whose program failed.
  const std::string cause = deaths_.program_failures().CauseAt(options_.progress->step());
  if (cause.empty() || absl::IsCancelled(failure)) return failure;
  return absl::Status(failure.code(),
                      absl::StrCat(failure.message(), "; before that a program failed: ", cause));
}

size_t Launcher::WorkersLeft() const {
  return static_cast<size_t>(std::count_if(tasks_.begin(), tasks_.end(), [](const Task& task) {
    return task.id.job == Job::kWorker && task.child != nullptr;
  }));
}

}  // namespace shoal

// Starts, watches and ends the tasks. launcher_faults.cc handles their deaths.
#include "deploy/launch/launcher.h"

#include <signal.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"

#include "base/file_system.h"
#include "base/find_file.h"
#include "base/status_macros.h"
#include "deploy/launch/chief_link.h"
#include "deploy/launch/gpu_line.h"
#include "deploy/launch/program_failures.h"
#include "deploy/launch/reconstructed_summary.h"
#include "deploy/launch/run_display.h"
#include "deploy/launch/task_places.h"
#include "runtime/cluster/address.h"
#include "runtime/cluster/cluster_spec.h"
#include "runtime/config/run_config.h"
#include "runtime/observability/progress.h"
#include "runtime/process/batch_mark.h"
#include "runtime/process/program_words.h"
#include "runtime/process/shutdown.h"
#include "runtime/task/monitoring_port.h"

namespace shoal {
namespace {

constexpr absl::Duration kTick = absl::Milliseconds(50);
// The longest time for workers that no longer matter to end: one that was started near the end of
// the run may look for a chief that has ended, and one that hung and lost its place may hang for
// ever.
constexpr absl::Duration kOutsidersEnd = absl::Seconds(2);
// The longest time for a task on another host to end at once.
constexpr absl::Duration kFarEnd = absl::Seconds(10);
constexpr absl::Duration kLookAtLog = absl::Milliseconds(200);
// A program that is not ready so long after its run is named, since it may need minutes.
constexpr absl::Duration kUsualStart = absl::Seconds(2);

// Returns the address at which the task serves /metrics.
std::string ChooseMetricsAddress(TaskId task, const Launcher::Options& options) {
  const std::string& address = options.metrics_address;
  if (task.job == Job::kChief) return address;
  if (options.places != nullptr && !IsWildcardAddress(address)) {
    return options.places->ListenAddress(task);
  }
  return WithPort(address, 0);
}

}  // namespace

Launcher::Launcher(Options options)
    : options_(std::move(options)),
      logs_(options_.run.out()),
      deaths_(TaskDeaths::Options{&logs_, options_.places, options_.progress, HasProgram()}) {
  chief_.id = TaskId{Job::kChief, 0};
  const v1::DeploymentOptions& deployment = options_.run.deployment();
  for (uint32_t i = 0; i < NumPsProcesses(options_.run); ++i) {
    tasks_.emplace_back().id = TaskId{Job::kPs, i};
  }
  for (uint32_t i = 0; i < deployment.num_replicas(); ++i) {
    tasks_.emplace_back().id = TaskId{Job::kWorker, i};
  }
}

Launcher::~Launcher() = default;

absl::Status Launcher::Run() {
  display_ = std::make_unique<RunDisplay>(
      RunDisplay::Options{&options_.run, options_.file_system, options_.progress,
                          options_.newest_checkpoint, logs_.Path(chief_.id)});
  summary_before_ = SummaryText(options_.file_system, options_.run.out());
  absl::Status status = StartAll();
  if (status.ok() && !nothing_to_do_) status = Watch();
  ShowGpus();
  ShowProgress();
  display_->ShowSummary(summary_before_);
  const std::optional<ChildExit> chief =
      chief_.child == nullptr ? std::nullopt : chief_.child->Poll();
  const bool in_order = chief.has_value() && (status.ok() || absl::IsCancelled(status) ||
                                              chief->status_code() == absl::StatusCode::kCancelled);
  // A run in which nothing was left to do has started no program.
  const bool has_finished = in_order && status.ok() && !nothing_to_do_;
  const absl::Status ended =
      EndAll(in_order ? options_.end_timeout : absl::ZeroDuration(), has_finished);
  if (status.ok()) return ended;
  if (!ended.ok()) options_.progress->Print(ended.message());
  return status;
}

absl::Status Launcher::StartAll() {
  RETURN_IF_ERROR(StartTask(&chief_));
  RETURN_IF_ERROR(AwaitAddress(&chief_));
  if (nothing_to_do_) return absl::OkStatus();
  if (!options_.metrics_address.empty()) {
    const std::string page = MonitoredAddress(options_.file_system, options_.run.out(), chief_.id);
    if (!page.empty()) options_.progress->Print(PageLine(page));
  }
  link_ = std::make_unique<ChiefLink>(options_.connect(chief_.address));
  const auto start = [this](Job job) -> absl::Status {
    for (Task& task : tasks_) {
      if (task.id.job != job) continue;
      if (options_.shutdown->requested()) break;
      RETURN_IF_ERROR(StartTask(&task));
    }
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(start(Job::kPs));
  for (Task& task : tasks_) {
    if (task.child != nullptr) RETURN_IF_ERROR(AwaitAddress(&task));
  }
  // Before the workers start: with them a short run may end at once, and a summary that is older
  // than the cluster's file counts as that of an earlier start (SummaryIfOver).
  if (!options_.shutdown->requested()) RETURN_IF_ERROR(WriteClusterFile());
  return start(Job::kWorker);
}

absl::Status Launcher::StartTask(Task* task) {
  task->was_restarted = task->child != nullptr;
  ChildOptions child;
  child.name = task->id.ToString();
  child.log_file = logs_.Path(task->id);
  child.reports_address = task->id.job != Job::kWorker;
  const std::string& worker_binary = options_.run.deployment().worker_binary();
  const bool is_own = task->id.job == Job::kWorker && !worker_binary.empty();
  child.args = {is_own ? worker_binary : options_.program, std::string(JobName(task->id.job)),
                absl::StrCat("--run=", options_.run.out(), "/run.textproto"),
                absl::StrCat("--task_index=", task->id.index)};
  const TaskPlaces* const places = options_.places;
  if (task->id.job != Job::kWorker) {
    child.args.push_back("--listen_address=" +
                         (places == nullptr ? "127.0.0.1:0" : places->ListenAddress(task->id)));
  }
  if (task->id.job != Job::kChief) {
    child.args.push_back(absl::StrCat("--chief_host=", chief_.address));
  }
  if (!options_.metrics_address.empty()) {
    child.args.push_back("--metrics_address=" + ChooseMetricsAddress(task->id, options_));
  }
  if (task->id.job == Job::kWorker) {
    const uint32_t local = places == nullptr ? task->id.index : places->LocalIndex(task->id);
    child.args.push_back(absl::StrCat("--local_worker=", local));
    task->shows_gpus = local == 0 && !task->was_restarted && (places != nullptr || is_own);
    // The new process may crash before it marks a batch; the batch of the one before is not at
    // fault.
    options_.file_system->Remove(BatchMarkPath(options_.run.out(), task->id.index)).IgnoreError();
  }
  child.args.insert(child.args.end(), options_.task_flags.begin(), options_.task_flags.end());
  if (places != nullptr) {
    child.args = places->Command(task->id, task->was_restarted, child.log_file, child.args);
  }
  task->started = clock_.Now();
  task->kill_at = absl::InfiniteFuture();
  task->judge_at.reset();
  task->gone = std::max(task->gone, link_ == nullptr ? 0 : link_->ListedIncarnation(task->id));
  task->incarnation = 0;
  task->took_part = false;
  // If the size were taken for 0, an earlier process's last words would explain this one's end.
  ASSIGN_OR_RETURN(const std::optional<FileInfo> log,
                   FindFile(*options_.file_system, child.log_file));
  task->log_begin = log.has_value() ? log->size : 0;
  ASSIGN_OR_RETURN(task->child, Child::Start(child));
  return absl::OkStatus();
}

// Waits in short intervals, so that Ctrl-C is noticed.
absl::Status Launcher::AwaitAddress(Task* task) {
  const absl::Time end = clock_.Now() + options_.start_timeout;
  while (true) {
    absl::StatusOr<std::string> address = task->child->WaitForAddress(kTick);
    // It may have said where it serves just before it ended; Watch sees to such an end.
    if (!address.ok() && task->child->Poll().has_value()) {
      address = task->child->WaitForAddress(absl::ZeroDuration());
    }
    if (address.ok()) {
      task->address = *std::move(address);
      return absl::OkStatus();
    }
    if (const std::optional<ChildExit> exit = task->child->Poll()) {
      nothing_to_do_ = exit->ok() && task == &chief_;
      return nothing_to_do_ ? absl::OkStatus() : deaths_.Failure(task->id, task->log_begin, *exit);
    }
    if (options_.shutdown->requested()) {
      if (task != &chief_) return absl::OkStatus();
      return absl::CancelledError("stopped before the run had started");
    }
    if (!absl::IsDeadlineExceeded(address.status()) || clock_.Now() >= end) return address.status();
  }
}

absl::Status Launcher::WriteClusterFile() const {
  ClusterSpec cluster;
  std::vector<std::string> ps, workers;
  for (const Task& task : tasks_) {
    (task.id.job == Job::kPs ? ps : workers).push_back(task.address);
  }
  cluster.set_chief(chief_.address);
  cluster.set_ps(std::move(ps));
  cluster.set_workers(std::move(workers));
  return WriteAtomically(*options_.file_system,
                         absl::StrCat(options_.run.out(), "/cluster.textproto"), cluster.ToText());
}

absl::Status Launcher::Watch() {
  while (true) {
    if (const std::optional<ChildExit> exit = chief_.child->Poll()) return ChiefResult(*exit);
    EndPsWithoutPlace();
    NoteParticipants();
    for (Task& task : tasks_) RETURN_IF_ERROR(CheckTask(&task));
    PassOnRequests();
    ShowGpus();
    if (clock_.Now() >= stop_deadline_) {
      if (!ends_with_.ok()) return EndedAfterCheckpoint();
      return absl::CancelledError(absl::StrCat("stopped; no checkpoint could be made within ",
                                               absl::FormatDuration(options_.stop_timeout),
                                               "; if ps need longer to write, raise "
                                               "--grace_seconds. Earlier checkpoints are kept"));
    }
    ShowProgress();
    absl::SleepFor(kTick);
  }
}

void Launcher::ShowGpus() {
  for (Task& task : tasks_) {
    if (!task.shows_gpus) continue;
    const GpuLine found = FindGpuLine(logs_.Path(task.id), task.log_begin);
    task.shows_gpus = found.may_come && clock_.Now() - task.started < options_.start_timeout;
    if (found.text.empty()) continue;
    options_.progress->Print(absl::StrCat(
        task.id.ToString(),
        options_.places == nullptr ? "" : absl::StrCat(" ", options_.places->Describe(task.id)),
        ": ", found.text));
  }
}

void Launcher::ShowProgress() {
  if (link_ == nullptr) return;
  const std::optional<v1::GetRunStatusResponse> status = link_->status();
  if (status.has_value()) ForgetCrashesOn(status->state());
  display_->Show(status);
}

void Launcher::PassOnRequests() {
  const int wanted =
      options_.checkpoints_wanted == nullptr ? 0 : options_.checkpoints_wanted->load();
  if (wanted > checkpoints_asked_) {
    checkpoints_asked_ = wanted;
    const std::optional<v1::GetRunStatusResponse> status = link_->status();
    const v1::RunState::Phase phase =
        status.has_value() ? status->state().phase() : v1::RunState::PHASE_UNSPECIFIED;
    if (phase == v1::RunState::PHASE_WAITING || phase == v1::RunState::PHASE_PREPARING) {
      options_.progress->Print(
          "SIGUSR1: there is nothing to save yet; send it again once the run trains");
      return;
    }
    link_->RequestCheckpoint(ChiefLink::End::kNone, "SIGUSR1");
  }
  if (!options_.shutdown->requested() || stop_deadline_ != absl::InfiniteFuture()) return;
  stop_deadline_ = clock_.Now() + options_.stop_timeout;
  options_.progress->Print(
      "stopping: making a checkpoint first; a second Ctrl-C or SIGTERM stops at once");
  link_->RequestCheckpoint(ChiefLink::End::kAfterSteps,
                           options_.shutdown->signal() == SIGINT ? "Ctrl-C" : "asked to stop");
}

absl::Status Launcher::EndAll(absl::Duration patience, bool has_finished) {
  const absl::Time now = clock_.Now();
  const bool in_order = patience > absl::ZeroDuration();  // Else nobody is expected to end.
  std::vector<std::string> killed;
  std::vector<Task*> all;
  for (Task& task : tasks_) all.push_back(&task);
  all.push_back(&chief_);
  if (!in_order) {
    // Together, before they are waited for one by one.
    for (Task* task : all) {
      if (task->child != nullptr) BeginEnd(task);
    }
  }
  for (Task* task : all) {
    if (task->child == nullptr || task->start_at.has_value()) {
      if (has_finished) WarnOfMissedEnd(*task);
      continue;
    }
    const bool outside = task->id.job == Job::kWorker &&
                         (task->was_restarted || (link_ != nullptr && link_->IsOutOfRun(task->id)));
    // One that took part may wait for the end of its program, also if it was restarted or has left
    // the run.
    const bool matters = task->took_part || !outside;
    // Its program may still start, and then runs the code behind its loop.
    const bool may_start =
        has_finished && HasProgram() && task->id.job == Job::kWorker && !task->took_part;
    const absl::Time end = may_start ? std::max(now, StartDeadline(*task)) + patience
                           : matters ? now + patience
                                     : now + std::min(patience, kOutsidersEnd);
    const std::optional<ChildExit> exit = AwaitEnd(*task, end, in_order ? now : end, may_start);
    if (!exit.has_value()) {
      if (outside && in_order) {
        options_.progress->Print(absl::StrCat(
            task->id.ToString(),
            " was still starting, or had left the run, when the run ended, and was killed; log: ",
            logs_.Path(task->id)));
        if (has_finished) WarnOfMissedEnd(*task);
      } else if (in_order) {
        killed.push_back(task->id.ToString());
      }
      End(task);
    } else if (!exit->ok() && !task->ended && in_order && task != &chief_ &&
               exit->status_code() != absl::StatusCode::kCancelled) {
      const std::optional<ProgramFailure> failure =
          deaths_.FindProgramFailure(task->id, task->log_begin);
      options_.progress->Print(absl::StrCat(
          failure.has_value() ? failure->cause + "\n" : "", task->id.ToString(), " ended with ",
          deaths_.DescribeExit(task->id, task->log_begin, *exit),
          "; log: ", failure.has_value() ? logs_.ProgramPath(task->id) : logs_.Path(task->id)));
      if (has_finished) WarnOfMissedEnd(*task);
    }
  }
  link_.reset();
  if (killed.empty()) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(absl::StrJoin(killed, ", "), " did not end within ",
                                          absl::FormatDuration(patience),
                                          " after the run and had to be killed; the run's result ",
                                          "is valid, see ", options_.run.out(), "/logs"));
}

absl::Time Launcher::StartDeadline(const Task& worker) const {
  return worker.started + absl::Seconds(options_.run.cluster().wait_seconds());
}

void Launcher::WarnOfMissedEnd(const Task& task) const {
  if (task.id.job != Job::kWorker || !HasProgram()) return;
  options_.progress->Print(
      absl::StrCat("warning: the code behind the loop of ", ProgramName(options_.run),
                   " did not run in ", task.id.ToString(), ", because ", task.id.ToString(),
                   " was not ready when the run ended, so its exports are missing"));
}

std::optional<ChildExit> Launcher::AwaitEnd(const Task& task, absl::Time end, absl::Time began,
                                            bool may_start) {
  const bool may_wait = began < end && HasProgram() && task.id.job == Job::kWorker;
  bool waits = false, is_named = !may_start, was_stopped = false;
  while (true) {
    const absl::Duration left = std::max(end - clock_.Now(), absl::ZeroDuration());
    const std::optional<ChildExit> exit =
        task.child->WaitFor(may_wait ? std::min(left, kLookAtLog) : left);
    const std::string words = may_wait ? logs_.ProgramWords(task.id, task.log_begin) : "";
    if (exit.has_value() && absl::StrContains(words, kKilledAfterRun)) {
      options_.progress->Print(absl::StrCat(task.id.ToString(), ": ", words));
    }
    if (exit.has_value()) return exit;
    if (!waits && absl::StrContains(words, kRunsAfterRun)) {
      waits = true;
      end = may_start ? clock_.Now() + options_.program_timeout
                      : std::max(end, began + options_.program_timeout);
      options_.progress->Print(absl::StrCat(task.id.ToString(), ": ", words));
    }
    if (!waits && !is_named && clock_.Now() >= began + kUsualStart) {
      is_named = true;
      options_.progress->Print(absl::StrCat(
          task.id.ToString(), ": ", ProgramName(options_.run),
          " is still starting; it is waited for, because the code behind its loop comes after the ",
          "run; Ctrl-C ends it"));
    }
    if ((waits || may_start) && !was_stopped && options_.shutdown->requested()) {
      was_stopped = true;
      end = std::min(end, clock_.Now() + options_.end_timeout);
      for (const Task& other : tasks_) {
        if (other.child != nullptr) other.child->Signal(SIGTERM);
      }
    }
    if (clock_.Now() >= end) return std::nullopt;
  }
}

void Launcher::BeginEnd(Task* task) const {
  if (task->kill_at != absl::InfiniteFuture()) return;
  task->kill_at = clock_.Now();
  if (options_.places == nullptr) {
    task->child->Kill();
  } else {
    // The process that carries the task ends it there first.
    task->child->Signal(SIGTERM);
    task->kill_at += kFarEnd;
  }
}

void Launcher::End(Task* task) const {
  BeginEnd(task);
  task->child->WaitFor(task->kill_at - clock_.Now());
  task->child->Kill();
  if (task->child->WaitFor(task->child->PatienceAfterKill()).has_value()) return;
  PrintThatItDoesNotEnd(*task);
}

std::optional<ChildExit> Launcher::EndOf(Task* task) const {
  const std::optional<ChildExit> exit = task->child->Poll();
  if (exit.has_value() || clock_.Now() < task->kill_at) return exit;
  task->child->Kill();
  if (task->child->PatienceAfterKill() > absl::ZeroDuration()) return std::nullopt;
  PrintThatItDoesNotEnd(*task);
  return ChildExit{/*by_signal=*/true, SIGKILL};
}

void Launcher::PrintThatItDoesNotEnd(const Task& task) const {
  options_.progress->Print(absl::StrCat(
      task.id.ToString(), " (process ", task.child->pid(),
      ") does not end after SIGKILL, so it is not waited for; does its file system answer?"));
}

void Launcher::NoteParticipants() {
  if (!HasProgram()) return;
  const std::optional<v1::GetRunStatusResponse> status = link_->status();
  if (!status.has_value()) return;
  for (Task& task : tasks_) {
    if (task.id.job != Job::kWorker || task.child == nullptr || task.took_part) continue;
    task.took_part = ListedIncarnation(task, *status) != 0;
  }
}

}  // namespace shoal

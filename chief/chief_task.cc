#include "chief/chief_task.h"

#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"

#include "base/find_file.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "base/system_random.h"
#include "chief/await_directory.h"
#include "chief/chief_metrics.h"
#include "chief/describe_run.h"
#include "chief/resume_point.h"
#include "chief/session/run_plan.h"
#include "runtime/checkpoint/initial_model.h"
#include "runtime/checkpoint/model_export.h"
#include "runtime/checkpoint/training_complete.h"
#include "runtime/cluster/cluster_spec.h"
#include "runtime/config/run_config.h"
#include "runtime/config/stop_times.h"
#include "runtime/observability/metrics_file.h"
#include "runtime/observability/metrics_progress.h"
#include "runtime/observability/progress.h"
#include "runtime/process/version.h"
#include "runtime/variables/metric_sums.h"

namespace shoal {
namespace {

// The longest time that the directory of a killed chief stays locked.
constexpr absl::Duration kPredecessorEnds = absl::Seconds(2);

// Returns the status of a start, or of an end, with a full disk as UNAVAILABLE if the run has
// begun: nothing of the run is lost, and the chief may be started again.
absl::Status WithTemporaryFullDisk(const TaskOptions& options, const absl::Status& status) {
  if (!absl::IsResourceExhausted(status)) return status;
  const std::string& out = options.run.out();
  // A run that cannot be seen now may have begun.
  const absl::StatusOr<std::optional<FileInfo>> run_id =
      FindFile(*options.file_system, absl::StrCat(out, "/RUN_ID"));
  if (run_id.ok() && !run_id->has_value()) return status;
  return absl::UnavailableError(absl::StrCat("the chief cannot write to the run in ", out, ": ",
                                             status.message(), "; make room there"));
}

}  // namespace

ChiefTask::~ChiefTask() { chief_.reset(); }

absl::StatusOr<std::unique_ptr<ChiefTask>> ChiefTask::Create(const TaskOptions& options,
                                                             uint32_t num_ps_tasks, Connect connect,
                                                             IfHeld if_held) {
  absl::StatusOr<std::unique_ptr<ChiefTask>> task =
      Prepare(options, num_ps_tasks, std::move(connect), if_held);
  if (!task.ok()) return WithTemporaryFullDisk(options, task.status());
  return task;
}

absl::StatusOr<std::unique_ptr<ChiefTask>> ChiefTask::Prepare(const TaskOptions& options,
                                                              uint32_t num_ps_tasks,
                                                              Connect connect, IfHeld if_held) {
  std::unique_ptr<ChiefTask> task(new ChiefTask(options));
  const v1::RunConfig& run = options.run;
  RETURN_IF_ERROR(options.file_system->MakeDirectory(run.out()));
  // A power cut would take the directory with all checkpoints. This user may not be able to open
  // the directory above: then it is not synced.
  options.file_system->SyncDirectory(ParentDirectory(run.out())).IgnoreError();
  if (if_held != IfHeld::kNotAsked) {
    ASSIGN_OR_RETURN(task->lock_,
                     if_held == IfHeld::kWait
                         ? AwaitDirectory(options)
                         : RunLock::Acquire(run.out(), RunLock::Holder::kChief, kPredecessorEnds));
  }
  ASSIGN_OR_RETURN(
      task->checkpoints_,
      CheckpointDirectory::Open(*options.file_system, absl::StrCat(run.out(), "/checkpoints")));
  TrainingSession::Options session;
  session.run = run;
  session.num_ps_tasks = num_ps_tasks;
  session.checkpoint_root = task->checkpoints_->root();
  RETURN_IF_ERROR(task->FindCheckpoint(&session));
  task->resumes_ = session.manifest.has_value();
  if (!task->resumes_ && !run.init_from().empty()) {
    // The run that it names may train meanwhile: every ps reads the same checkpoint, after a
    // rollback too.
    ASSIGN_OR_RETURN(*session.run.mutable_init_from(),
                     ResolveInitFrom(*options.file_system, run.init_from()));
    LOG(INFO) << "initial values are from " << session.run.init_from();
  }
  if (session.manifest.has_value()) {
    ASSIGN_OR_RETURN(task->finished_, IsTrainingComplete(run, *session.manifest));
    if (task->finished_) {
      // Its chief may have died before the export was there.
      task->MakeExport(task->checkpoints_->GetPath(session.manifest_directory),
                       absl::InfiniteFuture())
          .IgnoreError();
      return task;
    }
  }
  RETURN_IF_ERROR(task->BeginTerm(&session));
  ASSIGN_OR_RETURN(task->recorder_,
                   RunRecorder::Create(task->RecorderOptions(
                       session.manifest.has_value() ? session.manifest->step() : 0)));

  Chief::Options chief;
  session.shared_run = SharedByAllTasks(run);
  chief.session = std::move(session);
  chief.clock = options.clock;
  chief.recorder = task->recorder_.get();
  chief.connect = std::move(connect);
  chief.secure = options.credentials != nullptr;
  task->chief_ = std::make_unique<Chief>(std::move(chief));
  return task;
}

absl::Status ChiefTask::BeginTerm(TrainingSession::Options* session) {
  RETURN_IF_ERROR(NextTerm());
  session->term = term_;
  ASSIGN_OR_RETURN(
      session->run_id,
      RunId(session->manifest.has_value() ? session->manifest->run_id() : std::string()));
  session->token = SystemRandomHex();
  RETURN_IF_ERROR(WriteAtomically(
      *options_.file_system, absl::StrCat(session->checkpoint_root, "/TOKEN"), session->token));
  session->lease = absl::Seconds(options_.run.cluster().lease_seconds());
  session->peer_wait = absl::Seconds(options_.run.cluster().wait_seconds());
  session->ps_return_wait = absl::Seconds(options_.run.cluster().ps_return_seconds());
  session->save_period = absl::Seconds(options_.run.checkpoint().save_seconds());
  session->export_every = options_.run.checkpoint().export_every();
  session->stop_wait = ComputeStopTimes(options_.run).checkpoint;
  session->stall = absl::Seconds(options_.run.cluster().stall_seconds());
  return absl::OkStatus();
}

RunRecorder::Options ChiefTask::RecorderOptions(uint64_t first_step) {
  RunRecorder::Options recorder;
  recorder.file_system = options_.file_system;
  recorder.clock = options_.clock;
  recorder.directory = options_.run.out();
  recorder.first_step = first_step;
  recorder.synchronous = IsSynchronous(options_.run);
  recorder.scalars_every = options_.run.summary().scalars_every();
  recorder.progress = options_.progress;
  recorder.num_epochs = options_.run.num_epochs();
  recorder.publish = [this](const ManifestToWrite& write) { return Publish(write); };
  recorder.export_model = [this](const ModelExport& wanted) { return Export(wanted); };
  recorder.prune = [this] { Prune(); };
  recorder.discard_above = [this](uint64_t step) { return DiscardAbove(step); };
  recorder.discard_failed = [this](const std::string& directory) {
    return DiscardFailed(directory);
  };
  recorder.may_write = [this] { return CheckTerm(); };
  return recorder;
}

absl::Status ChiefTask::FindCheckpoint(TrainingSession::Options* session) {
  std::vector<std::string> rejected;
  ASSIGN_OR_RETURN(std::optional<ResumePoint> found,
                   FindResumePoint(options_.run, checkpoints_.get(),
                                   Checkpoint::Verify::kEverything, &rejected));
  for (const std::string& line : rejected) LOG(WARNING) << line;
  if (!found.has_value()) return absl::OkStatus();
  session->manifest = std::move(found->manifest);
  session->manifest_directory = found->path.substr(found->path.rfind('/') + 1);
  LOG(INFO) << "resuming from step " << session->manifest->step() << " in " << found->path;
  if (options_.progress != nullptr) {
    const absl::StatusOr<StepMetrics> last =
        LastMetricsLine(options_.file_system, absl::StrCat(options_.run.out(), "/metrics.jsonl"));
    options_.progress->Print(ResumeText(session->manifest->step(), session->manifest_directory,
                                        last.ok() ? last->step : 0));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ChiefTask::RunId(const std::string& of_checkpoint) const {
  const std::string path = absl::StrCat(options_.run.out(), "/RUN_ID");
  const absl::StatusOr<std::string> text = ReadFile(*options_.file_system, path);
  if (!text.ok() && !absl::IsNotFound(text.status())) return text.status();
  const std::string kept =
      text.ok() ? std::string(absl::StripAsciiWhitespace(*text)) : std::string();
  std::string run_id = of_checkpoint.empty() ? kept : of_checkpoint;
  if (text.ok() && run_id.empty()) {
    return absl::DataLossError(
        absl::StrCat(path, ": is empty; remove it if no task of this run is alive"));
  }
  if (run_id.empty()) run_id = SystemRandomHex();
  if (run_id == kept) return run_id;
  RETURN_IF_ERROR(WriteAtomically(*options_.file_system, path, absl::StrCat(run_id, "\n")));
  return run_id;
}

absl::StatusOr<uint64_t> ChiefTask::ReadTerm() const {
  const std::string path = absl::StrCat(options_.run.out(), "/TERM");
  const absl::StatusOr<std::string> text = ReadFile(*options_.file_system, path);
  if (absl::IsNotFound(text.status())) return 0;
  RETURN_IF_ERROR(text.status());
  uint64_t term = 0;
  if (!absl::SimpleAtoi(absl::StripAsciiWhitespace(*text), &term)) {
    return absl::DataLossError(
        absl::StrCat(path, ": is not a number; remove it if no chief of this run is alive"));
  }
  return term;
}

absl::Status ChiefTask::NextTerm() {
  ASSIGN_OR_RETURN(const uint64_t last, ReadTerm());
  term_ = last + 1;
  return WriteAtomically(*options_.file_system, absl::StrCat(options_.run.out(), "/TERM"),
                         absl::StrCat(term_, "\n"));
}

absl::Status ChiefTask::CheckTerm() const {
  ASSIGN_OR_RETURN(const uint64_t newest, ReadTerm());
  if (newest <= term_) return absl::OkStatus();
  return absl::AbortedError(
      absl::StrFormat("a newer chief, of term %d, has taken %s over", newest, options_.run.out()));
}

absl::Status ChiefTask::WriteRunFile(uint32_t replicas_to_aggregate, uint64_t slice_bytes) {
  v1::RunConfig run = options_.run;
  if (IsSynchronous(run)) {
    run.mutable_sync()->set_replicas_to_aggregate(replicas_to_aggregate);
  }
  if (slice_bytes > 0) run.mutable_cluster()->set_slice_bytes(slice_bytes);
  return WriteAtomically(*options_.file_system, absl::StrCat(run.out(), "/run.textproto"),
                         PrintRunConfig(run));
}

absl::Status ChiefTask::RecordStart(const ClusterSpec& cluster) {
  return WithTemporaryFullDisk(options_, WriteStart(cluster));
}

absl::Status ChiefTask::WriteStart(const ClusterSpec& cluster) {
  if (!cluster.empty()) {
    RETURN_IF_ERROR(WriteAtomically(*options_.file_system,
                                    absl::StrCat(options_.run.out(), "/cluster.textproto"),
                                    cluster.ToText()));
  }
  if (resumes_) return absl::OkStatus();
  const v1::RunConfig& run = options_.run;
  return WriteRunFile(ReplicasToAggregate(run, /*manifest=*/nullptr), run.cluster().slice_bytes());
}

absl::Status ChiefTask::WaitAndConclude(const absl::Status& why_stopped) {
  if (finished_) {
    LOG(INFO) << "this run had finished before; raise --num_epochs or --max_steps to train on";
    return absl::OkStatus();
  }
  absl::Status status = chief_->Wait();
  if (absl::IsCancelled(status) && !why_stopped.ok()) status = why_stopped;
  const absl::Status lines = recorder_->FlushLines();
  if (!lines.ok()) LOG(ERROR) << "metrics.jsonl ends early: " << lines;
  const absl::Status written = WriteOwnSummary(status);
  return status.ok() ? WithTemporaryFullDisk(options_, written) : status;
}

void ChiefTask::AddEvaluation(const Chief::Outcome& outcome, Summary* summary) const {
  summary->test_named = NameMetrics(
      outcome.metric_names, outcome.test.has_value() ? outcome.test->metrics : MetricSums());
  if (!outcome.classifies) summary->test_accuracy = TakeAccuracy(&summary->test_named);
  if (outcome.test.has_value() && outcome.test->examples > 0) {
    const auto examples = static_cast<double>(outcome.test->examples);
    summary->test_step = outcome.steps;
    summary->test_loss = outcome.test->loss_sum / examples;
    if (outcome.classifies)
      summary->test_accuracy = static_cast<double>(outcome.test->correct) / examples;
    return;
  }
  // A run that was stopped, or failed, is rarely evaluated at its last step.
  SetLastEvaluation(options_.file_system, options_.run.out(), summary);
}

absl::Status ChiefTask::WriteOwnSummary(const absl::Status& status) {
  if (absl::IsAborted(CheckTerm())) return absl::OkStatus();  // it is another chief's
  // A start that was refused before its first step keeps the record of the run's result.
  if (!status.ok() && !absl::IsCancelled(status) && !recorder_->any_step() &&
      ReadSummary(options_.file_system, options_.run.out()).ok()) {
    return absl::OkStatus();
  }
  const Chief::Outcome outcome = chief_->outcome();
  Summary summary = recorder_->summary();
  summary.status = status.ok() ? "finished" : absl::IsCancelled(status) ? "stopped" : "failed";
  summary.exit_reason = status.ok() ? "trained to the end" : std::string(status.message());
  summary.steps = outcome.steps;
  summary.epochs = outcome.epochs;
  summary.skipped_batches = outcome.skipped_batches;
  AddEvaluation(outcome, &summary);
  if (!outcome.checkpoint.empty()) {
    summary.checkpoint = checkpoints_->GetPath(outcome.checkpoint);
    RemoveProgramValues();
  }
  if (!outcome.checkpoint_failure.empty()) summary.checkpoint_failure = outcome.checkpoint_failure;
  v1::GetRunStatusResponse run;
  chief_->GetRunStatus(v1::GetRunStatusRequest(), &run).IgnoreError();  // It has none.
  for (const v1::GetRunStatusResponse::Table& table : run.tables()) {
    TableFigures& figures = summary.tables[table.name()];
    figures = FiguresOf(table);
    figures.rows_per_second.reset();
  }
  const absl::Status written = WriteSummary(options_.file_system, options_.run.out(), summary);
  WriteReport();
  return written;
}

TaskStatus ChiefTask::Status() const {
  v1::GetRunStatusResponse run;
  chief_->GetRunStatus(v1::GetRunStatusRequest(), &run).IgnoreError();  // It has none.
  return ChiefStatus(run, absl::ToDoubleSeconds(options_.clock->Now() - absl::UnixEpoch()));
}

void ChiefTask::Collect(MetricPage* page) const {
  v1::GetRunStatusResponse run;
  chief_->GetRunStatus(v1::GetRunStatusRequest(), &run).IgnoreError();
  CollectChief(recorder_->metrics(), run, page);
}

std::optional<RunPage> ChiefTask::DescribeRun() const {
  v1::GetRunStatusResponse run;
  chief_->GetRunStatus(v1::GetRunStatusRequest(), &run).IgnoreError();
  RunPage page = shoal::DescribeRun(options_.run, run, recorder_->history(), options_.clock->Now());
  page.mean_examples_per_second = recorder_->summary().examples_per_second.value_or(0);
  return page;
}

void ChiefTask::WriteReport() const {
  RunPage page = *DescribeRun();
  page.is_live = false;
  page.program = absl::StrCat("shoal ", kVersion);
  const absl::Status written = WriteAtomically(
      *options_.file_system, JoinPath(options_.run.out(), "report.html"), RunPageHtml(page));
  if (!written.ok()) LOG(WARNING) << "report.html could not be written: " << written;
}

}  // namespace shoal

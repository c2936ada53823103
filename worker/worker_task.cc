#include "worker/worker_task.h"

#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "base/file_system.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "ml/data/dataset_factory.h"
#include "runtime/checkpoint/finish_detector.h"
#include "runtime/config/stop_times.h"
#include "runtime/observability/metric_page.h"
#include "runtime/observability/task_monitor.h"
#include "runtime/process/batch_mark.h"
#include "runtime/process/program_words.h"
#include "runtime/process/shutdown.h"
#include "runtime/rpc/chief_session.h"
#include "runtime/rpc/drain.h"
#include "runtime/rpc/run_state.h"
#include "runtime/task/chief_session_options.h"
#include "runtime/task/task_end.h"
#include "runtime/variables/exchange_groups.h"
#include "worker/prediction/class_names.h"
#include "worker/program/program_inputs.h"
#include "worker/replica/compute_backends.h"
#include "worker/replica/replica.h"
#include "worker/replica/worker_devices.h"
#include "worker/state_feed.h"
#include "worker/summary_writer.h"
#include "worker/worker_metrics.h"

namespace shoal {
namespace {

// A program's reports of progress count at most once in this part of cluster.stall_seconds.
constexpr double kPartOfStall = 0.125;

// The worker's status and metrics.
class WorkerSource : public TaskSource {
 public:
  explicit WorkerSource(std::function<void(bool)> on_ready) : on_ready_(std::move(on_ready)) {}

  TaskStatus Status() const override {
    MutexLock lock(&mutex_);
    return status_;
  }
  void Collect(MetricPage* page) const override {
    page->AddGauge("shoal_global_step", "Updates that are applied to the variables.",
                   static_cast<double>(Status().step));
    CollectWorker(metrics, page);
  }

  // A worker is ready as soon as it has the run's plan, and a trainer with it.
  void Set(const Trainer::Progress& progress) {
    {
      MutexLock lock(&mutex_);
      status_.step = progress.step;
      status_.activity = progress.activity;
    }
    SetReady(true);
  }
  void SetWords(std::string words) {
    {
      MutexLock lock(&mutex_);
      status_.activity = std::move(words);
    }
    SetReady(false);
  }

  WorkerMetrics metrics;

 private:
  // One call at a time: while the trainer runs its progress is what is shown, else words are.
  void SetReady(bool ready) {
    {
      MutexLock lock(&mutex_);
      if (status_.ready == ready) return;
      status_.ready = ready;
    }
    if (on_ready_ != nullptr) on_ready_(ready);
  }

  const std::function<void(bool)> on_ready_;
  mutable Mutex mutex_;
  TaskStatus status_ ABSL_GUARDED_BY(mutex_);
};

// If there is no mark, a crash cannot be attributed to a batch, but training is possible.
std::unique_ptr<BatchMark> MarkFor(const TaskOptions& options) {
  absl::Status status =
      options.file_system->MakeDirectory(absl::StrCat(options.run.out(), "/logs"));
  if (status.ok()) {
    absl::StatusOr<std::unique_ptr<BatchMark>> mark =
        BatchMark::Create(BatchMarkPath(options.run.out(), options.task.index));
    if (mark.ok()) return *std::move(mark);
    status = mark.status();
  }
  LOG(WARNING) << "the current batch is not recorded, so a crash cannot be attributed to a batch: "
               << status;
  return nullptr;
}

// Written by worker 0 if the run asks for it.
std::unique_ptr<SummaryWriter> SummariesFor(const TaskOptions& options) {
  if (options.task.index != 0 || options.run.summary().model_every() == 0) return nullptr;
  SummaryWriter::Options writer;
  writer.file_system = options.file_system;
  writer.clock = options.clock;
  writer.directory = absl::StrCat(options.run.out(), "/events/worker-0");
  writer.every = options.run.summary().model_every();
  return std::make_unique<SummaryWriter>(writer);
}

// Trains with a registered session until the run is over.
absl::Status Train(const TaskOptions& options, const WorkerLinks& links,
                   const ReplicaInputs& inputs, ChiefSession* session, StateFeed* feed,
                   WorkerSource* source) {
  source->SetWords("waits for the run's plan");
  ASSIGN_OR_RETURN(const v1::RunState state, feed->WaitForPlan());
  if (state.phase() == v1::RunState::PHASE_DONE) return GetFailure(state);
  ASSIGN_OR_RETURN(const SliceTable table, SliceTable::Create(inputs.program->variables(),
                                                              state.shard_map().slice_bytes()));
  ASSIGN_OR_RETURN(const StepPlan steps, StepPlan::FromProto(state.plan()));
  const std::vector<uint32_t> owner(state.shard_map().owner().begin(),
                                    state.shard_map().owner().end());
  const std::unique_ptr<VariableStore> store =
      links.make_store(table, MakeExchangeGroups(table, owner), session->identity());
  const double worker_clips =
      state.synchronous() ? 0 : options.run.optimizer().clip_by_global_norm();
  Replica replica(inputs.program.get(), &table, &store->groups(), worker_clips);

  const std::unique_ptr<BatchMark> mark = MarkFor(options);
  const std::unique_ptr<SummaryWriter> summaries = SummariesFor(options);
  // If there is no test split the trainer evaluates nothing, and reads no plan of it.
  const bool evaluates = inputs.test != nullptr;
  const absl::Duration stall = absl::Seconds(options.run.cluster().stall_seconds());
  const Dataset& test = evaluates ? *inputs.test : *inputs.train;
  TrainerOptions trainer_options{.worker = options.task.index,
                                 .clock = options.clock,
                                 .replica = &replica,
                                 .store = store.get(),
                                 .chief = links.chief,
                                 .train = inputs.train.get(),
                                 .test = inputs.test.get(),
                                 .train_plan = *inputs.train_plan,
                                 .test_plan = evaluates ? *inputs.test_plan : *inputs.train_plan,
                                 .steps = steps,
                                 .train_threads = DecodeThreads(options.run.data(), *inputs.train),
                                 .test_threads = DecodeThreads(options.run.data(), test),
                                 .summaries = summaries.get(),
                                 .metrics = &source->metrics,
                                 .mark = mark.get(),
                                 .progress_period = kPartOfStall * stall,
                                 .identity = [session] { return session->identity(); }};
  ProgressLinks progress;
  progress.session = session;
  progress.check_links = links.check_links;
  progress.on_progress = [source](const Trainer::Progress& now) { source->Set(now); };
  const absl::Status status = TrainUntilOver(state.synchronous(), trainer_options, progress, feed);
  source->SetWords("ends");
  return status;
}

// Replaces the run's devices by those that this worker takes, so that the workers of a host do not
// share a GPU.
absl::Status TakeOwnDevices(TaskOptions* options) {
  v1::DeploymentOptions* deployment = options->run.mutable_deployment();
  if (!options->local_worker.has_value() || AcceleratorsFor(*deployment).empty()) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const std::string devices,
                   DevicesOfWorker(*deployment, *options->local_worker, CountGpus()));
  if (devices.empty()) return absl::OkStatus();
  LOG(INFO) << "devices: " << devices << ", as worker " << options->local_worker->index
            << " of this host, counted from 0";
  deployment->set_devices(devices);
  return absl::OkStatus();
}

// Opens the data and the model of the run, or starts its compute program.
absl::StatusOr<ReplicaInputs> LoadInputs(const ModelFactory& model, TaskOptions* options) {
  const v1::RunConfig& run = options->run;
  if (!run.program().file().empty()) {
    return LoadProgramInputs(options);
  }
  LOG(INFO) << DescribeGpusFor(run.deployment());
  RETURN_IF_ERROR(TakeOwnDevices(options));
  return LoadReplicaInputs(run, options->task.index, model);
}

// The chief accepts the model before initial values are written to the run's directory.
absl::Status RegisterWorker(ChiefSession* session, ReplicaInputs* inputs) {
  if (inputs->write_initial_values != nullptr) {
    RETURN_IF_ERROR(session->Check(inputs->declaration));
    RETURN_IF_ERROR(inputs->write_initial_values(&inputs->declaration));
  }
  return session->Register(&inputs->declaration);
}

// A compute program knows where it has declared what the chief refuses.
absl::Status WhyNotRegistered(const ReplicaInputs& inputs, const absl::Status& why) {
  const bool is_refused = absl::IsFailedPrecondition(why) || absl::IsInvalidArgument(why) ||
                          absl::StartsWith(why.message(), kOtherComputation);
  return is_refused && inputs.refused != nullptr ? inputs.refused(why) : why;
}

}  // namespace

absl::Status RunWorkerTask(const TaskOptions& given, const WorkerLinks& links,
                           const ModelFactory& model) {
  TaskOptions options = given;
  WorkerSource source(links.on_ready);
  source.SetWords("reads the data");
  FinishDetector ending(options.file_system, options.clock, options.run,
                        absl::Seconds(options.run.cluster().lease_seconds()));
  const TaskMonitor::Shown shown(options.monitor, options.task, &source);
  ASSIGN_OR_RETURN(ReplicaInputs inputs, LoadInputs(model, &options));
  for (const std::string& notice : inputs.notices) LOG(WARNING) << notice;
  for (const std::string& device : inputs.missing_devices) {
    LOG(WARNING) << "devices: there is no " << device << "; a CPU is used instead";
  }
  ending.set_run(options.run);  // It may have got settings from its program.
  StateFeed feed(options.clock, links.abandon);
  ChiefSession::Options session_options = ChiefSessionOptionsFor(options);
  session_options.is_over = [&ending] { return ending.IsOver(); };
  ChiefSession session(links.chief, options.clock, std::move(session_options), &feed);
  const Drain drain(options.shutdown, links.chief, options.clock,
                    ComputeStopTimes(options.run).drain, [&feed, &session] {
                      feed.End(absl::CancelledError("asked to stop"));
                      session.StopRegistering();
                    });
  source.SetWords("waits for the chief");
  const absl::Status registered = RegisterWorker(&session, &inputs);
  if (absl::IsOutOfRange(registered)) {
    LOG(INFO) << "the run has ended without this worker, according to summary.json";
    // The code behind the loop of a compute program runs all the same.
    if (inputs.finish != nullptr) inputs.finish(absl::OkStatus());
    return absl::OkStatus();
  }
  if (!registered.ok()) return WhyNotRegistered(inputs, registered);
  LOG(INFO) << "registered as " << options.task.ToString() << ", "
            << inputs.program->variables().size() << " variables, " << inputs.train->size()
            << " examples, computes with " << inputs.program->compute_fingerprint();
  if (options.task.index == 0) {
    const absl::Status named =
        WriteClassNames(options.file_system, options.run.out(), inputs.train->class_names());
    if (!named.ok()) LOG(WARNING) << "predictions will not have the classes' names: " << named;
  }
  if (inputs.test == nullptr) LOG(INFO) << "the data has no test split: nothing is evaluated";
  for (const std::string& line : inputs.placement) LOG(INFO) << line;
  session.Start();
  const TaskEnd end(Train(options, links, inputs, &session, &feed, &source), *options.shutdown);
  if (end.is_run_over()) links.close_chief();
  session.Stop(
      end.was_asked() ? ChiefSession::Departure::kAskedToLeave : ChiefSession::Departure::kLeaves,
      end.was_asked() ? "" : std::string(end.status().message()));
  links.close_chief();
  // Its place is free: a compute program may take long to end.
  if (inputs.finish != nullptr) inputs.finish(end.status());
  return end.result();
}

}  // namespace shoal

#include "worker/evaluator/evaluator_task.h"

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "base/clock.h"
#include "base/file_system.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/checkpoint_directory.h"
#include "runtime/checkpoint/training_complete.h"
#include "runtime/observability/metric.h"
#include "runtime/observability/metric_page.h"
#include "runtime/observability/summary.h"
#include "runtime/observability/task_monitor.h"
#include "runtime/process/directory_outcome.h"
#include "runtime/process/run_lock.h"
#include "runtime/process/shutdown.h"
#include "worker/evaluator/checkpoint_evaluator.h"
#include "worker/evaluator/evaluation_log.h"
#include "worker/evaluator/run_watch.h"
#include "worker/replica/compute_backends.h"
#include "worker/replica/replica_inputs.h"
#include "worker/replica/trained_variables.h"

namespace shoal {
namespace {

constexpr absl::Duration kPoll = absl::Milliseconds(500);

// The evaluator's status and metrics.
class EvaluatorSource : public TaskSource {
 public:
  TaskStatus Status() const override {
    MutexLock lock(&mutex_);
    return status_;
  }
  void Collect(MetricPage* page) const override {
    page->AddCounter("shoal_evaluations_total", "Checkpoints that this evaluator has evaluated.",
                     static_cast<double>(evaluations_.value()));
    page->AddHistogram("shoal_evaluation_duration_seconds", "Time to evaluate one checkpoint.",
                       seconds_);
    if (evaluations_.value() == 0) return;
    page->AddGauge("shoal_evaluation_loss", "Loss on the test split, last time.", loss_.value());
    page->AddGauge("shoal_evaluation_accuracy", "Accuracy on the test split, last time.",
                   accuracy_.value());
    for (const auto& [name, value] : named_.values()) {
      page->AddGauge("shoal_evaluation_metric",
                     "A metric of the model on the test split, last time.", value,
                     {{"metric", name}});
    }
    page->AddGauge("shoal_evaluation_step", "Step of the checkpoint evaluated last.",
                   static_cast<double>(Status().step));
  }

  void SetWords(bool ready, std::string words) {
    MutexLock lock(&mutex_);
    status_.ready = ready;
    status_.activity = std::move(words);
  }
  void Add(const std::string& path, const Evaluation& evaluation, absl::Duration took) {
    evaluations_.Add();
    seconds_.Observe(absl::ToDoubleSeconds(took));
    loss_.Set(evaluation.loss);
    accuracy_.Set(evaluation.accuracy);
    named_.Set(evaluation.named);
    MutexLock lock(&mutex_);
    status_.step = evaluation.step;
    status_.last_checkpoint = path;
  }

 private:
  MetricCounter evaluations_;
  MetricHistogram seconds_{BoundsOfSeconds()};
  MetricGauge loss_, accuracy_;
  NamedGauges named_;
  mutable Mutex mutex_;
  TaskStatus status_ ABSL_GUARDED_BY(mutex_);
};

class Evaluator {
 public:
  Evaluator(const TaskOptions& options, const ModelFactory& model, EvaluatorSource* source)
      : options_(options),
        model_(model),
        root_(JoinPath(options.run.out(), "checkpoints")),
        source_(source),
        watch_(options.clock->Now(), absl::Seconds(options.run.cluster().wait_seconds()),
               [&out = options.run.out()] {
                 return RunLock::IsHeld(out, RunLock::Holder::kLauncher) ||
                        RunLock::IsHeld(out, RunLock::Holder::kChief);
               }) {}

  absl::Status Run() {
    source_->SetWords(false, "waits for the run's first checkpoint");
    while (!options_.shutdown->requested()) {
      // Asked before looking for checkpoints: the last one is there before the summary.
      const absl::StatusOr<Summary> summary = ReadSummary(options_.file_system, options_.run.out());
      const bool is_finished = summary.ok() && IsRunFinished(*summary, options_.run);
      const absl::StatusOr<bool> found = EvaluateNewest();
      // A file system that fails for a while must not leave a checkpoint out.
      if (!absl::IsUnavailable(found.status())) {
        RETURN_IF_ERROR(found.status());
        if (*found) continue;
        if (is_finished) return absl::OkStatus();
      }
      const std::optional<Summary> early = SummaryOfEarlierEnd(options_.run);
      if (early.has_value() && !std::exchange(is_logged_, true)) {
        LOG(WARNING)
            << "the run ended at step " << early->steps
            << ", but this run file and these flags let it go further: the evaluator waits "
               "for it to be resumed. To end with the run, start the evaluator with --run="
            << options_.run.out() << "/run.textproto";
      }
      RETURN_IF_ERROR(Wait(found.status()));
    }
    return absl::CancelledError("asked to stop");
  }

 private:
  // False: there is no checkpoint that has not been looked at. UNAVAILABLE: something cannot be
  // read now.
  absl::StatusOr<bool> EvaluateNewest() {
    const absl::Status has_root = options_.file_system->GetInfo(root_).status();
    if (absl::IsUnavailable(has_root)) return has_root;
    if (!has_root.ok()) return false;
    ASSIGN_OR_RETURN(const std::unique_ptr<CheckpointDirectory> directory,
                     CheckpointDirectory::Open(*options_.file_system, root_));
    ASSIGN_OR_RETURN(const std::vector<CheckpointName> names, directory->List());
    for (const CheckpointName& name : names) {  // Newest first.
      const std::string text = name.ToString();
      if (looked_at_.count(text) > 0) return false;
      if (evaluator_ == nullptr) RETURN_IF_ERROR(Prepare());
      if (log_->Has(text)) {
        looked_at_.insert(text);
        return false;
      }
      ASSIGN_OR_RETURN(const bool is_good, EvaluateOne(text, directory->GetPath(text)));
      looked_at_.insert(text);
      if (is_good) return true;
    }
    return false;
  }

  // Waits a moment for the next checkpoint, or until what caused `trouble` has passed. UNAVAILABLE
  // if there is no sign of the run any more.
  absl::Status Wait(const absl::Status& trouble) {
    const std::string sign = SignOfRun(options_.file_system, options_.run.out());
    const std::string what = trouble.ok()
                                 ? WaitReason(sign)
                                 : absl::StrCat("an error to pass (", trouble.message(), ")");
    ASSIGN_OR_RETURN(const std::string line, watch_.Wait(options_.clock->Now(), what, sign));
    if (!line.empty()) LOG(INFO) << line;
    options_.shutdown->WaitFor(kPoll);
    return absl::OkStatus();
  }

  std::string WaitReason(const std::string& sign) const {
    const std::string& out = options_.run.out();
    if (sign.empty()) return absl::StrCat("a run to begin in ", out, ", where there is none");
    const std::optional<Summary> end = SummaryIfOver(out);
    if (end.has_value()) {
      return absl::StrCat("the run in ", out, " to be resumed (it ", end->status, " at step ",
                          end->steps, ")");
    }
    return absl::StrCat(looked_at_.empty() ? "the first" : "another", " checkpoint of the run in ",
                        out);
  }

  // Data and model are read when there is something to do with them.
  absl::Status Prepare() {
    source_->SetWords(false, "reads the data");
    if (log_ == nullptr) {
      ASSIGN_OR_RETURN(
          log_, EvaluationLog::Open(options_.file_system, options_.clock, options_.run.out(),
                                    options_.use_averages ? "evaluator_averages" : "evaluator"));
    }
    ASSIGN_OR_RETURN(evaluator_, CheckpointEvaluator::Create(options_.run, model_));
    LOG(INFO) << DescribeGpusFor(options_.run.deployment());
    source_->SetWords(true, "waits for checkpoints");
    return absl::OkStatus();
  }

  // False: the checkpoint is damaged, or the run has removed it meanwhile. UNAVAILABLE: something
  // cannot be read now.
  absl::StatusOr<bool> EvaluateOne(const std::string& name, const std::string& path) {
    source_->SetWords(true, absl::StrCat("evaluates ", name));
    const absl::Time begin = options_.clock->Now();
    const absl::StatusOr<Evaluation> evaluation = Evaluate(path);
    if (absl::IsCancelled(evaluation.status()) || absl::IsFailedPrecondition(evaluation.status())) {
      return evaluation.status();
    }
    source_->SetWords(true, "waits for checkpoints");
    if (absl::IsUnavailable(evaluation.status())) return evaluation.status();
    if (!evaluation.ok()) {
      LOG(WARNING) << name << " is left out: " << evaluation.status();
      return false;
    }
    const absl::Duration took = options_.clock->Now() - begin;
    source_->Add(path, *evaluation, took);
    LOG(INFO) << name << ": loss " << evaluation->loss << ", accuracy " << evaluation->accuracy;
    const absl::Status written = log_->Add(name, *evaluation, took);
    if (!written.ok()) {
      LOG(ERROR) << "evaluator.jsonl: the line of " << name
                 << " could not be written and waits until there is room: " << written;
    }
    return true;
  }

  absl::StatusOr<Evaluation> Evaluate(const std::string& path) {
    ASSIGN_OR_RETURN(
        const std::unique_ptr<Checkpoint> checkpoint,
        Checkpoint::Open(*options_.file_system, path, Checkpoint::Verify::kEverything));
    ASSIGN_OR_RETURN(const VariableValues values, ValuesToUse(options_.use_averages, *checkpoint));
    return evaluator_->Evaluate(
        checkpoint.get(), [this] { return options_.shutdown->requested(); }, values);
  }

  const TaskOptions& options_;
  const ModelFactory& model_;
  const std::string root_;
  EvaluatorSource* const source_;
  std::set<std::string> looked_at_;  // Names.
  RunWatch watch_;
  bool is_logged_ = false;  // The run ended earlier than this run file asks for.
  std::unique_ptr<EvaluationLog> log_;
  std::unique_ptr<CheckpointEvaluator> evaluator_;
};

}  // namespace

bool IsRunFinished(const Summary& summary, const v1::RunConfig& run) {
  if (summary.status != "finished") return false;
  // The length that a compute program declares is not in the run file: each end counts.
  if (run.max_steps() == 0 && run.num_epochs() == 0) return true;
  // A summary without epochs is that of a run that has finished them.
  const ReachedLimits reached =
      FindReachedLimits(run, summary.steps, summary.epochs.value_or(run.num_epochs()));
  return reached.max_steps || reached.num_epochs;
}

std::optional<Summary> SummaryOfEarlierEnd(const v1::RunConfig& run) {
  std::optional<Summary> summary = SummaryIfOver(run.out());
  const bool is_early =
      summary.has_value() && summary->status == "finished" && !IsRunFinished(*summary, run);
  return is_early ? summary : std::nullopt;
}

absl::Status RunEvaluator(const TaskOptions& options, const ModelFactory& model) {
  EvaluatorSource source;
  const TaskMonitor::Shown shown(options.monitor, options.task, &source);
  LOG(INFO) << "evaluates the checkpoints of " << options.run.out();
  return Evaluator(options, model, &source).Run();
}

absl::Status RunEvaluator(const TaskOptions& options) {
  if (!options.run.deployment().worker_binary().empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("worker_binary: this program does not have the run's model; start `",
                     options.run.deployment().worker_binary(), " evaluator` with the same flags"));
  }
  return RunEvaluator(options, ModelFromRunFile());
}

}  // namespace shoal

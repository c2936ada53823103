#include "chief/run_recorder.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/log.h"
#include "base/status_macros.h"
#include "runtime/checkpoint/differing_tensor.h"
#include "runtime/checkpoint/initial_model.h"
#include "runtime/observability/metrics_progress.h"
#include "runtime/process/program_words.h"
#include "runtime/variables/metric_messages.h"

namespace shoal {
namespace {

constexpr absl::Duration kRateWindow = absl::Seconds(2);
constexpr size_t kKeptLosses = 1024;

// The most bytes of each of two files of initial values that are compared, to name the variable
// that differs: checkpoints wait for the thread that compares.
constexpr uint64_t kMostCompared = uint64_t{1} << 29;

}  // namespace

TableFigures FiguresOf(const v1::GetRunStatusResponse::Table& table) {
  TableFigures figures;
  figures.rows = table.rows();
  figures.bytes = table.bytes();
  figures.rows_per_second = table.rows_per_second();
  figures.keys_read = table.keys_read();
  figures.rows_found = table.rows_found();
  return figures;
}

absl::StatusOr<std::unique_ptr<RunRecorder>> RunRecorder::Create(const Options& options) {
  const uint64_t last_line = options.synchronous ? options.first_step : UINT64_MAX;
  ASSIGN_OR_RETURN(
      std::unique_ptr<MetricsFile> metrics,
      MetricsFile::Open(options.file_system, options.directory + "/metrics.jsonl", last_line));
  metrics->SetMayCut(options.may_write);
  std::unique_ptr<RunRecorder> recorder(new RunRecorder(options, std::move(metrics)));
  recorder->history_.AddLinesFrom(options.file_system, options.directory + "/metrics.jsonl");
  return recorder;
}

RunRecorder::RunRecorder(const Options& options, std::unique_ptr<MetricsFile> metrics)
    : options_(options),
      created_(options.clock->Now()),
      history_(options.clock),
      metrics_file_(std::move(metrics)),
      steps_(options.first_step) {
  if (options.scalars_every == 0) return;
  events_ = std::make_unique<MetricsEvents>(options.file_system, options.clock,
                                            options.directory + "/events", options.scalars_every);
}

void RunRecorder::Record(const TrainingStarts& starts) {
  const ProgressPlan plan = MakeProgressPlan(starts.plan, starts.last_step, options_.num_epochs);
  if (options_.progress != nullptr) options_.progress->SetPlan(plan);
  history_.SetPlan(plan);
  history_.AddEvent("all ps have loaded the variables: training starts", /*is_trouble=*/false);
  MutexLock lock(&mutex_);
  const absl::Time now = options_.clock->Now();
  training_since_ = std::min(training_since_, now);
  window_start_ = now;
  window_examples_ = window_steps_ = 0;
  has_whole_window_ = false;
}

double RunRecorder::RateAt(absl::Time now, uint64_t examples) {
  window_examples_ += examples;
  ++window_steps_;
  const absl::Duration elapsed = now - window_start_;
  if (elapsed >= kRateWindow || !has_whole_window_) {
    const double seconds = absl::ToDoubleSeconds(elapsed);
    rate_ = seconds > 0 ? static_cast<double>(window_examples_) / seconds : 0;
    step_rate_ = seconds > 0 ? static_cast<double>(window_steps_) / seconds : 0;
  }
  if (elapsed >= kRateWindow) {
    has_whole_window_ = true;
    window_start_ = now;
    window_examples_ = window_steps_ = 0;
  }
  return rate_;
}

void RunRecorder::Record(const StepLine& line) {
  const v1::StepReport& report = line.report;
  StepMetrics metrics;
  metrics.step = report.step();
  metrics.epoch = report.epoch();
  metrics.examples = report.examples();
  metrics.learning_rate = report.learning_rate();
  metrics.loss =
      // The value for a step whose batches were all skipped.
      std::numeric_limits<double>::quiet_NaN();
  if (report.examples() > 0) {
    metrics.loss =
        report.loss_sum() / static_cast<double>(report.examples()) + report.regularization();
    if (report.classifies()) {
      metrics.accuracy =
          static_cast<double>(report.correct()) / static_cast<double>(report.examples());
    }
  }
  MetricSums sums;
  if (const absl::Status status = FromProto(report.metrics(), &sums); !status.ok()) {
    LOG(WARNING) << "step " << report.step() << ": " << status;
  }
  metrics.named = NameMetrics(report.metric_names(), sums);
  if (!report.classifies()) metrics.accuracy = TakeAccuracy(&metrics.named);
  WarnOfMetrics(report, sums);
  if (!options_.synchronous) metrics.staleness = report.staleness();
  if (line.evaluation.has_value() && line.evaluation->examples > 0) {
    const auto examples = static_cast<double>(line.evaluation->examples);
    metrics.eval_loss = line.evaluation->loss_sum / examples;
    if (report.classifies())
      metrics.eval_accuracy = static_cast<double>(line.evaluation->correct) / examples;
    metrics.eval_examples = line.evaluation->examples;
    metrics.eval_named = NameMetrics(report.metric_names(), line.evaluation->metrics);
    if (!report.classifies()) metrics.eval_accuracy = TakeAccuracy(&metrics.eval_named);
    WarnOfMetrics(report, line.evaluation->metrics);
  }
  for (const v1::GetRunStatusResponse::Table& table : line.tables) {
    metrics.tables[table.name()] = FiguresOf(table);
  }
  {
    MutexLock lock(&mutex_);
    const absl::Time now = options_.clock->Now();
    metrics.examples_per_second = RateAt(now, report.examples());
    last_step_time_ = now;
    CountExamples(report.step(), report.examples());
    steps_ = report.step();
    if (report.examples() > 0) losses_.emplace_back(report.step(), metrics.loss);
    if (losses_.size() > kKeptLosses) losses_.pop_front();
  }
  Count(metrics);
  history_.Add(metrics);
  WriteLine(metrics);
  if (events_ != nullptr) WriteEvents(metrics);
  if (options_.progress != nullptr) ShowStep(metrics, options_.progress);
}

void RunRecorder::WarnOfMetrics(const v1::StepReport& report, const MetricSums& sums) {
  for (size_t m = 0; m < sums.size() && m < static_cast<size_t>(report.metric_names_size()); ++m) {
    const std::string& name = report.metric_names(static_cast<int>(m));
    if (!std::isnan(sums[m].sum) || !warned_.insert(name).second) continue;
    const std::string text =
        absl::StrCat("warning: the metric ", name, " of step ", report.step(),
                     " is not finite and is recorded as null; training continues, and "
                     "logs/worker-K.log of its worker names the batch");
    history_.AddEvent(text, /*is_trouble=*/true);
    if (options_.progress != nullptr) options_.progress->Print(text);
    MutexLock lock(&mutex_);
    absl::StrAppend(&metric_warnings_, metric_warnings_.empty() ? "" : "\n", text);
  }
}

void RunRecorder::Count(const StepMetrics& metrics) {
  chief_metrics_.steps.Add();
  chief_metrics_.examples.Add(metrics.examples);
  chief_metrics_.loss.Set(metrics.loss);
  if (metrics.examples > 0 && !std::isfinite(metrics.loss)) chief_metrics_.non_finite_steps.Add();
  chief_metrics_.learning_rate.Set(metrics.learning_rate);
  if (metrics.accuracy.has_value()) chief_metrics_.accuracy.Set(*metrics.accuracy);
  if (metrics.staleness.has_value()) {
    chief_metrics_.staleness.Observe(static_cast<double>(*metrics.staleness));
  }
  if (metrics.eval_loss.has_value()) chief_metrics_.evaluation_loss.Set(*metrics.eval_loss);
  if (metrics.eval_accuracy.has_value())
    chief_metrics_.evaluation_accuracy.Set(*metrics.eval_accuracy);
  chief_metrics_.named.Set(metrics.named);
  chief_metrics_.evaluation_named.Set(metrics.eval_named);
}

absl::Status RunRecorder::Publish(const ManifestToWrite& manifest) {
  const absl::Time begin = options_.clock->Now();
  RETURN_IF_ERROR(options_.publish(manifest));
  const absl::Time end = options_.clock->Now();
  checkpoints_fail_ = false;
  history_.OnCheckpoint(manifest.directory, manifest.manifest.step());
  chief_metrics_.checkpoints.Add();
  chief_metrics_.checkpoint_seconds.Observe(absl::ToDoubleSeconds(end - begin));
  MutexLock lock(&mutex_);
  checkpoint_time_ = end;
  return absl::OkStatus();
}

absl::Status RunRecorder::Export(const ModelExport& wanted) {
  RETURN_IF_ERROR(options_.export_model(wanted));
  history_.OnExported(wanted.directory);
  return absl::OkStatus();
}

absl::Status RunRecorder::DiscardAbove(uint64_t step) {
  history_.DiscardAbove(step);
  return options_.discard_above(step);
}

void RunRecorder::OnNote(const SessionNote& note) {
  if (note.kind == SessionNote::Kind::kDetail) return;
  history_.AddEvent(note.text, note.kind != SessionNote::Kind::kEvent, note.subject);
  if (note.kind == SessionNote::Kind::kSkip && options_.progress != nullptr) {
    options_.progress->Print(absl::StrCat("warning: ", note.text));
  }
}

void RunRecorder::Record(const InitialValuesDiffer& differ) {
  // The files are gone once the run has a checkpoint.
  const std::string variable = FindDifferingTensor(
      *options_.file_system, InitialValuesPath(options_.directory, differ.in_use),
      InitialValuesPath(options_.directory, differ.given), kMostCompared);
  const std::string text =
      absl::StrCat(kInitialValuesOf, differ.worker, " differ from those in use",
                   variable.empty() ? "" : absl::StrCat(" (", variable, ")"),
                   ": the program's random numbers differ between workers; give all workers the "
                   "same seed");
  LOG(WARNING) << text;
  history_.AddEvent(text, /*is_trouble=*/true, /*subject=*/"");
}

absl::Status RunRecorder::OnCheckpointFailed(const CutGivenUp& cut) {
  if (!cut.why.empty()) {
    history_.OnCheckpointFailed(cut.why);
    if (options_.progress != nullptr && !checkpoints_fail_) {
      options_.progress->Print(CheckpointWarning(cut.why));
    }
    checkpoints_fail_ = true;
  }
  return options_.discard_failed(cut.directory);
}

void RunRecorder::Describe(v1::GetRunStatusResponse* run) const {
  MutexLock lock(&mutex_);
  const absl::Time now = options_.clock->Now();
  run->set_uptime_seconds(absl::ToDoubleSeconds(now - created_));
  run->set_metrics_failure(metrics_failure_);
  run->set_metric_warning(metric_warnings_);
  if (checkpoint_time_ != absl::InfinitePast()) {
    run->set_last_checkpoint_unix_seconds(
        absl::ToDoubleSeconds(checkpoint_time_ - absl::UnixEpoch()));
  }
  // A rate is of the past once three steps should have come and none has.
  const absl::Duration silence = now - last_step_time_;
  if (step_rate_ <= 0 || silence > std::max(kRateWindow, absl::Seconds(3 / step_rate_))) return;
  run->set_steps_per_second(step_rate_);
  run->set_examples_per_second(rate_);
}

void RunRecorder::WriteLine(const StepMetrics& metrics) {
  SetMetricsFailure(metrics_file_->Append(metrics));
}

void RunRecorder::WriteWaitingLines() { SetMetricsFailure(metrics_file_->Flush()); }

void RunRecorder::SetMetricsFailure(const absl::Status& status) {
  const std::string why(status.message());
  MutexLock lock(&mutex_);
  if (!status.ok() && metrics_failure_.empty()) {
    LOG(ERROR) << "metrics.jsonl: " << status << "; its lines wait until there is room";
    history_.AddEvent(MetricsWarning(why), /*is_trouble=*/true);
    if (options_.progress != nullptr) options_.progress->Print(MetricsWarning(why));
  }
  metrics_failure_ = why;
}

void RunRecorder::WriteEvents(const StepMetrics& metrics) {
  const absl::Status status = events_->Record(metrics);
  if (!status.ok() && events_are_written_) {
    LOG(WARNING) << "event files: " << status << "; their points wait until there is room";
  }
  events_are_written_ = status.ok();
}

absl::Status RunRecorder::Record(const RolledBack& rolled_back) {
  // Lines of a later step are refused unless the file knows of the cut, even if it is not possible
  // now.
  const absl::Status cut = metrics_file_->CutBackTo(rolled_back.version);
  if (absl::IsAborted(cut)) return cut;
  if (!rolled_back.lines_only) chief_metrics_.rollbacks.Add();
  SetMetricsFailure(cut);
  if (events_ != nullptr) events_->GoBack();
  history_.GoBackTo(rolled_back.version);
  if (options_.progress != nullptr) options_.progress->GoBackTo(rolled_back.version);
  MutexLock lock(&mutex_);
  steps_ = rolled_back.version;
  while (!losses_.empty() && losses_.back().first > steps_) losses_.pop_back();
  while (!examples_of_.empty()) {
    StepsAlike& last = examples_of_.back();
    const uint64_t standing =
        rolled_back.version < last.first_step ? 0 : rolled_back.version - last.first_step + 1;
    if (standing >= last.num_steps) break;
    examples_ -= (last.num_steps - standing) * last.examples;
    last.num_steps = standing;
    if (standing == 0) examples_of_.pop_back();
  }
  return absl::OkStatus();
}

// Counts the steps, and subtracts those that become void later.
void RunRecorder::CountExamples(uint64_t step, uint64_t examples) {
  examples_ += examples;
  if (!examples_of_.empty()) {
    StepsAlike& last = examples_of_.back();
    if (last.examples == examples && step == last.first_step + last.num_steps) {
      ++last.num_steps;
      return;
    }
  }
  examples_of_.push_back({step, 1, examples});
}

Summary RunRecorder::summary() const {
  MutexLock lock(&mutex_);
  Summary summary;
  summary.steps = steps_;
  summary.first_step = options_.first_step;
  summary.examples = examples_;
  summary.seconds = absl::ToDoubleSeconds(options_.clock->Now() - created_);
  if (last_step_time_ > training_since_) {
    const double seconds = absl::ToDoubleSeconds(last_step_time_ - training_since_);
    summary.train_seconds = seconds;
    if (seconds > 0) summary.examples_per_second = static_cast<double>(examples_) / seconds;
  }
  if (!losses_.empty()) summary.final_loss = losses_.back().second;
  if (!metric_warnings_.empty()) summary.metric_warning = metric_warnings_;
  return summary;
}

bool RunRecorder::any_step() const {
  MutexLock lock(&mutex_);
  return last_step_time_ != absl::InfinitePast();
}

absl::Status RunRecorder::FlushLines() {
  if (events_ != nullptr) {
    const absl::Status events = events_->Flush();
    if (!events.ok()) LOG(WARNING) << "event files end early: " << events;
  }
  return metrics_file_->Flush();
}

}  // namespace shoal

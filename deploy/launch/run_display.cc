#include "deploy/launch/run_display.h"

#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

#include "runtime/observability/metrics_file.h"
#include "runtime/observability/metrics_progress.h"
#include "runtime/observability/progress.h"
#include "runtime/observability/summary.h"
#include "runtime/plan/step_plan.h"
#include "runtime/process/program_words.h"

namespace shoal {
namespace {

ProgressPlan ReadPlan(const v1::RunConfig& run, const v1::RunState& state) {
  const absl::StatusOr<StepPlan> steps = StepPlan::FromProto(state.plan());
  return steps.ok() ? MakeProgressPlan(*steps, state.last_step(), run.num_epochs())
                    : ProgressPlan();
}

// Returns whom the run waits for. A worker registers once its program has declared its model.
std::string DescribeWait(const v1::RunState& state, const std::string& program) {
  if (state.waiting_for().empty()) return "waiting for tasks";
  const bool are_workers = absl::StartsWith(state.waiting_for(0), "worker/");  // ps come first.
  return absl::StrCat("waiting for ", absl::StrJoin(state.waiting_for(), ", "),
                      are_workers && !program.empty() ? absl::StrCat(" to start ", program) : "");
}

// Returns the text to show instead of numbers while the run does not train; "" while it does.
std::string DescribeActivity(const v1::RunState& state, const std::string& program) {
  switch (state.phase()) {
    case v1::RunState::PHASE_WAITING:
      return DescribeWait(state, program);
    case v1::RunState::PHASE_PREPARING:
      return "preparing the variables";
    case v1::RunState::PHASE_STOPPING:
      return "writing the last checkpoint";
    default:
      return "";
  }
}

}  // namespace

std::string ProgramName(const v1::RunConfig& run) {
  const std::string& file = run.program().file();
  return file.substr(file.rfind('/') + 1);
}

RunDisplay::RunDisplay(Options options)
    : options_(std::move(options)),
      metrics_(options_.file_system, absl::StrCat(options_.run->out(), "/metrics.jsonl")),
      chief_log_(options_.file_system, options_.chief_log),
      step_before_(metrics_.last_step()) {}

void RunDisplay::Show(const std::optional<v1::GetRunStatusResponse>& status) {
  ProgressReporter* progress = options_.progress;
  if (status.has_value()) {
    progress->SetPlan(ReadPlan(*options_.run, status->state()));
    ShowSkipped(*status);  // The skip of a batch may be why the run goes back.
    ShowReturns(*status);
    ShowMemory(*status);
    ShowFailedCheckpoints(*status);
    ShowMetricWarnings(status->metric_warning());
  }
  ShowInitialValues();
  const MetricsTail::News news = metrics_.Read();
  if (news.cut_back) progress->GoBackTo(news.last_step);
  for (const StepMetrics& line : news.lines) ShowStep(line, progress);
  if (status.has_value() && !status->metrics_failure().empty()) {
    ShowWithoutLines(*status);
    return;
  }
  metrics_fail_ = false;
  if (status.has_value() && news.lines.empty()) {
    const std::string activity = DescribeActivity(status->state(), ProgramName(*options_.run));
    if (!activity.empty()) progress->SetActivity(activity);
  }
  progress->Tick();
}

void RunDisplay::ShowSummary(const std::string& before) {
  ShowInitialValues();
  const absl::StatusOr<Summary> summary = ReadSummary(options_.file_system, options_.run->out());
  if (!summary.ok() || SummaryJson(*summary) == before) return;
  if (summary->metric_warning.has_value()) ShowMetricWarnings(*summary->metric_warning);
}

void RunDisplay::ShowWithoutLines(const v1::GetRunStatusResponse& status) {
  ProgressReporter* progress = options_.progress;
  if (!metrics_fail_) progress->Print(MetricsWarning(status.metrics_failure()));
  metrics_fail_ = true;
  progress->Reach(status.step(), status.steps_per_second(), status.examples_per_second());
}

void RunDisplay::ShowReturns(const v1::GetRunStatusResponse& status) {
  const std::string& from = status.resumed_from();
  if (!resume_is_shown_ && !from.empty()) {
    resume_is_shown_ = true;
    if (!options_.newest_checkpoint.empty() && from != options_.newest_checkpoint) {
      options_.progress->Print(absl::StrCat("checkpoint ", options_.newest_checkpoint,
                                            " is damaged and not used; see ", options_.chief_log));
    }
    options_.progress->Print(ResumeText(status.resumed_step(), from, step_before_));
  }
  if (status.rollbacks() > rollbacks_) {
    const v1::GetRunStatusResponse::Rollback& last = status.last_rollback();
    options_.progress->Print(RollbackText(last.step(), last.from(), last.reason()));
  }
  rollbacks_ = status.rollbacks();
}

void RunDisplay::ShowSkipped(const v1::GetRunStatusResponse& status) {
  if (status.last_skipped() == last_skipped_) return;
  last_skipped_ = status.last_skipped();
  options_.progress->Print(absl::StrCat("warning: ", last_skipped_,
                                        " (batches skipped: ", status.skipped_batches(), ")"));
}

void RunDisplay::ShowFailedCheckpoints(const v1::GetRunStatusResponse& status) {
  if (status.last_checkpoint() != last_checkpoint_) checkpoint_failure_.clear();
  last_checkpoint_ = status.last_checkpoint();
  if (status.failed_checkpoints() > failed_checkpoints_) {
    if (checkpoint_failure_.empty()) {
      options_.progress->Print(CheckpointWarning(status.last_failure()));
    }
    checkpoint_failure_ = status.last_failure();
  }
  failed_checkpoints_ = status.failed_checkpoints();
}

void RunDisplay::ShowInitialValues() {
  for (const std::string& line : chief_log_.Read(/*is_over=*/false)) {
    const size_t at = line.find(absl::StrCat("] ", kInitialValuesOf));
    if (at == std::string::npos) continue;
    options_.progress->Print(absl::StrCat("warning: ", line.substr(at + 2)));
  }
}

void RunDisplay::ShowMemory(const v1::GetRunStatusResponse& status) {
  if (memory_warning_is_shown_ || status.memory_warning().empty()) return;
  memory_warning_is_shown_ = true;
  options_.progress->Print(absl::StrCat("warning: ", status.memory_warning()));
}

void RunDisplay::ShowMetricWarnings(absl::string_view all) {
  absl::string_view news = all;
  absl::ConsumePrefix(&news, metric_warnings_);
  for (const absl::string_view line : absl::StrSplit(news, '\n', absl::SkipEmpty())) {
    options_.progress->Print(line);
  }
  metric_warnings_ = std::string(all);
}

}  // namespace shoal

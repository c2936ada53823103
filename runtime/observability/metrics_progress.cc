#include "runtime/observability/metrics_progress.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace shoal {
namespace {

// "; steps 801 to 1045 are computed again"
std::string ComputedAgain(uint64_t step, uint64_t newest) {
  if (newest <= step) return "";
  return newest == step + 1
             ? absl::StrCat("; step ", newest, " is computed again")
             : absl::StrCat("; steps ", step + 1, " to ", newest, " are computed again");
}

}  // namespace

ProgressPlan MakeProgressPlan(const StepPlan& steps, uint64_t last_step, uint32_t num_epochs) {
  ProgressPlan plan;
  plan.steps_per_epoch = steps.steps_per_epoch();
  plan.total_steps = last_step != UINT64_MAX ? last_step : 0;
  plan.num_epochs = num_epochs;
  if (plan.num_epochs == 0 && plan.total_steps > 0 && plan.steps_per_epoch > 0) {
    plan.num_epochs =
        static_cast<uint32_t>((plan.total_steps + plan.steps_per_epoch - 1) / plan.steps_per_epoch);
  }
  return plan;
}

std::string ResumeText(uint64_t step, const std::string& name, uint64_t newest) {
  return absl::StrCat("resumes from step ", step, " (", name, ")", ComputedAgain(step, newest));
}

std::string RollbackText(uint64_t step, uint64_t newest, const std::string& reason) {
  return absl::StrCat(step > 0 ? "back to the last checkpoint, of step " : "back to step ", step,
                      ": ", reason, ComputedAgain(step, newest));
}

std::string CheckpointWarning(const std::string& why) {
  return absl::StrCat("warning: no checkpoint could be made at ", why,
                      "; training continues, and the next one is tried on schedule");
}

std::string MetricsWarning(const std::string& why) {
  return absl::StrCat("warning: metrics.jsonl cannot be written (", why,
                      "); training continues, and its lines wait until there is room");
}

void ShowStep(const StepMetrics& step, ProgressReporter* progress) {
  progress->Add({step.step, step.epoch, step.loss, step.accuracy, step.examples, step.named});
  std::vector<std::string> results;
  if (step.eval_loss.has_value()) {
    results.push_back(absl::StrCat("test loss ", LossText(*step.eval_loss)));
  }
  if (step.eval_accuracy.has_value()) {
    results.push_back(absl::StrFormat("test accuracy %.4f", *step.eval_accuracy));
  }
  for (const auto& [name, value] : step.eval_named) {
    if (value.has_value()) results.push_back(absl::StrCat("test ", name, " ", LossText(*value)));
  }
  if (results.empty()) return;
  progress->Print(absl::StrCat("step ", step.step, ": ", absl::StrJoin(results, ", ")));
}

}  // namespace shoal

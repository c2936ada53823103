#include "deploy/launch/result_printer.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

#include "runtime/checkpoint/checkpoint_directory.h"
#include "runtime/checkpoint/training_complete.h"
#include "runtime/observability/progress.h"
#include "runtime/observability/summary.h"

namespace shoal {
namespace {

std::string Count(uint64_t number, const char* what) {
  return absl::StrCat(number, " ", what, number == 1 ? "" : "s");
}

// Returns the command that resumes the run: `command` with the flags that it needs. It can be
// pasted into a shell, which takes what follows "#" as a comment.
std::string FullResumeCommand(const Summary& summary, const v1::RunConfig& run,
                              const std::string& command) {
  std::string more;
  if (summary.status == "finished") {
    // The run may have trained for longer than this command asked for.
    const auto epochs = static_cast<uint64_t>(std::floor(summary.epochs.value_or(0)));
    const ReachedLimits reached =
        FindReachedLimits(run, summary.steps, static_cast<double>(epochs));
    if (reached.max_steps) more = absl::StrCat(" --max_steps=", summary.steps + 1);
    if (reached.num_epochs || !reached.max_steps) {
      absl::StrAppend(&more, " --num_epochs=", std::max<uint64_t>(run.num_epochs(), epochs) + 1);
    }
    absl::StrAppend(&more, "   # or more");
  }
  return absl::StrCat(command, " --run=", AsShellWord(run.out() + "/run.textproto"), more);
}

// Uses the run's current directory; the summary has the path that it was written to.
void PrintCheckpoint(const Summary& summary, const std::string& out) {
  if (!summary.checkpoint.has_value()) return;
  const std::string& written = *summary.checkpoint;
  std::printf("checkpoint:    %s/checkpoints/%s\n", out.c_str(),
              written.substr(written.rfind('/') + 1).c_str());
}

void PrintNoCheckpoint() {
  std::printf("checkpoint:    none was made; the run begins again at step 0\n");
}

// Prints how many steps a stopped run has lost after its checkpoint, if any.
void PrintLost(const Summary& summary) {
  CheckpointName name;
  if (summary.status != "stopped" || !summary.checkpoint.has_value() ||
      !CheckpointName::Parse(summary.checkpoint->substr(summary.checkpoint->rfind('/') + 1),
                             &name) ||
      summary.steps <= name.step) {
    return;
  }
  std::printf("lost:          %s after the checkpoint of step %s\n",
              Count(summary.steps - name.step, "step").c_str(), absl::StrCat(name.step).c_str());
}

void PrintNotSaved(const Summary& summary) {
  if (!summary.checkpoint_failure.has_value()) return;
  std::printf("not saved:     %s\n", summary.checkpoint_failure->c_str());
}

void PrintCommand(const Summary& summary, const v1::RunConfig& run, const std::string& command) {
  const bool begins_again = summary.status != "finished" && !summary.checkpoint.has_value();
  std::printf("%s%s\n", begins_again ? "start again:   " : "resume:        ",
              FullResumeCommand(summary, run, command).c_str());
}

}  // namespace

std::string AsShellWord(const std::string& text) {
  const auto is_plain = [](char c) {
    return absl::ascii_isalnum(c) || absl::StrContains("/._-+,:=@%", absl::string_view(&c, 1));
  };
  if (std::all_of(text.begin(), text.end(), is_plain)) return text;
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"'", "'\\''"}}), "'");
}

void PrintSummary(const Summary& summary, const v1::RunConfig& run, const std::string& command) {
  const std::string& out = run.out();
  const uint64_t test_step = summary.test_step.value_or(summary.steps);
  const std::string of_step =
      test_step == summary.steps ? "" : absl::StrCat(" (of step ", test_step, ")");
  if (summary.test_accuracy.has_value()) {
    std::printf("test accuracy: %.4f%s\n", *summary.test_accuracy, of_step.c_str());
  }
  if (summary.test_loss.has_value()) {
    std::printf("test loss:     %s%s\n", LossText(*summary.test_loss).c_str(), of_step.c_str());
  }
  for (const auto& [name, value] : summary.test_named) {
    if (!value.has_value()) continue;
    std::printf("%-14s %s%s\n", absl::StrCat("test ", name, ":").c_str(), LossText(*value).c_str(),
                of_step.c_str());
  }
  if (summary.status == "finished" && !summary.test_loss && !summary.test_accuracy) {
    std::printf("test loss:     none, nothing was evaluated\n");
  }
  std::string trained = Count(summary.steps, "step");
  if (summary.epochs.value_or(0) > 0) {
    absl::StrAppend(&trained, ", ", Count(*summary.epochs, "epoch"));
  }
  // In a resumed run, time and rate are those of the added steps.
  const uint64_t before = summary.first_step.value_or(0);
  if (before > 0 && summary.steps >= before && summary.train_seconds.has_value()) {
    absl::StrAppend(&trained, "; now ", Count(summary.steps - before, "step"));
  }
  if (summary.train_seconds.has_value()) {
    absl::StrAppendFormat(&trained, " in %.1f s", *summary.train_seconds);
  }
  if (summary.examples_per_second.has_value()) {
    absl::StrAppendFormat(&trained, ", %.0f examples/s", *summary.examples_per_second);
  }
  std::printf("trained:       %s\n", trained.c_str());
  if (summary.skipped_batches.value_or(0) > 0) {
    std::printf("skipped:       %s, see the chief's log\n",
                *summary.skipped_batches == 1
                    ? "1 batch"
                    : absl::StrCat(*summary.skipped_batches, " batches").c_str());
  }
  PrintCheckpoint(summary, out);
  PrintLost(summary);
  if (summary.status == "stopped" && !summary.checkpoint.has_value()) PrintNoCheckpoint();
  PrintNotSaved(summary);
  std::printf("metrics:       %s/metrics.jsonl\n", out.c_str());
  std::error_code error;
  if (std::filesystem::exists(out + "/report.html", error)) {
    std::printf("report:        %s/report.html (curves and events, for a browser)\n", out.c_str());
  }
  PrintCommand(summary, run, command);
}

void PrintHowToResume(const Summary& summary, const v1::RunConfig& run,
                      const std::string& command) {
  if (!summary.checkpoint.has_value()) PrintNoCheckpoint();
  PrintCheckpoint(summary, run.out());
  PrintNotSaved(summary);
  PrintCommand(summary, run, command);
}

}  // namespace shoal

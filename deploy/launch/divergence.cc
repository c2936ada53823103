#include "deploy/launch/divergence.h"

#include <cmath>
#include <cstdint>
#include <map>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "base/file_system.h"
#include "deploy/launch/result_printer.h"
#include "runtime/checkpoint/checkpoint_directory.h"
#include "runtime/observability/metrics_file.h"
#include "runtime/observability/progress.h"

namespace shoal {
namespace {

// Returns the run's checkpoints, newest first.
std::vector<CheckpointName> ListCheckpoints(const std::string& root, FileSystem* file_system) {
  if (!FileExists(*file_system, root)) return {};  // Open would make it.
  const auto opened = CheckpointDirectory::Open(*file_system, root);
  if (!opened.ok()) return {};
  return (*opened)->List().value_or(std::vector<CheckpointName>());
}

// Returns the losses in metrics.jsonl, by step; NaN is one that was not finite.
std::map<uint64_t, double> ReadLosses(const std::string& directory, FileSystem* file_system) {
  std::map<uint64_t, double> losses;
  const std::string text =
      ReadFile(*file_system, JoinPath(directory, "metrics.jsonl")).value_or("");
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    const absl::StatusOr<StepMetrics> metrics = ParseMetricsLine(line);
    if (metrics.ok()) losses[metrics->step] = metrics->loss;
  }
  return losses;
}

}  // namespace

std::string HowToContinue(absl::string_view error, const v1::RunConfig& run,
                          const std::string& command, FileSystem* file_system) {
  const std::string resume =
      absl::StrCat(command, " --run=", AsShellWord(run.out() + "/run.textproto"));
  const std::string anew = absl::StrCat(resume, " --out=", AsShellWord(run.out() + "-lower"));
  // A table may have a rate of its own, which the error names.
  const std::string lower =
      absl::StrContains(error, "lower --learning_rate")
          ? absl::StrCat(" --learning_rate=", run.optimizer().learning_rate() / 10,
                         "   # a tenth of the rate\n")
          : "   # with a lower rate\n";
  const std::string root = run.out() + "/checkpoints";
  const std::vector<CheckpointName> names = ListCheckpoints(root, file_system);
  const std::map<uint64_t, double> losses = ReadLosses(run.out(), file_system);
  for (const CheckpointName& name : names) {
    const auto next = losses.find(name.step + 1);
    if (next == losses.end() || !std::isfinite(next->second)) continue;
    const std::string path = JoinPath(root, name.ToString());
    // Its tensors have the names of the run's variables, unlike those of the run's own init_from.
    const std::string from =
        &name == &names.front()
            ? resume
            : absl::StrCat(anew, " --init_state --init_from=", AsShellWord(path),
                           run.init_map().empty() ? "" : " --init_map='(.*)=\\1'");
    return absl::StrCat("checkpoint:    ", path, ", the newest from before the training diverged ",
                        "(the loss of its next step is ", LossText(next->second), ")\n",
                        "continue:      ", from, lower);
  }
  return absl::StrCat("checkpoint:    none from before the training diverged\n",
                      "start again:   ", anew, lower);
}

}  // namespace shoal

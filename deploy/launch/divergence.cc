#include "deploy/launch/divergence.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

#include "base/file_system.h"
#include "deploy/launch/result_printer.h"
#include "runtime/checkpoint/checkpoint_directory.h"
#include "runtime/observability/metrics_file.h"
#include "runtime/observability/progress.h"
#include "runtime/process/program_words.h"

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

// Parts of the chief's error.
struct Divergence {
  uint64_t update = 0;  // The one after which a variable was not finite; 0: the batches were not.
  std::string setting = "--learning_rate";  // It lowers the learning rate.
};

std::optional<Divergence> FindDivergence(absl::string_view error) {
  Divergence found;
  const size_t at = error.find(kNotFiniteAfterUpdate);
  if (at == absl::string_view::npos) {
    if (!absl::StrContains(error, absl::StrCat(kLimitOfBadBatches, kDiverges))) return std::nullopt;
    return found;
  }
  absl::string_view rest = error.substr(at + sizeof(kNotFiniteAfterUpdate) - 1);
  const size_t end = rest.find(": ");
  if (!absl::SimpleAtoi(rest.substr(0, end), &found.update)) return std::nullopt;
  rest.remove_prefix(end);
  if (!absl::ConsumePrefix(&rest, absl::StrCat(": ", kDiverges, kLower))) return std::nullopt;
  found.setting = std::string(rest.substr(0, rest.find(" (")));
  return found;
}

// Returns the directory of a new run in place of `out`, such as d-lower or d-lower2: one that does
// not exist.
std::string NewDirectory(const std::string& out, const std::string& suffix,
                         const FileSystem& file_system) {
  std::string base = out;
  while (!base.empty() && absl::ascii_isdigit(base.back())) base.pop_back();
  if (!absl::EndsWith(base, suffix)) base = out + suffix;
  std::string name = base;
  for (int number = 2; name == out || FileExists(file_system, name); ++number) {
    name = absl::StrCat(base, number);
  }
  return name;
}

// Returns whether no batch of a start after `first_step` steps was finite, although the step before
// it was.
bool NoneWasFinite(const std::map<uint64_t, double>& losses, uint64_t first_step) {
  const auto begin = losses.upper_bound(first_step);
  const bool was_finite =
      begin == losses.begin() ? first_step == 0 : std::isfinite(std::prev(begin)->second);
  return was_finite && std::none_of(begin, losses.end(),
                                    [](const auto& loss) { return std::isfinite(loss.second); });
}

// Returns the lines for a start that began after `began` steps and had no finite batch. A lower
// rate does not help it.
std::string WithoutFiniteBatch(const std::vector<CheckpointName>& names, const std::string& root,
                               uint64_t began, const std::string& resume,
                               const std::string& again) {
  const std::string cause =
      "cause:         every batch was not finite: check the loss and the data\n";
  if (names.empty()) return absl::StrCat(cause, "start again:   ", again, "\n");
  if (began == 0) {
    return absl::StrCat(cause, "checkpoint:    that of step ", names.front().step,
                        " has the initial values\nstart again:   ", again, "\n");
  }
  return absl::StrCat(cause, "checkpoint:    ", JoinPath(root, names.front().ToString()),
                      " (its values are those of step ", began, ")\nresume:        ", resume, "\n");
}

}  // namespace

bool IsDivergence(absl::string_view error) { return FindDivergence(error).has_value(); }

std::string HowToContinue(absl::string_view error, const v1::RunConfig& run,
                          const std::string& command, std::optional<uint64_t> first_step,
                          FileSystem* file_system) {
  const std::optional<Divergence> divergence = FindDivergence(error);
  if (!divergence.has_value()) return "";
  const std::string resume =
      absl::StrCat(command, " --run=", AsShellWord(run.out() + "/run.textproto"));
  const auto anew = [&](const std::string& suffix) {
    return absl::StrCat(resume,
                        " --out=", AsShellWord(NewDirectory(run.out(), suffix, *file_system)));
  };
  const std::string root = run.out() + "/checkpoints";
  const std::vector<CheckpointName> names = ListCheckpoints(root, file_system);
  const uint64_t newest = names.empty() ? 0 : names.front().step;
  const std::map<uint64_t, double> losses = ReadLosses(run.out(), file_system);
  const uint64_t last_step = losses.empty() ? 0 : losses.rbegin()->first;
  const uint64_t began = first_step.value_or(last_step);
  if (divergence->update == 0 && NoneWasFinite(losses, began)) {
    return WithoutFiniteBatch(names, root, began, resume, anew("-again"));
  }
  // A table or a group may have a rate of its own.
  const std::string lower =
      absl::StartsWith(divergence->setting, "--learning_rate")
          ? absl::StrCat(" --learning_rate=", run.optimizer().learning_rate() / 10,
                         "   # a tenth of the rate\n")
          : absl::StrCat("   # after lowering ", divergence->setting, " in that run file\n");
  for (const CheckpointName& name : names) {
    const auto next = losses.find(name.step + 1);
    const bool has_loss = next != losses.end();
    if (has_loss ? !std::isfinite(next->second) : name.step >= divergence->update) continue;
    const std::string path = JoinPath(root, name.ToString());
    // Its tensors have the names of the run's variables, unlike those of the run's own init_from.
    const std::string from =
        &name == &names.front()
            ? resume
            : absl::StrCat(anew("-lower"), " --init_state --init_from=", AsShellWord(path),
                           run.init_map().empty() ? "" : " --init_map='(.*)=\\1'");
    return absl::StrCat(
        "checkpoint:    ", path, ", the newest from before the training diverged (",
        has_loss ? absl::StrCat("the loss of its next step is ", LossText(next->second))
                 : absl::StrCat("the update of step ", divergence->update, " was not finite"),
        ")\ncontinue:      ", from, lower);
  }
  const std::string later =
      names.empty() ? "" : absl::StrCat(" (no finite loss follows that of step ", newest, ")");
  return absl::StrCat("checkpoint:    none from before the training diverged", later,
                      "\nstart again:   ", anew("-lower"), lower);
}

}  // namespace shoal

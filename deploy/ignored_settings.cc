#include "deploy/ignored_settings.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "base/file_system.h"
#include "deploy/launch/result_printer.h"
#include "runtime/config/defaults.h"
#include "runtime/config/run_config.h"

namespace shoal {
namespace {

constexpr char kDeclared[] = "program.textproto";
constexpr size_t kLongestValue = 40;

std::string RunFileOf(const v1::RunConfig& run) { return JoinPath(run.out(), "run.textproto"); }

// Settings as text, where "" means that one is not set. The order is that of kNames.
using Settings = std::array<std::string, 6>;
enum Setting { kBatchSize, kEpochs, kMaxSteps, kRule, kLearningRate, kOther };
constexpr std::array<const char*, 6> kNames = {"batch_size", "epochs",        "max_steps",
                                               "optimizer",  "learning_rate", "optimizer"};

std::string ToText(uint64_t number) { return number == 0 ? "" : absl::StrCat(number); }

// Returns a run that has only the optimizer of this one, complete and without its learning rate.
v1::RunConfig OptimizerAlone(const v1::RunConfig& run) {
  v1::RunConfig alone;
  *alone.mutable_optimizer() = run.optimizer();
  ResolveDefaults(TaskCounts(), &alone);
  v1::RunConfig optimizer;
  *optimizer.mutable_optimizer() = alone.optimizer();
  optimizer.mutable_optimizer()->clear_learning_rate();
  return optimizer;
}

Settings SettingsOf(const v1::RunConfig& run) {
  v1::RunConfig complete = run;
  ResolveDefaults(TaskCounts(), &complete);
  return {ToText(run.batch_size()),
          ToText(run.num_epochs()),
          ToText(run.max_steps()),
          OptimizerName(run.optimizer()),
          absl::StrCat(complete.optimizer().learning_rate()),
          PrintRunConfig(OptimizerAlone(run))};
}

// Returns whether the program declares a value for this setting.
bool Declares(const v1::RunConfig& declared, Setting setting) {
  switch (setting) {
    case kBatchSize:
      return declared.batch_size() > 0;
    case kEpochs:
    case kMaxSteps:
      return declared.num_epochs() > 0 || declared.max_steps() > 0;
    default:
      return !OptimizerName(declared.optimizer()).empty();
  }
}

std::string Shown(const std::string& value) {
  if (value.empty()) return "none";
  return value.size() <= kLongestValue ? value
                                       : absl::StrCat(value.substr(0, kLongestValue), "...");
}

std::string Join(const std::vector<std::string>& words) {
  if (words.size() < 2) return absl::StrJoin(words, "");
  return absl::StrCat(absl::StrJoin(words.begin(), words.end() - 1, ", "), " and ", words.back());
}

// Returns the command that starts the run as its program declares it, in the same directory.
std::string CommandWithProgram(const v1::RunConfig& run, const StartCommand& start) {
  const v1::ProgramConfig& program = run.program();
  const v1::DeploymentOptions& tasks = run.deployment();
  std::string result = absl::StrCat(start.text, " --program=", AsShellWord(program.file()));
  if (program.python() != DefaultText("program.python") && !program.python().empty()) {
    absl::StrAppend(&result, " --python=", AsShellWord(program.python()));
  }
  if (!start.on_hosts && tasks.num_ps_tasks() != kTrainTaskCounts.num_ps_tasks) {
    absl::StrAppend(&result, " --num_ps_tasks=", tasks.num_ps_tasks());
  }
  if (!start.on_hosts && tasks.num_replicas() != kTrainTaskCounts.num_replicas) {
    absl::StrAppend(&result, " --num_replicas=", tasks.num_replicas());
  }
  absl::StrAppend(&result, " --out=", AsShellWord(run.out()));
  if (program.args_size() > 0) absl::StrAppend(&result, " --");
  for (const std::string& arg : program.args()) absl::StrAppend(&result, " ", AsShellWord(arg));
  return result;
}

}  // namespace

absl::Status KeepDeclaredSettings(FileSystem* file_system, const v1::RunConfig& run,
                                  const v1::RunConfig& declared) {
  return WriteAtomically(*file_system, JoinPath(run.out(), kDeclared), PrintRunConfig(declared));
}

bool IsOwnRunFile(const std::string& run_file, const v1::RunConfig& run) {
  std::error_code error;  // A file that is not there is not the same.
  return !run_file.empty() && std::filesystem::equivalent(run_file, RunFileOf(run), error);
}

std::string FindIgnoredSettings(FileSystem* file_system, const v1::RunConfig& run,
                                const v1::RunConfig& declared, const StartCommand& start) {
  const absl::StatusOr<v1::RunConfig> file = LoadRunConfig(RunFileOf(run));
  if (!file.ok()) return "";
  Settings kept;
  bool has_kept = false;
  if (FileExists(*file_system, JoinPath(run.out(), kDeclared))) {
    const absl::StatusOr<v1::RunConfig> text = LoadRunConfig(JoinPath(run.out(), kDeclared));
    has_kept = text.ok();
    if (has_kept) kept = SettingsOf(*text);
  }
  const Settings wanted = SettingsOf(declared), given = SettingsOf(*file), used = SettingsOf(run);
  std::vector<std::string> now, before;
  for (const Setting setting : {kBatchSize, kEpochs, kMaxSteps, kRule, kLearningRate, kOther}) {
    if (!Declares(declared, setting) || wanted[setting] == given[setting]) continue;
    const bool by_flag = given[setting] != used[setting];
    const bool is_edited = !has_kept || kept[setting] != wanted[setting];
    if (by_flag || !is_edited) continue;
    if (setting == kBatchSize && run.replica_batch_size() > 0) continue;
    if (setting == kOther) {
      if (wanted[kRule] != given[kRule]) continue;  // The rule is named.
      const std::optional<RunDifference> difference =
          FirstDifference(OptimizerAlone(declared), OptimizerAlone(*file));
      now.push_back(absl::StrCat(difference->field, " ", Shown(difference->first)));
      before.push_back(Shown(difference->second));
      continue;
    }
    now.push_back(absl::StrCat(kNames[setting], " ", Shown(wanted[setting])));
    before.push_back(Shown(given[setting]));
  }
  if (now.empty()) return "";
  const std::string& program = run.program().file();
  return absl::StrCat("warning: ", program.substr(program.rfind('/') + 1), " declares ", Join(now),
                      "; ", RunFileOf(run), " says ", Join(before),
                      before.size() == 1 ? ", which is used" : ", which are used",
                      "; to follow the program: ", CommandWithProgram(run, start));
}

}  // namespace shoal

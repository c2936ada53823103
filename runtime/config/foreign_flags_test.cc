#include "runtime/config/foreign_flags.h"

#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "runtime/config/flags.h"
#include "runtime/config/run_config.h"
#include "runtime/config/validate.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;

std::string Error(const std::vector<std::string>& args, FlagScope scope = kScopeTrain) {
  return std::string(ParseCommandLine(scope, args).status().message());
}

TEST(ForeignFlagsTest, NamesOfOtherSystemsAreAnsweredWithOurs) {
  EXPECT_EQ(Error({"--worker_replicas=2"}),
            "--worker_replicas is TF-Slim's flag; Shoal's is --num_replicas");
  EXPECT_THAT(Error({"--lr=0.1"}), HasSubstr("Shoal's is --learning_rate"));
  for (const char* name : {"train_dir", "logdir", "model_dir"}) {
    EXPECT_THAT(Error({absl::StrCat("--", name, "=x")}), HasSubstr("Shoal's is --out")) << name;
  }
  EXPECT_THAT(Error({"--max_number_of_steps=9"}), HasSubstr("Shoal's is --max_steps"));
  EXPECT_THAT(Error({"--workers=2"}), HasSubstr("Shoal's is --num_replicas"));
  EXPECT_THAT(Error({"--nosync"}), HasSubstr("Shoal's is --nosync_replicas"));
  EXPECT_THAT(Error({"--precision=bf16"}), HasSubstr("Shoal's is --compute_dtype=bfloat16"));
  EXPECT_THAT(Error({"--eval"}), HasSubstr("Shoal's is a command of its own: shoal eval DIR"));
  EXPECT_EQ(Error({"--format=onnx"}, kScopeExport),
            "--format is another system's flag; Shoal's is none, because exports are safetensors");
}

TEST(ForeignFlagsTest, TheAnswerIsThatOfTheCommand) {
  EXPECT_EQ(Error({"--task=1"}, kScopeTask), "--task is TF-Slim's flag; Shoal's is --task_index");
  EXPECT_EQ(Error({"--task=1"}),
            "--task is TF-Slim's flag; Shoal's is none, because this command starts all tasks; "
            "`shoal worker` has --task_index");
  EXPECT_THAT(Error({"--master=a:1"}, kScopeTask), HasSubstr("Shoal's is --chief_host"));
  EXPECT_THAT(Error({"--master=a:1"}), HasSubstr("`shoal worker` has --chief_host"));
  EXPECT_THAT(Error({"--num_gpus=2"}), HasSubstr("Shoal's is --num_clones"));
  EXPECT_EQ(Error({"--num_gpus=2"}, kScopePredict),
            "--num_gpus is TensorFlow's flag; Shoal's is --devices=/gpu:0,/gpu:1");
  EXPECT_THAT(Error({"--checkpoint_path=x"}), HasSubstr("Shoal's is --init_from"));
  for (const FlagScope scope : {kScopeUse, kScopePredict, kScopeExport, kScopeLookup}) {
    EXPECT_EQ(Error({"--checkpoint_path=x"}, scope),
              "--checkpoint_path is TF-Slim's flag; Shoal's is the run's directory, and --step=N");
  }
  EXPECT_THAT(Error({"--output=f"}, kScopeTask), HasSubstr("Shoal's is --out"));
  EXPECT_THAT(Error({"--output=f"}, kScopeExport), HasSubstr("Shoal's is --model_file"));
  EXPECT_THAT(Error({"--output=f"}, kScopePredict), HasSubstr("Shoal's is --predictions"));
  EXPECT_EQ(Error({"--lr=0.1"}, kScopeHealth), "--lr: is not a flag; see --help");
}

// One flag of an answer, as arguments, and the command that takes it.
struct Remedy {
  std::vector<std::string> args;
  FlagScope scope;
};

// Returns the flags that an answer to the command of `scope` names.
std::vector<Remedy> FlagsIn(const ForeignFlag& foreign, FlagScope scope) {
  std::vector<Remedy> remedies;
  const std::vector<std::string> words = absl::StrSplit(foreign.ours, ' ');
  for (size_t i = 0; i < words.size(); ++i) {
    if (!absl::StartsWith(words[i], "--")) continue;
    const bool is_workers = i >= 2 && words[i - 2] == "worker`" && words[i - 1] == "has";
    const bool is_set = words[i] == "--set" && i + 1 < words.size();
    absl::string_view flag = is_set ? words[i + 1] : words[i];
    absl::ConsumeSuffix(&flag, ",");
    std::string text(flag);
    if (absl::ConsumeSuffix(&flag, "=N") || absl::ConsumeSuffix(&flag, "=X")) {
      text = absl::StrCat(flag, "=1");
    }
    for (const FlagSpec& spec : FlagTable()) {
      if (text == absl::StrCat("--", spec.name) && spec.kind == FlagKind::kText) text += "=1";
    }
    Remedy& remedy = remedies.emplace_back();
    remedy.scope = is_workers ? kScopeTask : scope;
    if (is_set) remedy.args.push_back("--set");
    remedy.args.push_back(text);
  }
  return remedies;
}

TEST(ForeignFlagsTest, EveryAnswerIsAcceptedByTheCommandThatGaveIt) {
  int tried = 0;
  for (const ForeignFlag& foreign : ForeignFlags()) {
    for (const FlagScope scope : {kScopeTrain, kScopeLaunch, kScopeTask, kScopeUse, kScopePredict,
                                  kScopeExport, kScopeLookup}) {
      if ((foreign.scopes & scope) == 0) continue;
      EXPECT_EQ(Error({absl::StrCat("--", foreign.name, "=1")}, scope),
                absl::StrCat("--", foreign.name, " is ", foreign.system, "'s flag; Shoal's is ",
                             foreign.ours));
      for (const Remedy& remedy : FlagsIn(foreign, scope)) {
        EXPECT_EQ(Error(remedy.args, remedy.scope), "") << foreign.name << ": " << foreign.ours;
        ++tried;
      }
    }
  }
  EXPECT_GE(tried, 150);  // The loop has found the flags.
}

TEST(ForeignFlagsTest, TheAnswerToWeightDecayFitsEveryOptimizer) {
  const std::string answer = Error({"--weight_decay=0.1"});
  EXPECT_THAT(answer, HasSubstr("--set optimizer.adamw.weight_decay=X with --optimizer=adamw"));
  EXPECT_THAT(answer, HasSubstr("--set model.weight_decay=X with any optimizer"));
  const std::string path = ::testing::TempDir() + "/foreign_flags_test_run.textproto";
  for (const std::string& rule : KnownOptimizers()) {
    const std::string field = rule == "nesterov" ? "momentum" : rule;
    std::ofstream(path) << "num_epochs: 1 model { name: 'mlp' } optimizer { " << field << " {} }";
    absl::StatusOr<CommandLine> line =
        ParseCommandLine(kScopeTrain, {"--run=" + path, "--set", "model.weight_decay=0.1"});
    ASSERT_TRUE(line.ok()) << rule << ": " << line.status();
    EXPECT_EQ(OptimizerName(line->run.optimizer()), field);
    ResolveDefaults(kTrainTaskCounts, &line->run);
    EXPECT_EQ(ValidateRunConfig(line->run), absl::OkStatus()) << rule;
  }
}

}  // namespace
}  // namespace shoal

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
            "--format is another system's flag; Shoal has none, because exports are safetensors");
}

TEST(ForeignFlagsTest, TheAnswerIsThatOfTheCommand) {
  EXPECT_EQ(Error({"--task=1"}, kScopeTask), "--task is TF-Slim's flag; Shoal's is --task_index");
  EXPECT_EQ(Error({"--task=1"}),
            "--task is TF-Slim's flag; Shoal has none, because this command starts all tasks; "
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

std::vector<std::string> Words(absl::string_view text) { return absl::StrSplit(text, ' '); }

// Returns whether the command has the flag or an answer to it.
bool IsAnswered(const std::string& name, FlagScope scope) {
  for (const FlagSpec& spec : FlagTable()) {
    if (name == spec.name && (spec.scopes & scope) != 0) return true;
  }
  const std::string error = Error({absl::StrCat("--", name, "=1")}, scope);
  return absl::StrContains(error, "; Shoal's is ") ||
         absl::StrContains(error, "; Shoal has none") || absl::StrContains(error, "`shoal ");
}

// The flags of TF-Slim's train_image_classifier.py and eval_image_classifier.py without those for
// quantized models and labels_offset, which have no counterpart.
TEST(ForeignFlagsTest, TheFlagsOfTfSlimsProgramsAreAnswered) {
  for (const std::string& name :
       Words("master train_dir num_clones clone_on_cpu worker_replicas num_ps_tasks num_readers "
             "num_preprocessing_threads log_every_n_steps save_summaries_secs save_interval_secs "
             "task weight_decay optimizer adadelta_rho adagrad_initial_accumulator_value "
             "adam_beta1 adam_beta2 opt_epsilon ftrl_learning_rate_power "
             "ftrl_initial_accumulator_value ftrl_l1 ftrl_l2 momentum rmsprop_momentum "
             "rmsprop_decay learning_rate_decay_type learning_rate end_learning_rate "
             "label_smoothing learning_rate_decay_factor num_epochs_per_decay sync_replicas "
             "replicas_to_aggregate moving_average_decay dataset_name dataset_split_name "
             "dataset_dir model_name preprocessing_name batch_size train_image_size "
             "max_number_of_steps use_grayscale checkpoint_path checkpoint_exclude_scopes "
             "trainable_scopes ignore_missing_vars")) {
    EXPECT_TRUE(IsAnswered(name, kScopeTrain)) << name;
  }
  for (const std::string& name :
       Words("max_num_batches master checkpoint_path eval_dir num_preprocessing_threads "
             "dataset_name dataset_split_name dataset_dir model_name moving_average_decay")) {
    EXPECT_TRUE(IsAnswered(name, kScopeUse)) << name;
  }
}

TEST(ForeignFlagsTest, TheFlagsOfOtherLaunchersAreAnswered) {
  for (const std::string& name :
       Words("worker_hosts ps_hosts job_name task_index issync total_num_replicas nproc_per_node "
             "nnodes node_rank master_addr master_port rdzv_endpoint rdzv_backend rdzv_id "
             "max_restarts backend strategy accelerator precision max_epochs deepspeed hostfile "
             "include np H n amp ckpt checkpoint resume_from_checkpoint pretrained_checkpoint "
             "workers num-workers gpus device dir split opt eval_interval_secs seed_everything "
             "per_device_train_batch_size num_train_epochs warmup_steps fast_dev_run")) {
    EXPECT_TRUE(IsAnswered(name, kScopeTrain)) << name;
    EXPECT_TRUE(IsAnswered(name, kScopeLaunch)) << name;
  }
  EXPECT_EQ(Error({"-H", "a:2,b:2"}),
            "-H is Horovod's flag; Shoal has none, because this command uses this machine; "
            "`shoal launch` has --hosts=FILE");
  EXPECT_EQ(Error({"--hostfile=f"}, kScopeLaunch),
            "--hostfile is DeepSpeed's flag; Shoal's is --hosts=FILE, with a line for each host");
}

TEST(ForeignFlagsTest, DashesBetweenWordsAreUnderscores) {
  EXPECT_THAT(Error({"--num-workers=2"}),
              HasSubstr("--num-workers is another system's flag; Shoal's is --num_replicas"));
  EXPECT_THAT(Error({"-np", "4"}), HasSubstr("-np is Horovod's flag; Shoal's is --num_replicas"));
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
    // Another command may have the flag, as in "`shoal launch` has --hosts=FILE".
    const std::string other = i >= 2 && words[i - 1] == "has" ? words[i - 2] : "";
    const bool is_set = words[i] == "--set" && i + 1 < words.size();
    absl::string_view flag = is_set ? words[i + 1] : words[i];
    flag = absl::StripSuffix(absl::StripSuffix(flag, ","), ";");
    std::string text(flag);
    if (absl::ConsumeSuffix(&flag, "=N") || absl::ConsumeSuffix(&flag, "=X")) {
      text = absl::StrCat(flag, "=1");
    }
    for (const FlagSpec& spec : FlagTable()) {
      if (text == absl::StrCat("--", spec.name) && spec.kind == FlagKind::kText) text += "=1";
    }
    Remedy& remedy = remedies.emplace_back();
    remedy.scope = other == "worker`" ? kScopeTask : other == "launch`" ? kScopeLaunch : scope;
    if (is_set) remedy.args.push_back("--set");
    remedy.args.push_back(text);
  }
  return remedies;
}

TEST(ForeignFlagsTest, EveryAnswerIsAcceptedByTheCommandThatGaveIt) {
  int tried = 0, answered = 0;
  for (const ForeignFlag& foreign : ForeignFlags()) {
    const int answered_before = answered;
    for (const FlagScope scope :
         {kScopeTrain, kScopeLaunch, kScopeTask, kScopeUse, kScopePredict, kScopeExport,
          kScopeLookup, kScopeStatus, kScopeSave, kScopeHealth}) {
      if (FindForeignFlag(scope, foreign.name) != &foreign) continue;
      ++answered;
      EXPECT_EQ(
          Error({absl::StrCat("--", foreign.name, "=1")}, scope),
          absl::StrCat("--", foreign.name, " is ", foreign.system, "'s flag; ",
                       absl::StartsWith(foreign.ours, "none, ") ? "Shoal has " : "Shoal's is ",
                       foreign.ours));
      for (const Remedy& remedy : FlagsIn(foreign, scope)) {
        EXPECT_EQ(Error(remedy.args, remedy.scope), "") << foreign.name << ": " << foreign.ours;
        ++tried;
      }
    }
    EXPECT_GT(answered, answered_before) << foreign.name << " is hidden by an entry before it";
  }
  EXPECT_GE(tried, 300);  // The loop has found the flags.
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

#include "runtime/config/flags.h"

#include <fstream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "runtime/config/field_path.h"
#include "runtime/config/run_config.h"
#include "runtime/config/validate.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

CommandLine Parsed(FlagScope scope, const std::vector<std::string>& args) {
  absl::StatusOr<CommandLine> line = ParseCommandLine(scope, args);
  EXPECT_TRUE(line.ok()) << line.status();
  return line.ok() ? *std::move(line) : CommandLine();
}

std::string Error(const std::vector<std::string>& args, FlagScope scope = kScopeTrain) {
  return std::string(ParseCommandLine(scope, args).status().message());
}

std::string WriteRunFile(const std::string& text) {
  const std::string path = ::testing::TempDir() + "/flags_test_run.textproto";
  std::ofstream(path) << text;
  return path;
}

TEST(FlagsTest, ShortNamesAreFieldsOfTheRun) {
  const CommandLine line =
      Parsed(kScopeTrain, {"--batch_size=32", "--num_ps_tasks", "3", "--optimizer=adam",
                           "--learning_rate=1e-3", "--data_dir=/d", "--resume=must", "--seed=0"});
  EXPECT_EQ(line.run.batch_size(), 32u);
  EXPECT_EQ(line.run.deployment().num_ps_tasks(), 3u);
  EXPECT_TRUE(line.run.optimizer().has_adam());
  EXPECT_EQ(line.run.optimizer().learning_rate(), 1e-3);
  EXPECT_EQ(line.run.data().directory(), "/d");
  EXPECT_EQ(line.run.checkpoint().resume(), "must");
  EXPECT_TRUE(line.run.has_seed());
}

TEST(FlagsTest, AMissingRunFileMayComeBackForATaskThatALauncherStarted) {
  const std::string missing = "--run=" + ::testing::TempDir() + "/missing.textproto";
  EXPECT_TRUE(absl::IsNotFound(ParseCommandLine(kScopeTask, {missing}).status()));
  const absl::Status away = ParseCommandLine(kScopeTask, {missing, "--parent_pid=7"}).status();
  EXPECT_TRUE(absl::IsUnavailable(away)) << away;
  EXPECT_THAT(std::string(away.message()), HasSubstr("/missing.textproto was there"));
}

TEST(FlagsTest, BooleansHaveAllForms) {
  EXPECT_TRUE(Parsed(kScopeTrain, {"--sync_replicas"}).run.sync().sync_replicas());
  const CommandLine off = Parsed(kScopeTrain, {"--nosync_replicas"});
  EXPECT_TRUE(off.run.sync().has_sync_replicas());
  EXPECT_FALSE(off.run.sync().sync_replicas());
  EXPECT_FALSE(Parsed(kScopeTrain, {"--sync_replicas=false"}).run.sync().sync_replicas());
  EXPECT_TRUE(Parsed(kScopeTrain, {"--clone_on_cpu=1"}).run.deployment().clone_on_cpu());
}

TEST(FlagsTest, FlagsOverrideTheFileWhereverRunIs) {
  const std::string path = WriteRunFile("batch_size: 8 num_epochs: 2");
  const CommandLine line = Parsed(kScopeTrain, {"--batch_size=16", "--run=" + path});
  EXPECT_EQ(line.run.batch_size(), 16u);
  EXPECT_EQ(line.run.num_epochs(), 2u);
  EXPECT_EQ(line.task.run_file, path);
}

TEST(FlagsTest, SetReachesEveryFieldInOrder) {
  const CommandLine line = Parsed(kScopeTrain, {"--set", "optimizer.adam.beta1=0.8",
                                                "--set=model.name=mlp", "--model=seed_mlp"});
  EXPECT_EQ(line.run.optimizer().adam().beta1(), 0.8);
  EXPECT_EQ(line.run.model().name(), "seed_mlp");
}

TEST(FlagsTest, TaskFlagsBelongToTasks) {
  const CommandLine line =
      Parsed(kScopeTask, {"--job_name=ps", "--task_index=1", "--ps_hosts=a:1,b:2",
                          "--chief_host=c:3", "--report_fd=3"});
  EXPECT_EQ(line.task.job_name, "ps");
  EXPECT_EQ(*line.task.task_index, 1u);
  EXPECT_EQ(line.task.ps_hosts, "a:1,b:2");
  EXPECT_EQ(line.task.report_fd, 3);
  EXPECT_EQ(Error({"--task_index=1"}),
            "--task_index: has no meaning for this command, which starts all tasks on this "
            "machine; `shoal task`, `shoal ps` and so on take it, and `shoal launch --hosts=FILE` "
            "uses other machines");
  EXPECT_EQ(Error({"--job_name=ps"}, kScopeLaunch),
            "--job_name: has no meaning for this command, which starts all tasks; `shoal task`, "
            "`shoal ps` and so on take it");
  EXPECT_EQ(Error({"--hosts=a"}),
            "--hosts: has no meaning for this command; `shoal launch`, which uses other machines, "
            "takes it");
  EXPECT_EQ(Error({"--input=a"}), "--input: has no meaning for this command; see --help");
  EXPECT_EQ(Error({"--hosts=a"}, kScopeUse),
            "--hosts: has no meaning for this command; see --help");
}

TEST(FlagsTest, TextThatIsNotAFlagIsAnArgument) {
  EXPECT_THAT(Parsed(kScopeTrain, {"a", "--seed=1", "--", "--seed=2"}).arguments,
              ElementsAre("a", "--seed=2"));
}

TEST(FlagsTest, ANegativeNumberIsAnArgument) {
  const CommandLine line = Parsed(kScopeLookup, {"--out=/d", "-5", "--table=item", "17", "-42"});
  EXPECT_THAT(line.arguments, ElementsAre("-5", "17", "-42"));
  EXPECT_EQ(line.task.table, "item");
  EXPECT_EQ(Error({"-5x"}), "-5x: is not a flag; see --help");
  EXPECT_EQ(Error({"--5"}), "--5: is not a flag; see --help");
}

TEST(FlagsTest, AnyTextIsAWord) {
  const CommandLine line =
      Parsed(kScopeLookup, {"--out=/d", "--words", "--table=item", "http://a.b/c", "--", "--red"});
  EXPECT_TRUE(line.task.words);
  EXPECT_THAT(line.arguments, ElementsAre("http://a.b/c", "--red"));
  EXPECT_THAT(Error({"http://a.b/c"}, kScopeLookup), HasSubstr("is not a path of this machine"));
}

TEST(FlagsTest, ErrorsAreOneLineWithFlagAndRemedy) {
  EXPECT_EQ(Error({"--learning_rte=1"}),
            "--learning_rte: is not a flag; did you mean --learning_rate?");
  EXPECT_EQ(Error({"--zzz"}), "--zzz: is not a flag; see --help");
  EXPECT_EQ(Error({"--batch_size"}), "--batch_size: needs a value: --batch_size=N");
  EXPECT_EQ(Error({"--batch_size=x"}),
            "--batch_size: a whole number >= 0 of at most 32 bits is wanted, not \"x\"");
  EXPECT_EQ(Error({"--set=nonsense"}), "--set: \"nonsense\" is not PATH=VALUE");
  EXPECT_THAT(Error({"--optimizer=adm"}), HasSubstr("did you mean adam?"));
  EXPECT_THAT(Error({"--run=/nowhere"}), HasSubstr("--run: cannot read /nowhere"));
  EXPECT_THAT(Error({"--nobatch_size"}), HasSubstr("--nobatch_size: is not a flag"));
  EXPECT_EQ(Error({"--run=/a", "--run=/b"}), "--run: is given twice; give it once");
  EXPECT_EQ(Error({"--seed=1", "--seed=2"}), "--seed: is given twice; give it once");
  EXPECT_EQ(Error({"--run="}), "--run: is empty; give a value or drop the flag");
  EXPECT_EQ(Error({"--out="}), "--out: is empty; give a value or drop the flag");
}

TEST(FlagsTest, ACommandForARunsFilesTakesTheDirectoryAlone) {
  for (const FlagScope scope : {kScopeUse, kScopePredict, kScopeExport}) {
    const CommandLine line = Parsed(scope, {"runs/a"});
    EXPECT_EQ(line.run.out(), "runs/a");
    EXPECT_TRUE(line.arguments.empty());
    EXPECT_EQ(Error({"b", "--out=a"}, scope),
              "b: is not a flag; the run's directory is a already, see --help");
    EXPECT_EQ(Error({"a", "b"}, scope),
              "b: is not a flag; the run's directory is a already, see --help");
  }
  EXPECT_EQ(Parsed(kScopeTrain, {"runs/a"}).arguments.size(), 1u);
}

TEST(FlagsTest, AnUnknownFlagBesideAProgramMayBeTheProgramsArgument) {
  EXPECT_EQ(Error({"--program=run1.py", "--size=10"}),
            "--size: is not a flag; did you mean --batch_size? An argument of the program goes "
            "behind `--`: -- --size=10");
  EXPECT_EQ(Error({"--zzz", "--program", "run1.py"}),
            "--zzz: is not a flag; see --help. An argument of the program goes behind `--`: -- "
            "--zzz");
  EXPECT_EQ(Error({"--zzz", "--", "--program=a.py"}), "--zzz: is not a flag; see --help");
}

TEST(FlagsTest, AnEmptyRunFileIsRefused) {
  const std::string file = WriteRunFile("# Nothing yet.\n");
  EXPECT_EQ(Error({"--run=" + file}),
            absl::StrCat("--run: ", file,
                         " sets no field of a run; name a run file, such as "
                         "deploy/runs/fashion_cnn.textproto"));
}

TEST(FlagsTest, UrlsAreNotPaths) {
  EXPECT_EQ(Error({"--out=s3://bucket/run"}),
            "out: \"s3://bucket/run\" is not a path of this machine; mount the storage that s3:// "
            "names, and give the directory where it is mounted");
  EXPECT_THAT(Error({"--data_dir=gs://data"}), HasSubstr("data.directory: \"gs://data\""));
  EXPECT_THAT(Error({"--run=hdfs://namenode/run.textproto"}), HasSubstr("--run: \"hdfs://"));
  EXPECT_EQ(Parsed(kScopeTrain, {"--out=a/b://c"}).run.out(), "a/b://c");
}

TEST(FlagsTest, ATildeThatNoShellHasReplacedIsRefused) {
  EXPECT_EQ(Error({"--out=~/runs/a"}),
            "out: \"~/runs/a\" begins with ~, which only a shell replaces, and not behind \"=\"; "
            "give the whole path");
  EXPECT_THAT(Error({"~"}, kScopeUse), HasSubstr("argument: \"~\" begins with ~"));
  EXPECT_EQ(Parsed(kScopeTrain, {"--out=a/~/b"}).run.out(), "a/~/b");
  EXPECT_EQ(Parsed(kScopeTrain, {"--out=~1"}).run.out(), "~1");
}

TEST(FlagsTest, SetWithTheNameOfAFlagNamesTheFlag) {
  EXPECT_EQ(Error({"--set=num_replicas=3"}),
            "--set num_replicas: is a flag, no field of the run file; did you mean "
            "--num_replicas=3, which is --set deployment.num_replicas=3?");
  EXPECT_EQ(Error({"--set", "metrics_address=a:1"}),
            "--set metrics_address: is a flag, no field of the run file; did you mean "
            "--metrics_address=a:1?");
  // These are flags of another command, and of launchers alone.
  EXPECT_THAT(Error({"--set=task_index=3"}), HasSubstr("RunConfig has no field \"task_index\""));
  EXPECT_THAT(Error({"--set=report_fd=3"}), HasSubstr("RunConfig has no field \"report_fd\""));
  EXPECT_EQ(Parsed(kScopeTrain, {"--set=batch_size=3"}).run.batch_size(), 3u);
}

TEST(FlagsTest, ContradictionsAreErrors) {
  EXPECT_EQ(
      Error({"--optimizer=sgd", "--set=optimizer.adam.beta1=0.5"}),
      "--set optimizer.adam.beta1: contradicts --optimizer=sgd; a run has one optimizer, drop "
      "one of them");
  Parsed(kScopeTrain, {"--optimizer=nesterov", "--set=optimizer.momentum.momentum=0.5"});
  EXPECT_THAT(Error({"--replicas_to_aggregate=3", "--nosync_replicas"}),
              HasSubstr("--replicas_to_aggregate=3: has no meaning with --nosync_replicas"));
  // A field that only the file sets may stay there.
  const std::string path = WriteRunFile("sync { replicas_to_aggregate: 3 }");
  Parsed(kScopeTrain, {"--run=" + path, "--nosync_replicas"});
}

TEST(FlagsTest, AnotherOptimizerHasItsOwnLearningRate) {
  const std::string path = WriteRunFile("optimizer { learning_rate: 0.5 sgd {} }");
  EXPECT_FALSE(Parsed(kScopeTrain, {"--run=" + path, "--optimizer=adam"})
                   .run.optimizer()
                   .has_learning_rate());
  EXPECT_EQ(
      Parsed(kScopeTrain, {"--run=" + path, "--optimizer=sgd"}).run.optimizer().learning_rate(),
      0.5);
  EXPECT_EQ(Parsed(kScopeTrain, {"--run=" + path, "--optimizer=adam", "--learning_rate=0.1"})
                .run.optimizer()
                .learning_rate(),
            0.1);
}

TEST(FlagsTest, AFieldOfAnotherOptimizerDoesNotReplaceTheFilesSilently) {
  const std::string path = WriteRunFile("optimizer { learning_rate: 0.5 adamw {} }");
  EXPECT_EQ(
      Error({"--run=" + path, "--set=optimizer.adam.beta1=0.8"}),
      "--set optimizer.adam.beta1: the run file's optimizer is adamw; set a field of that, or "
      "add --optimizer=adam to replace it");
  EXPECT_EQ(
      Parsed(kScopeTrain, {"--run=" + path, "--optimizer=adam", "--set=optimizer.adam.beta1=0.8"})
          .run.optimizer()
          .adam()
          .beta1(),
      0.8);
  EXPECT_EQ(Parsed(kScopeTrain, {"--run=" + path, "--set=optimizer.adamw.beta1=0.8"})
                .run.optimizer()
                .learning_rate(),
            0.5);
}

TEST(FlagsTest, ABatchSizeGivenReplacesTheFilesReplicaBatch) {
  const std::string path = WriteRunFile("replica_batch_size: 64 batch_size: 8");
  const v1::RunConfig given = Parsed(kScopeTrain, {"--run=" + path, "--batch_size=32"}).run;
  EXPECT_EQ(given.replica_batch_size(), 0u);
  EXPECT_EQ(given.batch_size(), 32u);
  EXPECT_EQ(Parsed(kScopeTrain, {"--set=batch_size=32", "--run=" + path}).run.replica_batch_size(),
            0u);
  EXPECT_EQ(Parsed(kScopeTrain, {"--run=" + path, "--seed=1"}).run.replica_batch_size(), 64u);
  EXPECT_EQ(
      Parsed(kScopeTrain, {"--run=" + path, "--replica_batch_size=16"}).run.replica_batch_size(),
      16u);
  EXPECT_EQ(Error({"--run=" + path, "--batch_size=32", "--replica_batch_size=16"}),
            "--batch_size=32: contradicts --replica_batch_size=16, which takes its place; "
            "drop one of them");
  EXPECT_EQ(Parsed(kScopeTrain, {"--run=" + path, "--batch_size=32", "--replica_batch_size=0"})
                .run.batch_size(),
            32u);
}

TEST(FlagsTest, ARunOfAnotherModelThanTheFilesIsCalledAsThatModel) {
  const std::string path = WriteRunFile("name: 'mine' model { name: 'fashion_cnn' }");
  EXPECT_EQ(Parsed(kScopeTrain, {"--run=" + path, "--model=mlp"}).run.name(), "");
  EXPECT_EQ(Parsed(kScopeTrain, {"--run=" + path, "--model=mlp", "--name=a"}).run.name(), "a");
  EXPECT_EQ(Parsed(kScopeTrain, {"--run=" + path, "--seed=2"}).run.name(), "mine");
}

TEST(FlagsTest, AProgramOfItsOwnReplacesTheFilesModel) {
  const std::string path =
      WriteRunFile("name: 'mine' model { layer { flatten {} } loss: 'hinge' }");
  const v1::RunConfig run =
      Parsed(kScopeTrain, {"--run=" + path, "--worker_binary=bin/program"}).run;
  EXPECT_FALSE(run.has_model());
  EXPECT_EQ(run.name(), "");
  EXPECT_EQ(run.deployment().worker_binary(), "bin/program");
  EXPECT_EQ(
      Parsed(kScopeTrain, {"--run=" + path, "--worker_binary=a", "--model=mlp"}).run.model().name(),
      "mlp");  // a contradiction, which validation names
}

TEST(FlagsTest, AComputeProgramKeepsTheFilesOtherFields) {
  const std::string path = WriteRunFile("name: 'mine' num_epochs: 4 program { args: 'old' }");
  const CommandLine line =
      Parsed(kScopeTrain, {"--run=" + path, "--program=bin/train.py", "--", "--depth", "3"});
  EXPECT_EQ(line.run.name(), "");
  EXPECT_EQ(line.run.num_epochs(), 4u);
  EXPECT_EQ(line.run.program().file(), "bin/train.py");
  EXPECT_THAT(line.run.program().args(), ElementsAre("--depth", "3"));
  EXPECT_TRUE(line.arguments.empty());
  EXPECT_THAT(Parsed(kScopeTrain, {"--run=" + path, "--program=a"}).run.program().args(),
              ElementsAre("old"));
}

TEST(FlagsTest, AComputeProgramDoesNotSilentlyReplaceTheFilesModelOrData) {
  for (const std::string& given :
       {std::string("model { name: 'mlp' }"), std::string("data { directory: '/d' }")}) {
    v1::RunConfig run =
        Parsed(kScopeTrain, {"--run=" + WriteRunFile(given + " num_epochs: 4"), "--program=a"}).run;
    ResolveDefaults(TaskCounts(), &run);
    EXPECT_THAT(ValidateRunConfig(run).message(), HasSubstr("program: is a, which")) << given;
  }
}

TEST(FlagsTest, EveryFieldFlagNamesAFieldThatExists) {
  for (const FlagSpec& spec : FlagTable()) {
    if (spec.field[0] == '\0') continue;
    const bool is_enum = std::string(spec.name) == "data_format";
    v1::RunConfig run;
    EXPECT_TRUE(SetField("--x", spec.field, is_enum ? "csv" : "1", &run).ok()) << spec.name;
  }
}

TEST(FlagsTest, EveryFlagOfTheTableIsApplied) {
  const std::string path = WriteRunFile("seed: 1");
  for (const FlagSpec& spec : FlagTable()) {
    std::string value = "1";
    const std::string name = spec.name;
    if (name == "run") value = path;
    if (name == "set") value = "seed=1";
    if (name == "optimizer") value = "sgd";
    if (name == "data_format") value = "csv";
    const FlagScope scope = static_cast<FlagScope>(spec.scopes);
    EXPECT_TRUE(ParseCommandLine(scope, {absl::StrCat("--", name, "=", value)}).ok()) << name;
  }
}

TEST(FlagsTest, HelpShowsTheFlagsOfItsScopeWithin100Columns) {
  const std::string help = FlagHelp(kScopeTrain);
  EXPECT_THAT(help, HasSubstr("--learning_rate=X"));
  EXPECT_THAT(help, HasSubstr("--[no]sync_replicas"));
  EXPECT_THAT(help, Not(HasSubstr("task_index=N ")));
  EXPECT_THAT(help, Not(HasSubstr("report_fd")));
  size_t begin = 0;
  while (begin < help.size()) {
    const size_t end = help.find('\n', begin);
    EXPECT_LE(end - begin, 100u) << help.substr(begin, end - begin);
    begin = end + 1;
  }
}

// Returns the text of --help about a flag, in one line.
std::string HelpOf(FlagScope scope, const std::string& flag) {
  const std::string help = absl::StrCat("\n", FlagHelp(scope), "\n  --");
  size_t begin = help.find(absl::StrCat("\n  --", flag, "="));
  if (begin == std::string::npos) begin = help.find(absl::StrCat("\n  --[no]", flag, " "));
  if (begin == std::string::npos) return "";
  std::string text = help.substr(begin, help.find("\n  --", begin + 1) - begin);
  absl::RemoveExtraAsciiWhitespace(&text);
  return text;
}

constexpr FlagScope kEveryScope[] = {kScopeTrain,  kScopeTask, kScopeUse,    kScopePredict,
                                     kScopeStatus, kScopeSave, kScopeHealth, kScopeLaunch};

TEST(FlagsTest, NoCommandHasTwoFlagsOfAName) {
  for (const FlagScope scope : kEveryScope) {
    std::set<std::string> seen;
    for (const FlagSpec& spec : FlagTable()) {
      if ((spec.scopes & scope) == 0) continue;
      EXPECT_TRUE(seen.insert(spec.name).second) << spec.name << " of scope " << scope;
      EXPECT_TRUE(absl::ascii_isalpha(spec.name[0])) << spec.name;
    }
  }
}

TEST(FlagsTest, ADefaultThatTheHelpNamesChangesNothing) {
  const std::pair<FlagScope, TaskCounts> commands[] = {{kScopeTrain, kTrainTaskCounts},
                                                       {kScopeTask, TaskCounts()}};
  for (const auto& [scope, counts] : commands) {
    v1::RunConfig plain;
    ResolveDefaults(counts, &plain);
    // Given, the directory's format is found by looking into it; the file has 0 for the slice size.
    const std::set<std::string> elsewhere = {"data_dir", "slice_bytes"};
    int named = 0;
    for (const FlagSpec& spec : FlagTable()) {
      const std::string text = HelpOf(scope, spec.name);
      const absl::string_view help = text;
      const size_t at = help.find("Default ");
      if ((spec.scopes & scope) == 0 || spec.field[0] == '\0') continue;
      if (elsewhere.count(spec.name) > 0) continue;
      if (at == absl::string_view::npos || absl::StartsWith(help.substr(at), "Default of"))
        continue;
      absl::string_view value = help.substr(at + 8);
      value = value.substr(0, value.find_first_of(" \n"));
      while (absl::ascii_ispunct(value.back())) value.remove_suffix(1);
      v1::RunConfig given = Parsed(scope, {absl::StrCat("--", spec.name, "=", value)}).run;
      ResolveDefaults(counts, &given);
      EXPECT_EQ(PrintRunConfig(given), PrintRunConfig(plain)) << spec.name << " = " << value;
      ++named;
    }
    EXPECT_GE(named, 10) << scope;  // The loop has not passed over nearly all.
  }
}

TEST(FlagsTest, ZeroSecondsAreTheDefault) {
  v1::RunConfig plain;
  ResolveDefaults(kTrainTaskCounts, &plain);
  for (const char* name : {"lease_seconds", "wait_seconds", "stall_seconds"}) {
    EXPECT_THAT(HelpOf(kScopeTrain, name), HasSubstr(", also for 0.")) << name;
    v1::RunConfig zero = Parsed(kScopeTrain, {absl::StrCat("--", name, "=0")}).run;
    ResolveDefaults(kTrainTaskCounts, &zero);
    EXPECT_EQ(PrintRunConfig(zero), PrintRunConfig(plain)) << name;
  }
}

TEST(FlagsTest, HelpShowsTheFlagsOfItsCommand) {
  EXPECT_THAT(HelpOf(kScopeTrain, "num_ps_tasks"), HasSubstr("Default 2."));
  EXPECT_THAT(HelpOf(kScopeTask, "num_ps_tasks"),
              HasSubstr("Default of a chief: that of --ps_hosts"));
  EXPECT_THAT(HelpOf(kScopeTrain, "out"), HasSubstr("Default: runs/"));
  for (const FlagScope scope : {kScopeTask, kScopeUse, kScopePredict}) {
    EXPECT_THAT(HelpOf(scope, "out"), HasSubstr("Needed")) << scope;
  }
  for (const char* flag : {"batch_size", "data_dir", "devices", "threads", "compute_dtype"}) {
    EXPECT_THAT(HelpOf(kScopePredict, flag), HasSubstr("Default: the run's")) << flag;
  }
  EXPECT_THAT(HelpOf(kScopeSave, "timeout"), HasSubstr("Default 60."));
  EXPECT_THAT(HelpOf(kScopeHealth, "timeout"), HasSubstr("Default 5."));
}

TEST(FlagsTest, CommandsOfARunUnderWayTakeOnlyTheirOwnFlags) {
  EXPECT_TRUE(Parsed(kScopeStatus, {"--json"}).task.json);
  EXPECT_THAT(Error({"--json"}, kScopeSave), HasSubstr("--json: has no meaning for this command"));
  EXPECT_THAT(Error({"--timeout=5"}, kScopeStatus), HasSubstr("has no meaning for this command"));
  EXPECT_THAT(Error({"--service=ps"}, kScopeSave), HasSubstr("has no meaning for this command"));
}

}  // namespace
}  // namespace shoal

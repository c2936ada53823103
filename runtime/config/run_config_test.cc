#include "runtime/config/run_config.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/failing_call.h"
#include "proto/v1/run_config.pb.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;

std::string ParseError(absl::string_view text) {
  return std::string(ParseRunConfig(text, "a.textproto").status().message());
}

TEST(RunConfigTest, ErrorsNameFileLineAndField) {
  EXPECT_EQ(ParseError("name: \"x\"\n\nbatchsize: 3\n"),
            "a.textproto:3: RunConfig has no field \"batchsize\"; did you mean batch_size?");
  EXPECT_EQ(ParseRunConfig("learning_rate: 0.1", "a.textproto").status().message(),
            "a.textproto:1: RunConfig has no field \"learning_rate\"; did you mean "
            "optimizer.learning_rate?");
  EXPECT_THAT(std::string(ParseRunConfig("foo: 1", "a.textproto").status().message()),
              HasSubstr("RunConfig has no field \"foo\"; it has name, "));
  EXPECT_THAT(ParseError("batch_size: many"), HasSubstr("a.textproto:1: batch_size: "));
  EXPECT_THAT(ParseError("name: \"x\"\nmodel { layer { dense { units: -1 } } }"),
              HasSubstr("a.textproto:2: units: "));
  EXPECT_THAT(ParseError("batch_size: 1\nbatch_size: 2"), HasSubstr("a.textproto:2: "));
  EXPECT_THAT(ParseError("model { name: \"mlp\""), HasSubstr("a.textproto:1: "));
  EXPECT_THAT(
      ParseError("optimizer {\n  sgd {}\n  adam {}\n}"),
      HasSubstr("a.textproto:3: sgd and adam are both given, but an optimizer has one rule; "
                "keep one of them"));
  EXPECT_THAT(ParseError("model { layer { flatten {} dense { units: 3 } } }"),
              HasSubstr("a.textproto:1: flatten and dense are both given, but only one of them may "
                        "be; keep one of them"));
  EXPECT_THAT(ParseError("data { format: XML }"), HasSubstr("format"));
}

TEST(RunConfigTest, ARunFileInAnotherLanguageIsNamed) {
  const auto looks_like = [](const std::string& language) {
    return HasSubstr("a.textproto: looks like " + language + ", but a run file is a text proto");
  };
  EXPECT_THAT(ParseError("{\n  \"model\": {\"name\": \"mlp\"}\n}\n"), looks_like("JSON"));
  EXPECT_THAT(ParseError("# Mine\n\nmodel:\n  name: mlp\n"), looks_like("YAML"));
  EXPECT_THAT(ParseError("---\nbatch_size: 3\n"), looks_like("YAML"));
  EXPECT_THAT(ParseError("[model]\nname = \"mlp\"\n"), looks_like("TOML"));
  EXPECT_EQ(ParseError("name: mlp\nbatch_size: 3\n"),
            "a.textproto:1: name: text in quotes is wanted, not \"mlp\"; write \"mlp\"");
}

TEST(RunConfigTest, AnOpenBraceIsNamed) {
  EXPECT_EQ(ParseError("model { name: \"mlp\"\n"),
            "a.textproto:2: the text ends inside a message; is a } missing?");
}

TEST(RunConfigTest, EnumValuesHaveShortNames) {
  const absl::StatusOr<v1::RunConfig> run = ParseRunConfig(
      "model {\n  layer { dense { units: 3 activation: RELU } }\n"
      "  layer { activation { kind: tanh } }\n  layer { dense { activation: RELU\n units: 1 } "
      "}\n}\n"
      "data { format: synthetic_regression }",
      "a.textproto");
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->model().layer(0).dense().activation(), v1::ACTIVATION_KIND_RELU);
  EXPECT_EQ(run->model().layer(1).activation().kind(), v1::ACTIVATION_KIND_TANH);
  EXPECT_EQ(run->model().layer(2).dense().activation(), v1::ACTIVATION_KIND_RELU);
  EXPECT_EQ(run->data().format(), v1::DataConfig::FORMAT_SYNTHETIC_REGRESSION);
  EXPECT_THAT(
      ParseError("model { layer { dense { activation: SWOOSH } } }"),
      HasSubstr("a.textproto:1: activation: unknown value \"SWOOSH\"; known are none, relu, "
                "sigmoid, tanh, "));
  // Two enums are called kind: each place knows its own.
  EXPECT_THAT(ParseError("model { layer { activation { kind: SWOOSH } } }"),
              HasSubstr("; known are none, relu, sigmoid, tanh, "));
  EXPECT_THAT(ParseError("optimizer {\n\tschedule { kind: SWOOSH }\t# kind: COSINE\n}"),
              HasSubstr("; known are constant, "));
  EXPECT_THAT(ParseError("optimizer { schedule { kind: RELU } }"),
              HasSubstr("unknown value \"RELU\""));
  const absl::StatusOr<v1::RunConfig> schedule =
      ParseRunConfig("optimizer { schedule { kind: COSINE # not COSINE\n } }", "a.textproto");
  ASSERT_TRUE(schedule.ok()) << schedule.status();
  EXPECT_EQ(schedule->optimizer().schedule().kind(), v1::ScheduleConfig::KIND_COSINE);
}

TEST(RunConfigTest, MissingFileNamesFlagAndPath) {
  const absl::Status status = LoadRunConfig("/nowhere/run.textproto").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(
      status.message(),
      "--run: cannot read /nowhere/run.textproto: No such file or directory; name a file that "
      "is there");
}

TEST(RunConfigTest, DefaultsAreVisibleAfterResolving) {
  v1::RunConfig run;
  run.mutable_model()->set_name("mlp");
  ResolveDefaults(kTrainTaskCounts, &run);
  EXPECT_EQ(run.name(), "mlp");
  EXPECT_EQ(run.deployment().num_replicas(), 2u);
  EXPECT_EQ(run.deployment().num_ps_tasks(), 2u);
  EXPECT_EQ(run.deployment().num_clones(), 1u);
  EXPECT_EQ(run.deployment().threads(), 1u);
  EXPECT_TRUE(run.deployment().allow_soft_placement());
  EXPECT_TRUE(run.sync().sync_replicas());
  EXPECT_EQ(run.sync().replicas_to_aggregate(), 0u);  // decided at the first start
  EXPECT_EQ(run.checkpoint().keep(), 3u);
  EXPECT_EQ(run.checkpoint().export_every(), 1u);
  EXPECT_EQ(run.checkpoint().resume(), "auto");
  EXPECT_EQ(run.model().loss(), "sparse_softmax_cross_entropy");
  EXPECT_EQ(run.optimizer().learning_rate(), 0.01);
  EXPECT_TRUE(run.optimizer().has_sgd());
  EXPECT_EQ(run.batch_size(), 64u);
  EXPECT_EQ(run.seed(), 1u);
  EXPECT_THAT(PrintRunConfig(run), HasSubstr("num_ps_tasks: 2"));
}

TEST(RunConfigTest, DefaultsAreTfSlimsWithoutTrain) {
  v1::RunConfig run;
  ResolveDefaults(TaskCounts(), &run);
  EXPECT_EQ(run.deployment().num_replicas(), 1u);
  EXPECT_EQ(run.deployment().num_ps_tasks(), 0u);
}

TEST(RunConfigTest, NoPsMeansOneReplicaByDefault) {
  v1::RunConfig run;
  run.mutable_deployment()->set_num_ps_tasks(0);
  ResolveDefaults(kTrainTaskCounts, &run);
  EXPECT_EQ(run.deployment().num_replicas(), 1u);
}

TEST(RunConfigTest, ResolvingKeepsWhatWasSetEvenZero) {
  v1::RunConfig run;
  run.set_batch_size(0);
  run.set_seed(0);
  run.mutable_optimizer()->set_learning_rate(0);
  run.mutable_deployment()->set_num_clones(0);
  run.mutable_sync()->set_replicas_to_aggregate(5);
  ResolveDefaults(kTrainTaskCounts, &run);
  EXPECT_EQ(run.batch_size(), 0u);
  EXPECT_EQ(run.seed(), 0u);
  EXPECT_EQ(run.optimizer().learning_rate(), 0);
  EXPECT_EQ(run.deployment().num_clones(), 0u);
  EXPECT_EQ(run.sync().replicas_to_aggregate(), 5u);
}

TEST(RunConfigTest, ParametersOfTheOptimizerAreVisibleToo) {
  v1::RunConfig run;
  run.mutable_optimizer()->mutable_adamw()->set_beta1(0.5);
  run.mutable_cluster()->set_max_worker_restarts(0);
  ResolveDefaults(TaskCounts(), &run);
  EXPECT_EQ(run.optimizer().adamw().beta1(), 0.5);
  EXPECT_EQ(run.optimizer().adamw().beta2(), 0.999);
  EXPECT_EQ(run.optimizer().adamw().weight_decay(), 0.01);
  EXPECT_EQ(run.cluster().max_worker_restarts(), 0u);
  run.mutable_optimizer()->mutable_adam();
  ResolveDefaults(TaskCounts(), &run);
  EXPECT_FALSE(run.optimizer().adam().has_weight_decay());
}

TEST(RunConfigTest, PrintedRunIsReadBackEqual) {
  v1::RunConfig run;
  run.mutable_model()->set_name("fashion_cnn");
  ResolveDefaults(kTrainTaskCounts, &run);
  const absl::StatusOr<v1::RunConfig> again = ParseRunConfig(PrintRunConfig(run), "run.textproto");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->SerializeAsString(), run.SerializeAsString());
  v1::RunConfig resolved_again = *again;
  ResolveDefaults(TaskCounts(), &resolved_again);
  EXPECT_EQ(resolved_again.SerializeAsString(), run.SerializeAsString());
}

TEST(RunConfigTest, TheDirectoryIsWhereTheFileIsNotInIt) {
  v1::RunConfig run;
  run.set_out("/elsewhere");
  EXPECT_EQ(PrintRunConfig(run).find("elsewhere"), std::string::npos);

  std::string directory = ::testing::TempDir() + "/run_directory_XXXXXX";
  ASSERT_NE(mkdtemp(directory.data()), nullptr);
  EXPECT_EQ(FindRunDirectory(directory + "/run.textproto").value(), "");
  ASSERT_EQ(mkdir((directory + "/logs").c_str(), 0755), 0);
  EXPECT_EQ(FindRunDirectory(directory + "/run.textproto").value(), directory);
  EXPECT_EQ(FindRunDirectory(directory + "/other.textproto").value(), "");
  // A run that cannot be seen now is resumed later, and no other one begins.
  for (const int error : {EIO, ESTALE}) {
    RunWithFailingCall(SYS_newfstatat, error, [&directory] {
      const absl::Status status = FindRunDirectory(directory + "/run.textproto").status();
      EXPECT_TRUE(absl::IsUnavailable(status)) << status;
      EXPECT_THAT(status.message(), HasSubstr("--run: cannot look at " + directory + "/logs: "));
    });
  }
  EXPECT_EQ(rmdir((directory + "/logs").c_str()), 0);
  EXPECT_EQ(rmdir(directory.c_str()), 0);
}

TEST(RunConfigTest, PathsAreMadeAbsolute) {
  v1::RunConfig run;
  MakePathsAbsolute("/home/me", &run);
  EXPECT_EQ(run.out(), "");
  EXPECT_FALSE(run.has_data());
  run.set_out(".");
  run.mutable_data()->set_directory("data");
  MakePathsAbsolute("/home/me", &run);
  EXPECT_EQ(run.out(), "/home/me");
  EXPECT_EQ(run.data().directory(), "/home/me/data");
}

TEST(RunConfigTest, ARunIsSynchronousByDefault) {
  v1::RunConfig run;
  EXPECT_TRUE(IsSynchronous(run));
  run.mutable_sync()->set_sync_replicas(false);
  EXPECT_FALSE(IsSynchronous(run));
  run.mutable_sync()->set_sync_replicas(true);
  EXPECT_TRUE(IsSynchronous(run));
}

TEST(RunConfigTest, AWorkersBatchIsPerCloneOrForAllOfThem) {
  v1::RunConfig run;
  run.set_batch_size(20);
  run.mutable_deployment()->set_num_clones(1);
  EXPECT_EQ(ReplicaBatchExamples(run), 20u);
  run.mutable_deployment()->set_num_clones(3);
  EXPECT_EQ(ReplicaBatchExamples(run), 60u);
  const v1::RunConfig per_clone = SharedByAllTasks(run);
  run.set_replica_batch_size(64);
  EXPECT_EQ(ReplicaBatchExamples(run), 64u);
  EXPECT_EQ(FirstDifference(per_clone, SharedByAllTasks(run))->field, "replica_batch_size");
}

TEST(RunConfigTest, DevicesDecideTheNumberOfClones) {
  v1::RunConfig run;
  run.mutable_deployment()->set_devices("/cpu:0,/cpu:1,/cpu:2");
  ResolveDefaults(TaskCounts(), &run);
  EXPECT_EQ(run.deployment().num_clones(), 3u);
}

TEST(RunConfigTest, TheFirstDifferenceOfWhatAllMustShareIsNamed) {
  v1::RunConfig run;
  run.mutable_model()->set_name("mlp");
  ResolveDefaults(kTrainTaskCounts, &run);
  const auto difference = [&run](void (*change)(v1::RunConfig*)) {
    v1::RunConfig other = run;
    change(&other);
    const std::optional<RunDifference> found =
        FirstDifference(SharedByAllTasks(run), SharedByAllTasks(other));
    return !found ? "" : absl::StrCat(found->field, ": ", found->first, " -> ", found->second);
  };
  EXPECT_EQ(difference([](v1::RunConfig* other) {
              other->set_out("/tmp/x");
              other->set_num_epochs(9);
              other->mutable_deployment()->set_replica_id(1);
              other->mutable_deployment()->set_num_replicas(7);
              other->mutable_data()->set_directory("/data");
            }),
            "");
  EXPECT_EQ(difference([](v1::RunConfig* other) { other->set_batch_size(65); }),
            "batch_size: 64 -> 65");
  EXPECT_EQ(
      difference([](v1::RunConfig* other) { other->mutable_optimizer()->set_learning_rate(0.5); }),
      "optimizer.learning_rate: 0.01 -> 0.5");
  EXPECT_EQ(
      difference([](v1::RunConfig* other) { other->mutable_sync()->set_sync_replicas(false); }),
      "sync.sync_replicas: true -> false");
  EXPECT_EQ(difference([](v1::RunConfig* other) { other->set_compute_dtype("bfloat16"); }),
            "compute_dtype: unset -> \"bfloat16\"");
  EXPECT_EQ(
      difference([](v1::RunConfig* other) { other->mutable_cluster()->set_slice_bytes(4096); }),
      "cluster.slice_bytes: 262144 -> 4096");
}

TEST(RunConfigTest, EveryKnownOptimizerCanBeSelected) {
  for (const std::string& name : KnownOptimizers()) {
    v1::OptimizerConfig optimizer;
    ASSERT_TRUE(SelectOptimizer(name, &optimizer).ok()) << name;
    EXPECT_EQ(OptimizerName(optimizer), name == "nesterov" ? "momentum" : name);
  }
}

TEST(RunConfigTest, SelectingTheSelectedOptimizerKeepsItsParameters) {
  v1::OptimizerConfig optimizer;
  optimizer.mutable_adam()->set_beta1(0.5);
  ASSERT_TRUE(SelectOptimizer("adam", &optimizer).ok());
  EXPECT_EQ(optimizer.adam().beta1(), 0.5);
}

TEST(RunConfigTest, ARunOfAProgramIsCalledAsTheProgram) {
  v1::RunConfig run;
  run.mutable_deployment()->set_worker_binary("bin/my_network");
  MakePathsAbsolute("/home/me", &run);
  EXPECT_EQ(run.deployment().worker_binary(), "/home/me/bin/my_network");
  ResolveDefaults(TaskCounts(), &run);
  EXPECT_EQ(run.name(), "my_network");
  EXPECT_FALSE(run.model().has_width_multiplier() || !run.model().loss().empty());
}

TEST(RunConfigTest, ARunOfAComputeProgramHasNeitherModelNorData) {
  v1::RunConfig run;
  run.mutable_program()->set_file("bin/train.py");
  MakePathsAbsolute("/home/me", &run);
  EXPECT_EQ(run.program().file(), "/home/me/bin/train.py");
  ResolveDefaults(TaskCounts(), &run);
  EXPECT_EQ(run.name(), "train");
  EXPECT_EQ(run.data().directory(), "");
  EXPECT_EQ(run.model().loss(), "");
  run.mutable_deployment()->set_num_ps_tasks(0);
  EXPECT_EQ(NumPsProcesses(run), 0u);
}

TEST(RunConfigTest, AProgramOfItsOwnNeedsAPsProcess) {
  v1::RunConfig run;
  run.mutable_deployment()->set_num_ps_tasks(0);
  EXPECT_EQ(NumPsProcesses(run), 0u);
  run.mutable_deployment()->set_worker_binary("/a");
  EXPECT_EQ(NumPsProcesses(run), 1u);
  run.mutable_deployment()->set_num_ps_tasks(3);
  EXPECT_EQ(NumPsProcesses(run), 3u);
}

}  // namespace
}  // namespace shoal

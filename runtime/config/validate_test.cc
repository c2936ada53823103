// Tests every kind of invalid run: the flags that make it, and the line that the user gets.
#include "runtime/config/validate.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "proto/v1/run_config.pb.h"
#include "runtime/config/flags.h"
#include "runtime/config/run_config.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;

// Returns the result of a command line, processed as in `shoal train`.
absl::Status Check(const std::vector<std::string>& args) {
  std::vector<std::string> all = {"--set=model.name=mlp", "--set=num_epochs=1"};
  all.insert(all.end(), args.begin(), args.end());
  absl::StatusOr<CommandLine> line = ParseCommandLine(kScopeTrain, all);
  if (!line.ok()) return line.status();
  ResolveDefaults(kTrainTaskCounts, &line->run);
  return ValidateRunConfig(line->run);
}

struct BadRun {
  std::vector<std::string> args;
  std::string message;  // Begins with this.
};

const std::vector<BadRun>& BadRuns() {
  static const auto& runs = *new std::vector<BadRun>{
      // The start.
      {{"--init_map=a=b"}, "init_map: has no meaning without init_from"},
      {{"--init_from=/m.safetensors", "--init_map=a"}, "init_map: \"a\" is not EXPRESSION=NAME"},
      {{"--init_state"}, "init_state: has no meaning without init_from; give --init_from the"},
      {{"--trainable=a("}, "trainable: \"a(\" is not a regular expression"},
      // Metrics.
      {{"--metrics=f1"}, "metrics: unknown metric \"f1\"; known are log_loss, mean_absolute_error"},
      {{"--metrics=top_1_accuracy"}, "metrics: unknown metric \"top_1_accuracy\""},
      {{"--metrics=top_05_accuracy"}, "metrics: unknown metric \"top_05_accuracy\""},
      {{"--metrics=log_loss,log_loss"}, "metrics: has log_loss twice"},
      // Tasks.
      {{"--num_ps_tasks=0", "--num_replicas=2"},
       "num_ps_tasks: When using replicas num_ps_tasks must be positive: num_replicas is 2"},
      {{"--set=deployment.replica_id=2"},
       "replica_id: replica_id must be less than num_replicas: replica_id is 2, num_replicas is 2"},
      {{"--num_replicas=0"}, "num_replicas: must be 1 to 4096, is 0"},
      {{"--num_replicas=5000"}, "num_replicas: must be 1 to 4096, is 5000"},
      {{"--num_ps_tasks=5000"}, "num_ps_tasks: must be 0 to 4096, is 5000"},
      {{"--num_clones=0"}, "num_clones: must be 1 to 64, is 0"},
      {{"--num_clones=65"}, "num_clones: must be 1 to 64, is 65"},
      {{"--threads=1000"}, "threads: must be 1 to 256, is 1000"},
      {{"--worker_job_name=a b"}, "worker_job_name: \"a b\" must be"},
      {{"--ps_job_name=/x"}, "ps_job_name: \"/x\" must be"},
      {{"--ps_job_name=worker"}, "ps_job_name: \"worker\" is worker_job_name as well"},
      {{"--name=../x"}, "name: \"../x\" must be"},
      // Devices.
      {{"--devices=cpu0"}, "devices: \"cpu0\" is not a device; write /cpu:0"},
      {{"--devices=/tpu:0"}, "devices: \"/tpu:0\" is not a device"},
      {{"--devices=/cpu:x"}, "devices: \"/cpu:x\" is not a device"},
      {{"--devices=/cpu:0,,/cpu:1"}, "devices: \"\" is not a device"},
      {{"--devices=/cpu:0,/cpu:0"}, "devices: /cpu:0 is named twice"},
      {{"--devices=/cpu:0,/cpu:1", "--num_clones=3"},
       "devices: names 2 devices, but num_clones is 3"},
      {{"--devices=/gpu:0", "--clone_on_cpu"}, "devices: /gpu:0 contradicts clone_on_cpu"},
      {{"--variables=ps"}, "variables: \"ps\" must be cpu, first_device or mirrored"},
      {{"--compute_dtype=float16"}, "compute_dtype: \"float16\" must be float32 or bfloat16"},
      {{"--variables=mirrored"}, "variables: is mirrored, but num_ps_tasks is 2"},
      // Length and size.
      {{"--replica_batch_size=2", "--num_clones=3"}, "replica_batch_size: must be 3 to 67108864"},
      {{"--batch_size=0"}, "batch_size: must be 1 to 1048576, is 0"},
      {{"--batch_size=2000000"}, "batch_size: must be 1 to 1048576, is 2000000"},
      {{"--num_epochs=0"}, "num_epochs: and max_steps are both 0, so there is nothing to train"},
      {{"--num_epochs=1000001"}, "num_epochs: must be 0 to 1000000"},
      {{"--max_steps=18446744073709551615"}, "max_steps: must be 0 to"},
      // Synchronisation.
      {{"--replicas_to_aggregate=4097"}, "replicas_to_aggregate: must be 1 to 4096, is 4097"},
      {{"--max_staleness=3"}, "max_staleness: is 3, but nothing is stale in synchronous training"},
      {{"--nosync_replicas", "--max_staleness=-2"},
       "max_staleness: must be -1 (unlimited) or more, is -2"},
      {{"--clock_bound=0"}, "clock_bound: is 0, but synchronous training has one clock for all"},
      {{"--nosync_replicas", "--clock_bound=-3"},
       "clock_bound: must be -1 (no bound) or more, is -3"},
      // Cluster and checkpoints.
      {{"--slice_bytes=1000"}, "cluster.slice_bytes: must be a multiple of 64, is 1000"},
      {{"--slice_bytes=8388608"}, "cluster.slice_bytes: must be 64 to 4194304, is 8388608"},
      {{"--set=cluster.lease_seconds=1"}, "cluster.lease_seconds: must be 2 to 3600, is 1"},
      {{"--ps_threads=65"}, "cluster.ps_threads: must be 0 to 64"},
      {{"--stall_seconds=100000"}, "cluster.stall_seconds: must be 1 to 86400"},
      {{"--set=cluster.wait_seconds=100000"}, "cluster.wait_seconds: must be 1 to 86400"},
      {{"--ps_memory=2048"},
       "cluster.ps_memory: is in bytes and must be 0 or at least 67108864, is 2048"},
      {{"--ps_return_seconds=100000"}, "cluster.ps_return_seconds: must be 1 to 86400"},
      {{"--save_seconds=1000001"}, "checkpoint.save_seconds: must be 0 to 1000000"},
      {{"--grace_seconds=100000"}, "cluster.grace_seconds: must be 1 to 86400, is 100000"},
      {{"--set=cluster.max_worker_restarts=2000"},
       "cluster.max_worker_restarts: must be 0 to 1000"},
      {{"--resume=maybe"},
       "resume: \"maybe\" must be auto, never or must; the run that it resumes is that of --out"},
      {{"--set=checkpoint.keep=2000000"}, "checkpoint.keep: must be 1 to 1000000"},
      // Model.
      {{"--set=model.name="}, "model: is not given; name a run file with --run=FILE"},
      {{"--model=alexnet"}, "model.name: \"alexnet\" is unknown; it is one of fashion_cnn"},
      {{"--model=fashion_cn"},
       absl::StrCat("model.name: \"fashion_cn\" is unknown; it is one of ",
                    absl::StrJoin(KnownModels(), ", "), "; did you mean fashion_cnn?")},
      {{"--worker_binary=/a/b"},
       "worker_binary: is /a/b, which has a model of its own, but the run says model or loss too"},
      {{"--loss=l2"}, "model.loss: \"l2\" is unknown; it is one of sparse_softmax"},
      {{"--set=model.weight_decay=-1"}, "model.weight_decay: must be a finite number >= 0, is -1"},
      {{"--model=mobilenet_v2", "--set=model.width_multiplier=20"},
       "model.width_multiplier: must be a number above 0 and at most 16, is 20"},
      {{"--model=mobilenet_v2_dense", "--set=model.width_multiplier=0"},
       "model.width_multiplier: must be a number above 0 and at most 16, is 0"},
      {{"--model=mlp", "--set=model.width_multiplier=0.5"},
       "model.width_multiplier: is for the mobilenet_v2 models only; drop it"},
      {{"--set=model.name=", "--set=model=layer { }"}, "model.layer[0]: has no kind; write dense"},
      {{"--set=model.name=", "--set=model=layer { dropout { rate: 1 } }"},
       "model.layer[0].dropout.rate: must be in [0, 1), is 1"},
      {{"--set=model.name=", "--set=model=layer { embedding { units: 3 } }"},
       "model.layer[0].embedding.rows: must be 1 to"},
      {{"--set=model.name=", "--set=model=layer { reshape { shape: [-1, -1] } }"},
       "model.layer[0].reshape.shape: leaves more than one size open (-1)"},
      {{"--set=model.name=", "--set=model=layer { dense { } }"},
       "model.layer[0].dense.units: must be 1 to"},
      {{"--set=model.name=", "--set=model=layer { convolution { channels: 3 } }"},
       "model.layer[0].convolution.kernel: must be 1 to"},
      {{"--set=model.name=", "--set=model=layer { pool { } }"},
       "model.layer[0].pool.kernel: must be 1 to"},
      {{"--set=model.name=", "--set=model=layer { batch_norm { decay: 1.5 } }"},
       "model.layer[0].batch_norm.decay: must be at least 0 and less than 1, is 1.5"},
      {{"--set=model.name=", "--set=model=layer { batch_norm { epsilon: 0 } }"},
       "model.layer[0].batch_norm.epsilon: must be a finite number above 0"},
      {{"--set=model.name=",
        "--set=model=layer { name: 'a' flatten {} } layer { name: 'a' flatten {} }"},
       "model.layer[1].name: \"a\" is used twice"},
      {{"--set=model.name=", "--set=model=layer { input: 'z' flatten {} }"},
       "model.layer[0].input: \"z\" is not a layer above this one; name one of those or \"input\", "
       "or "
       "list the data's field in model.input"},
      {{"--set=model=layer { flatten {} }"}, "model.name: is \"mlp\", but layers are listed too"},
      // Data.
      {{"--set=data.classes=1"}, "data.classes: must be 2 to 1048576, is 1"},
      {{"--data_dir=/d", "--set=data.format=csv", "--set=data.classes=1"},
       "data.classes: must be 2 to 1048576, is 1"},
      {{"--set=data.image.channels=2"},
       "data.image.channels: must be 1 (grey), 3 (RGB) or 0 (as the images are), is 2"},
      {{"--set=data.image.height=28"}, "data.image.width: is not given, but the other side is"},
      {{"--set=data.image.width=28"}, "data.image.height: is not given, but the other side is"},
      {{"--set=data.image.crop=99999"}, "data.image.crop: must be 0 to 16384, is 99999"},
      {{"--set=data.image.mean=nan"}, "data.image.mean: must be finite numbers"},
      {{"--set=data.image.stddev=0"}, "data.image.stddev: must be a finite number above 0, is 0"},
      {{"--set=data.augment.pad=99999"}, "data.augment.pad: must be 0 to 16384, is 99999"},
      {{"--set=data.clicks.scale=-1"}, "data.clicks.scale: -1 must be above 0 and at most 1000"},
      {{"--set=data.clicks.days=10001"}, "data.clicks.days: must be 0 to 10000, is 10001"},
      {{"--set=data.clicks.multi_hot=1001"}, "data.clicks.multi_hot: must be 0 to 1000, is 1001"},
      {{"--set=data.decode_threads=1000"}, "data.decode_threads: must be 0 to 256, is 1000"},
      {{"--set=data.csv.delimiter=ab"}, "data.csv.delimiter: \"ab\" must be one character"},
      {{"--set=data.csv.delimiter=-"}, "data.csv.delimiter: \"-\" must be one character"},
      {{"--set=data.format=csv"}, "data.directory: is empty; give --data_dir=DIR"},
      {{"--set=data.evaluation_block=99999999"}, "data.evaluation_block: must be 1 to"},
      // Optimizer.
      {{"--learning_rate=nan"}, "learning_rate: must be a finite number above 0, is nan"},
      {{"--learning_rate=inf"}, "learning_rate: must be a finite number above 0, is inf"},
      {{"--learning_rate=-0.1"}, "learning_rate: must be a finite number above 0, is -0.1"},
      {{"--learning_rate=0"}, "learning_rate: must be a finite number above 0, is 0"},
      {{"--set=optimizer.clip_by_value=-1"},
       "optimizer.clip_by_value: must be a finite number >= 0"},
      {{"--set=optimizer.clip_by_global_norm=nan"},
       "optimizer.clip_by_global_norm: must be a finite number >= 0, is nan"},
      {{"--set=optimizer.moving_average_decay=1"},
       "optimizer.moving_average_decay: must be at least 0 and less than 1, is 1"},
      {{"--set=optimizer.momentum.momentum=1"},
       "optimizer.momentum.momentum: must be at least 0 and less than 1, is 1"},
      {{"--set=optimizer.adam.beta1=-0.1"}, "optimizer.adam.beta1: must be at least 0"},
      {{"--set=optimizer.adam.beta2=1"},
       "optimizer.adam.beta2: must be at least 0 and less than 1"},
      {{"--set=optimizer.adam.epsilon=0"},
       "optimizer.adam.epsilon: must be a finite number above 0 as a float, is 0"},
      {{"--set=optimizer.adam.epsilon=1e-60"},
       "optimizer.adam.epsilon: must be a finite number above 0 as a float, is 1e-60"},
      {{"--set=optimizer.adamw.beta1=2"}, "optimizer.adamw.beta1: must be at least 0"},
      {{"--set=optimizer.adagrad.initial_accumulator=0"},
       "optimizer.adagrad.initial_accumulator: must be a finite number above 0"},
      {{"--set=optimizer.schedule=kind: KIND_STEP boundary: 0 value: 0.1"},
       "optimizer.schedule.boundary: must be larger than 0"},
      {{"--set=optimizer.schedule=kind: KIND_EXPONENTIAL rate: 2"},
       "optimizer.schedule.rate: must be in (0, 1], is 2"},
      {{"--set=optimizer.adam.weight_decay=0.1"}, "optimizer.adam.weight_decay: belongs to adamw"},
      {{"--set=optimizer.rmsprop.decay=2"}, "optimizer.rmsprop.decay: must be at least 0"},
      {{"--set=optimizer.adadelta.rho=1"}, "optimizer.adadelta.rho: must be at least 0"},
      {{"--set=optimizer.adagrad.initial_accumulator=-1"},
       "optimizer.adagrad.initial_accumulator: must be a finite number >= 0"},
      {{"--set=optimizer.ftrl.learning_rate_power=1"},
       "optimizer.ftrl.learning_rate_power: must be 0 or less, is 1"},
      {{"--set=optimizer.ftrl.l1=-1"}, "optimizer.ftrl.l1: must be a finite number >= 0"},
      {{"--set=optimizer.schedule.kind=step"},
       "optimizer.schedule.boundary: has 0 entries and value has 0"},
      {{"--set=optimizer.schedule=kind: KIND_STEP boundary: [5, 5] value: [1, 1]"},
       "optimizer.schedule.boundary: must be larger than 0 and than the boundary before it, is 5"},
      {{"--set=optimizer.schedule=kind: KIND_STEP boundary: 5 value: -1"},
       "optimizer.schedule.value: must be a finite number >= 0"},
      {{"--set=optimizer.schedule=kind: KIND_POLYNOMIAL power: 0"},
       "optimizer.schedule.power: must be a finite number above 0"},
      {{"--set=optimizer=group { variables: 'a(' }"},
       "optimizer.group[0].variables: \"a(\" is not a regular expression"},
      {{"--set=optimizer=group { frozen: true }"}, "optimizer.group[0].variables: is empty"},
      {{"--set=optimizer=group { variables: 'a' } group { variables: 'b' learning_rate: -1 }"},
       "optimizer.group[1].learning_rate: must be a finite number >= 0, is -1"},
      {{"--set=optimizer=group { variables: 'a' learning_rate_multiplier: nan }"},
       "optimizer.group[0].learning_rate_multiplier: must be a finite number >= 0, is nan"},
      {{"--set=optimizer=group { variables: 'a' learning_rate_multiplier: 1e300 }"},
       "optimizer.group[0].learning_rate_multiplier: must be a finite number as a float"},
      {{"--set=optimizer=group { variables: 'a' learning_rate: 1 learning_rate_multiplier: 1 }"},
       "optimizer.group[0].learning_rate_multiplier: is given with learning_rate; drop one"},
      {{"--set=optimizer=group { variables: 'a' frozen: true learning_rate: 1 }"},
       "optimizer.group[0].frozen: contradicts learning_rate"},
      {{"--set=optimizer=group { variables: 'a' frozen: true weight_decay: 0 }"},
       "optimizer.group[0].frozen: contradicts weight_decay"},
      {{"--set=optimizer=group { variables: 'a' weight_decay: -0.1 }"},
       "optimizer.group[0].weight_decay: must be a finite number >= 0, is -0.1"},
      {{"--optimizer=ftrl", "--set=optimizer=group { variables: 'a' weight_decay: 0.1 }"},
       "optimizer.group[0].weight_decay: is not for ftrl; use optimizer.ftrl.l2"},
      {{"--set=model.weight_decay=1", "--set=optimizer=group { variables: 'a' weight_decay: 0 }"},
       "optimizer.group[0].weight_decay: would be added to the model's weight_decay"},
      {{"--set=optimizer.group[0].frozen=true"},
       "--set optimizer.group[0].frozen: group is an "
       "empty list, so it has no group[0]"},
      {{"--set=optimizer.schedule=kind: KIND_COSINE end: -1"},
       "optimizer.schedule.end: must be a finite number >= 0"},
  };
  return runs;
}

TEST(ValidateTest, EveryKindOfBadRunIsRefusedWithItsFieldAndRemedy) {
  EXPECT_GE(BadRuns().size(), 45u);
  for (const BadRun& bad : BadRuns()) {
    const absl::Status status = Check(bad.args);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bad.args.back();
    EXPECT_THAT(std::string(status.message()), ::testing::StartsWith(bad.message))
        << bad.args.back();
    EXPECT_EQ(status.message().find('\n'), absl::string_view::npos) << bad.args.back();
  }
}

TEST(ValidateTest, GoodRunsPass) {
  const std::vector<std::vector<std::string>> good = {
      {},
      {"--num_ps_tasks=0"},
      {"--num_ps_tasks=1", "--num_replicas=1"},
      {"--num_ps_tasks=3", "--num_replicas=4", "--nosync_replicas", "--max_staleness=0"},
      {"--nosync_replicas", "--clock_bound=0"},
      {"--sync_replicas", "--max_staleness=-1"},
      {"--replicas_to_aggregate=5"},
      {"--devices=/cpu:0,/device:CPU:1,/job:worker/task:0/device:GPU:0"},
      {"--slice_bytes=4096", "--optimizer=nesterov", "--learning_rate=0.5"},
      {"--set=optimizer.adamw.weight_decay=0.01"},
      {"--set=optimizer.rmsprop.centered=true"},
      {"--set=optimizer=group { variables: 'a' } group { variables: 'b' learning_rate: 0 }"},
      {"--optimizer=adamw", "--set=model.weight_decay=0.1",
       "--set=optimizer=group { variables: '.*b' weight_decay: 0 learning_rate_multiplier: 2 }"},
      {"--set=optimizer.schedule=kind: KIND_STEP boundary: [5, 9] value: [0.1, 0]"},
      {"--set=optimizer.schedule=kind: KIND_POLYNOMIAL decay_steps: 9 cycle: true"},
      {"--set=model.name=",
       "--set=model=layer { name: 'a' dense { units: 3 } } layer { input: 'a' input: 'input' "
       "activation { kind: ACTIVATION_KIND_RELU } }"},
      {"--set=data.format=synthetic_regression", "--set=data.train_examples=10",
       "--set=data.features=4", "--model=seed_mlp"},
      {"--set=model.name=",
       "--set=model=input: 'x' input: 'z' layer { flatten {} } layer { input: 'z' flatten {} }"},
      {"--data_format=clicks_synthetic", "--set=data.clicks.scale=0.001",
       "--set=data.clicks.multi_hot=5"}};
  for (const std::vector<std::string>& args : good) {
    EXPECT_EQ(Check(args), absl::OkStatus()) << (args.empty() ? "" : args[0]);
  }
}

// Returns the message for a run with these tables and features and two layers.
std::string CheckTables(const std::string& tables, const std::string& features,
                        const std::string& layers = "") {
  const std::string text =
      absl::StrCat(tables, " model { ", features, " layer { interaction { dot {} } } ", layers,
                   " layer { dense { units: 1 } } loss: 'sigmoid_cross_entropy' } num_epochs: 1");
  absl::StatusOr<v1::RunConfig> run = ParseRunConfig(text, "run");
  if (!run.ok()) return std::string(run.status().message());
  ResolveDefaults(TaskCounts(), &*run);
  return std::string(ValidateRunConfig(*run).message());
}

TEST(ValidateTest, AFeatureNamesEachColumnOfIds) {
  const auto check = [](const std::string& column, const std::string& ids) {
    return CheckTables(absl::StrCat("data { format: FORMAT_CSV directory: 'd' ", ids,
                                    " } table { name: '*' dim: 4 }"),
                       absl::StrCat("feature { column: '", column, "' table: 't' }"));
  };
  EXPECT_EQ(check("user", "ids { column: 'user' }"), "");
  EXPECT_EQ(check("u*", "ids { column: 'user' } ids { column: 'u2' }"), "");
  EXPECT_EQ(check("c1", "ids { column: 'c*' }"), "");
  EXPECT_EQ(check("c1*", "ids { column: 'c*' }"), "");
  EXPECT_EQ(check("who", "ids { column: '3' name: 'who' }"), "");
  EXPECT_EQ(check("user", "ids { column: 'user' } ids { column: 'usr' }"),
            "data.ids[1]: \"usr\" is named by no feature; one has column: \"user\"; drop it, or "
            "add model { "
            "feature { column: \"usr\" table: \"TABLE\" } }");
  EXPECT_EQ(check("user*", "ids { column: 'c*' } ids { column: 'user1' }").substr(0, 37),
            "data.ids[0]: \"c*\" is named by no feat");
}

TEST(ValidateTest, TablesAndFeaturesFitEachOther) {
  const std::string item = "table { name: 'item' dim: 16 }";
  const std::string clicked = "feature { name: 'clicked' column: 'c1' table: 'item' }";
  EXPECT_EQ(CheckTables(item, clicked), "");
  EXPECT_EQ(CheckTables(item, clicked + "feature { column: 'c2' table: 'item' pooling: MEAN }"),
            "");
  EXPECT_EQ(CheckTables("table { name: '*' dim: 4 }", "feature { column: 'c*' table: '*' }",
                        "layer { input: 'c*' input: 'c1' concat {} }"),
            "");
  EXPECT_EQ(CheckTables("table { name: 'wide_*' dim: 1 } table { name: 'wide_c1' dim: 2 }",
                        "feature { name: 'w_*' column: '*' table: 'wide_*' }",
                        "layer { input: 'w_*' add {} }"),
            "");
  const struct {
    std::string tables, features, layers, message;
  } cases[] = {
      {item, "", "", "table[0]: \"item\" is named by no feature; drop it, or add model {"},
      {item + "table { name: 'user' dim: 4 }", clicked, "", "table[1]: \"user\" is named by no"},
      {item + "table { name: 'item' dim: 8 }", clicked, "",
       "table[1].name: \"item\" is that of table[0] too; keep one of them, with one dim: they are "
       "16 and 8"},
      {"table { name: 'item' }", clicked, "", "table[0].dim: must be 1 to 4096, is 0"},
      {"table { name: 'a/b' dim: 1 }", "", "", "table[0].name: \"a/b\" must be"},
      {"table { name: 'a*b' dim: 1 }", "", "", "table[0].name: \"a*b\" must be"},
      {item, "feature { column: 'c1' table: 'itme' }", "",
       "model.feature[0].table: \"itme\" is not a table of the run; did you mean item?; add table "
       "{"},
      {item, "feature { table: 'item' }", "", "model.feature[0].column: is empty; name the column"},
      {item, "feature { column: 'c1' }", "", "model.feature[0].table: is empty; name the table"},
      {item, clicked + clicked, "", "model.feature[1].name: \"clicked\" is the name of another"},
      {item, "feature { name: 'input' column: 'c1' table: 'item' }", "",
       "model.feature[0].name: \"input\" is the model's dense input"},
      {item, "feature { column: 'c*1' table: 'item' }", "",
       "model.feature[0].column: may have one '*'"},
      {item, "feature { column: 'c1' table: 'i*' }", "",
       "model.feature[0].table: \"i*\" has a '*', but the column has none"},
      {item, "feature { name: 'a' column: 'c*' table: 'item' }", "",
       "model.feature[0].name: \"a\" would be the name of many features"},
      {item, clicked, "layer { input: 'clickd' dense { units: 1 } }",
       "model.layer[1].input: \"clickd\" is not a layer above this one or a feature"},
      {item, clicked, "layer { interaction {} }", "model.layer[1].interaction: has no kind"},
      {item, clicked, "layer { interaction { cross { layers: 65 } } }",
       "model.layer[1].interaction.cross.layers: must be at most 64"},
  };
  for (const auto& c : cases) {
    EXPECT_THAT(CheckTables(c.tables, c.features, c.layers), testing::StartsWith(c.message));
  }
}

TEST(ValidateTest, AModelMayBeElsewhere) {
  v1::RunConfig run;
  run.set_num_epochs(1);
  ResolveDefaults(TaskCounts(), &run);
  EXPECT_FALSE(ValidateRunConfig(run).ok());
  EXPECT_EQ(ValidateRunConfig(run, ModelFrom::kElsewhere), absl::OkStatus());
  run.mutable_deployment()->set_worker_binary("/a/b");
  EXPECT_EQ(ValidateRunConfig(run), absl::OkStatus());
  run.mutable_model()->set_name("no such model");
  EXPECT_FALSE(ValidateRunConfig(run, ModelFrom::kElsewhere).ok());
}

TEST(ValidateTest, AComputeProgramHasModelDataAndDevices) {
  const auto validate = [](const std::string& text) {
    v1::RunConfig run = *ParseRunConfig(text + " num_epochs: 1", "run");
    ResolveDefaults(TaskCounts(), &run);
    return std::string(ValidateRunConfig(run).message());
  };
  const std::string program = "program { file: '/a/train.py' } ";
  EXPECT_EQ(validate(program), "");
  EXPECT_EQ(validate(program + "data { evaluation_block: 50 }"), "");
  EXPECT_EQ(validate(program + "init_from: '/b'"), "");
  EXPECT_EQ(validate("program { file: '/a/train.py' python: 'python3.11' args: '-v' }"), "");
  const std::pair<std::string, std::string> cases[] = {
      {"program { python: 'python3' }", "program.file: is empty"},
      {"program { file: '/a/train' python: 'python3' }", "program.python: is python3"},
      {program + "model { name: 'mlp' }", "program: is /a/train.py, which has a model of its own"},
      {program + "deployment { worker_binary: '/b' }", "takes the place of worker_binary"},
      {program + "data { directory: '/b' }", "reads the data itself, but the run has data too"},
      {program + "data { format: FORMAT_CSV }", "reads the data itself"},
      {program + "data { train_examples: 100 }", "reads the data itself"},
      {program + "trainable: 'w'", "says what is frozen"},
      {program + "metrics: 'log_loss'", "declares its own metrics"},
      {program + "deployment { num_clones: 2 }", "chooses its devices"},
      {program + "deployment { devices: '/cpu:0' }", "chooses its devices"},
      {program + "compute_dtype: 'bfloat16'", "chooses its types"}};
  for (const auto& [text, why] : cases) EXPECT_THAT(validate(text), HasSubstr(why)) << text;
}

}  // namespace
}  // namespace shoal

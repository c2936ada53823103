#include "runtime/config/run_config.h"

#include <sys/stat.h>

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "google/protobuf/util/message_differencer.h"

#include "base/status_macros.h"
#include "ml/optim/learning_rate_schedule.h"
#include "ml/optim/optimizer_options.h"
#include "proto/v1/run_config.pb.h"
#include "runtime/config/nearest_name.h"
#include "runtime/config/text_proto.h"

namespace shoal {
namespace {

constexpr uint64_t kDefaultSliceBytes = 256 * 1024;
constexpr char kDefaultDataDirectory[] = "/usr/share/datasets/fashion-mnist";

// The model's, or that of the program which has it; "run" if that is no name.
std::string DefaultName(const v1::RunConfig& run) {
  if (!run.model().name().empty()) return run.model().name();
  const std::string& program = run.deployment().worker_binary();
  const std::string name = program.substr(program.rfind('/') + 1);
  const bool is_plain = std::all_of(name.begin(), name.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_';
  });
  return name.empty() || !is_plain ? "run" : name;
}

void ResolveDeployment(const TaskCounts& counts, v1::DeploymentOptions* deployment) {
  // No ps is one process: more replicas than one would then be the user's own, visible choice.
  const bool local = deployment->has_num_ps_tasks() && deployment->num_ps_tasks() == 0;
  if (!deployment->has_num_replicas()) {
    deployment->set_num_replicas(local ? 1 : counts.num_replicas);
  }
  if (!deployment->has_num_ps_tasks()) deployment->set_num_ps_tasks(counts.num_ps_tasks);
  if (!deployment->has_num_clones()) {
    const std::string& devices = deployment->devices();
    const auto commas = std::count(devices.begin(), devices.end(), ',');
    deployment->set_num_clones(devices.empty() ? 1 : static_cast<uint32_t>(commas) + 1);
  }
  if (deployment->worker_job_name().empty()) deployment->set_worker_job_name("worker");
  if (deployment->ps_job_name().empty()) deployment->set_ps_job_name("ps");
  if (deployment->threads() == 0) deployment->set_threads(1);
  if (!deployment->has_allow_soft_placement()) deployment->set_allow_soft_placement(true);
  if (deployment->variables().empty()) deployment->set_variables("cpu");
}

// replicas_to_aggregate and cluster.slice_bytes stay 0 where they were not given: the first start
// decides, its checkpoints keep them.
void ResolveSync(v1::SyncOptions* sync) {
  if (!sync->has_sync_replicas()) sync->set_sync_replicas(true);
  if (!sync->sync_replicas() && !sync->has_max_staleness()) sync->set_max_staleness(-1);
  if (!sync->sync_replicas() && !sync->has_clock_bound()) sync->set_clock_bound(-1);
}

void ResolveCheckpointAndCluster(v1::RunConfig* run) {
  v1::CheckpointOptions* checkpoint = run->mutable_checkpoint();
  if (checkpoint->keep() == 0) checkpoint->set_keep(3);
  if (!checkpoint->has_export_every()) checkpoint->set_export_every(1);
  if (checkpoint->resume().empty()) checkpoint->set_resume("auto");
  if (!checkpoint->has_save_seconds()) checkpoint->set_save_seconds(300);
  v1::ClusterOptions* cluster = run->mutable_cluster();
  if (cluster->lease_seconds() == 0) cluster->set_lease_seconds(10);
  if (cluster->wait_seconds() == 0) cluster->set_wait_seconds(300);
  if (cluster->stall_seconds() == 0) cluster->set_stall_seconds(120);
  if (cluster->grace_seconds() == 0) cluster->set_grace_seconds(10);
  if (cluster->ps_return_seconds() == 0) cluster->set_ps_return_seconds(30);
  if (!cluster->has_max_worker_restarts()) cluster->set_max_worker_restarts(3);
}

void ResolveModel(v1::ModelConfig* model) {
  const bool is_elsewhere = model->name().empty() && model->layer().empty();
  if (is_elsewhere || !model->loss().empty()) return;
  const bool regression = model->name() == "seed_mlp" || model->name() == "linear";
  model->set_loss(regression ? "mean_squared_error" : "sparse_softmax_cross_entropy");
}

void ResolveData(v1::DataConfig* data) {
  // What a directory holds is found out by those who read it.
  if (data->format() == v1::DataConfig::FORMAT_UNSPECIFIED && data->directory().empty()) {
    data->set_format(v1::DataConfig::FORMAT_IDX);
  }
  if (data->format() == v1::DataConfig::FORMAT_IDX && data->directory().empty()) {
    data->set_directory(kDefaultDataDirectory);
  }
  if (data->format() == v1::DataConfig::FORMAT_SYNTHETIC_REGRESSION ||
      data->format() == v1::DataConfig::FORMAT_SYNTHETIC_CLASSIFICATION) {
    if (data->train_examples() == 0) data->set_train_examples(10000);
    if (data->test_examples() == 0) data->set_test_examples(2000);
    if (data->features() == 0) data->set_features(600);
    if (data->classes() == 0) data->set_classes(10);
  }
  if (data->evaluation_block() == 0) data->set_evaluation_block(500);
}

template <typename Message, typename Value>
void Default(Message* message, bool has, void (Message::*set)(Value), Value value) {
  if (!has) (message->*set)(value);
}

void ResolveAdam(bool is_adamw, const OptimizerOptions& defaults, v1::AdamConfig* adam) {
  Default(adam, adam->has_beta1(), &v1::AdamConfig::set_beta1, defaults.beta1);
  Default(adam, adam->has_beta2(), &v1::AdamConfig::set_beta2, defaults.beta2);
  Default(adam, adam->has_epsilon(), &v1::AdamConfig::set_epsilon, defaults.adam_epsilon);
  if (!is_adamw) return;
  Default(adam, adam->has_weight_decay(), &v1::AdamConfig::set_weight_decay, defaults.weight_decay);
}

void ResolveRmsProp(const OptimizerOptions& defaults, v1::RmsPropConfig* rule) {
  using Rule = v1::RmsPropConfig;
  Default(rule, rule->has_decay(), &Rule::set_decay, defaults.rmsprop_decay);
  Default(rule, rule->has_momentum(), &Rule::set_momentum, defaults.rmsprop_momentum);
  Default(rule, rule->has_epsilon(), &Rule::set_epsilon, defaults.rmsprop_epsilon);
}

void ResolveFtrl(const OptimizerOptions& defaults, v1::FtrlConfig* rule) {
  using Rule = v1::FtrlConfig;
  Default(rule, rule->has_learning_rate_power(), &Rule::set_learning_rate_power,
          defaults.ftrl_learning_rate_power);
  Default(rule, rule->has_initial_accumulator(), &Rule::set_initial_accumulator,
          defaults.ftrl_initial_accumulator);
  Default(rule, rule->has_l1(), &Rule::set_l1, defaults.ftrl_l1);
  Default(rule, rule->has_l2(), &Rule::set_l2, defaults.ftrl_l2);
}

// The parameters of the rule, from the one table of their defaults.
void ResolveRule(v1::OptimizerConfig* optimizer) {
  const OptimizerOptions defaults;
  if (optimizer->has_momentum()) {
    v1::MomentumConfig* rule = optimizer->mutable_momentum();
    Default(rule, rule->has_momentum(), &v1::MomentumConfig::set_momentum, defaults.momentum);
  } else if (optimizer->has_adagrad()) {
    v1::AdagradConfig* rule = optimizer->mutable_adagrad();
    Default(rule, rule->has_initial_accumulator(), &v1::AdagradConfig::set_initial_accumulator,
            defaults.adagrad_initial_accumulator);
    Default(rule, rule->has_epsilon(), &v1::AdagradConfig::set_epsilon, defaults.adagrad_epsilon);
  } else if (optimizer->has_adadelta()) {
    v1::AdadeltaConfig* rule = optimizer->mutable_adadelta();
    Default(rule, rule->has_rho(), &v1::AdadeltaConfig::set_rho, defaults.adadelta_rho);
    Default(rule, rule->has_epsilon(), &v1::AdadeltaConfig::set_epsilon, defaults.adadelta_epsilon);
  } else if (optimizer->has_rmsprop()) {
    ResolveRmsProp(defaults, optimizer->mutable_rmsprop());
  } else if (optimizer->has_adam()) {
    ResolveAdam(false, defaults, optimizer->mutable_adam());
  } else if (optimizer->has_adamw()) {
    ResolveAdam(true, defaults, optimizer->mutable_adamw());
  } else if (optimizer->has_ftrl()) {
    ResolveFtrl(defaults, optimizer->mutable_ftrl());
  }
}

void ResolveOptimizer(v1::OptimizerConfig* optimizer) {
  if (optimizer->rule_case() == v1::OptimizerConfig::RULE_NOT_SET) optimizer->mutable_sgd();
  if (!optimizer->has_learning_rate()) {
    const bool adam = optimizer->has_adam() || optimizer->has_adamw();
    optimizer->set_learning_rate(adam ? 0.001 : 0.01);
  }
  v1::ScheduleConfig* schedule = optimizer->mutable_schedule();
  if (schedule->kind() == v1::ScheduleConfig::KIND_UNSPECIFIED) {
    schedule->set_kind(v1::ScheduleConfig::KIND_CONSTANT);
  }
  const LearningRateScheduleOptions defaults;
  if (schedule->kind() == v1::ScheduleConfig::KIND_EXPONENTIAL && schedule->rate() == 0) {
    schedule->set_rate(defaults.rate);
  }
  if (schedule->kind() == v1::ScheduleConfig::KIND_POLYNOMIAL && !schedule->has_power()) {
    schedule->set_power(defaults.power);
  }
  ResolveRule(optimizer);
}

}  // namespace

absl::StatusOr<v1::RunConfig> ParseRunConfig(absl::string_view text, absl::string_view file_name) {
  v1::RunConfig run;
  RETURN_IF_ERROR(ParseTextProto(text, file_name, &run));
  return run;
}

absl::StatusOr<v1::RunConfig> LoadRunConfig(const std::string& path) {
  struct stat info = {};
  if (stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) {
    const std::string inside = absl::StrCat(path, path.back() == '/' ? "" : "/", "run.textproto");
    const bool is_run = stat(inside.c_str(), &info) == 0 && S_ISREG(info.st_mode);
    return absl::InvalidArgumentError(absl::StrCat(
        "--run: ", path, " is a directory; ",
        is_run ? "that run's file is " + inside : std::string("name a run file in it")));
  }
  ASSIGN_OR_RETURN(const std::string text, ReadTextFile("--run", path));
  const bool is_text = std::none_of(text.begin(), text.end(), [](unsigned char c) {
    return absl::ascii_iscntrl(c) && !absl::ascii_isspace(c);
  });
  if (is_text) return ParseRunConfig(text, path);
  return absl::InvalidArgumentError(absl::StrCat(
      "--run: ", path, " is no text; name a run file, such as deploy/runs/fashion_cnn.textproto"));
}

std::string RunDirectoryOf(const std::string& run_file) {
  const size_t slash = run_file.rfind('/');
  const std::string name = slash == std::string::npos ? run_file : run_file.substr(slash + 1);
  if (name != "run.textproto") return "";
  const std::string directory = slash == std::string::npos ? "." : run_file.substr(0, slash);
  for (const char* inside : {"/logs", "/checkpoints"}) {
    struct stat info = {};
    if (stat((directory + inside).c_str(), &info) == 0 && S_ISDIR(info.st_mode)) {
      return directory.empty() ? "/" : directory;
    }
  }
  return "";
}

void MakePathsAbsolute(const std::string& working_directory, v1::RunConfig* run) {
  const auto absolute = [&](const std::string& path) {
    if (path.empty() || path[0] == '/') return path;
    return path == "." ? working_directory : absl::StrCat(working_directory, "/", path);
  };
  run->set_out(absolute(run->out()));
  if (!run->data().directory().empty()) {
    run->mutable_data()->set_directory(absolute(run->data().directory()));
  }
  if (!run->deployment().worker_binary().empty()) {
    run->mutable_deployment()->set_worker_binary(absolute(run->deployment().worker_binary()));
  }
}

std::string PrintRunConfig(const v1::RunConfig& run) {
  v1::RunConfig shown = run;
  shown.clear_out();
  return absl::StrCat(
      "# A run as resolved: every default is written out, and what is not here is 0, false or "
      "empty.\n# Its directory is the one that holds this file. Run it again with `shoal train "
      "--run=FILE`.\n# Fields and what 0 means: proto/v1/run_config.proto\n",
      PrintTextProto(shown));
}

void ResolveDefaults(const TaskCounts& counts, v1::RunConfig* run) {
  ResolveDeployment(counts, run->mutable_deployment());
  ResolveSync(run->mutable_sync());
  ResolveCheckpointAndCluster(run);
  ResolveModel(run->mutable_model());
  ResolveData(run->mutable_data());
  ResolveOptimizer(run->mutable_optimizer());
  if (run->name().empty()) run->set_name(DefaultName(*run));
  if (!run->has_batch_size()) run->set_batch_size(64);
  if (!run->has_seed()) run->set_seed(1);
  if (run->compute_dtype().empty()) run->set_compute_dtype("float32");
  if (!run->summary().has_scalars_every()) run->mutable_summary()->set_scalars_every(10);
}

uint32_t NumPsProcesses(const v1::RunConfig& run) {
  const uint32_t num_ps_tasks = run.deployment().num_ps_tasks();
  return run.deployment().worker_binary().empty() ? num_ps_tasks : std::max(1u, num_ps_tasks);
}

bool ComputesInBfloat16(const v1::RunConfig& run) { return run.compute_dtype() == "bfloat16"; }

uint64_t ReplicaBatchExamples(const v1::RunConfig& run) {
  if (run.replica_batch_size() > 0) return run.replica_batch_size();
  const v1::DeploymentOptions& deployment = run.deployment();
  return uint64_t{deployment.has_num_clones() ? deployment.num_clones() : 1} * run.batch_size();
}

absl::Status SelectOptimizer(absl::string_view name, v1::OptimizerConfig* optimizer) {
  if (name == "sgd") {
    optimizer->mutable_sgd();
  } else if (name == "momentum") {
    optimizer->mutable_momentum();
  } else if (name == "nesterov") {
    optimizer->mutable_momentum()->set_nesterov(true);
  } else if (name == "adagrad") {
    optimizer->mutable_adagrad();
  } else if (name == "adadelta") {
    optimizer->mutable_adadelta();
  } else if (name == "rmsprop") {
    optimizer->mutable_rmsprop();
  } else if (name == "adam") {
    optimizer->mutable_adam();
  } else if (name == "adamw") {
    optimizer->mutable_adamw();
  } else if (name == "ftrl") {
    optimizer->mutable_ftrl();
  } else {
    return absl::InvalidArgumentError(
        absl::StrCat("optimizer: \"", name, "\" is unknown; it is one of ",
                     absl::StrJoin(KnownOptimizers(), ", "), DidYouMean(name, KnownOptimizers())));
  }
  return absl::OkStatus();
}

std::string OptimizerName(const v1::OptimizerConfig& optimizer) {
  const google::protobuf::OneofDescriptor* rule =
      v1::OptimizerConfig::descriptor()->FindOneofByName("rule");
  const google::protobuf::FieldDescriptor* field =
      optimizer.GetReflection()->GetOneofFieldDescriptor(optimizer, rule);
  return field == nullptr ? "" : field->name();
}

const std::vector<std::string>& KnownOptimizers() {
  static const auto& names = *new std::vector<std::string>{
      "sgd", "momentum", "nesterov", "adagrad", "adadelta", "rmsprop", "adam", "adamw", "ftrl"};
  return names;
}

const std::vector<std::string>& KnownModels() {
  static const auto& names = *new std::vector<std::string>{
      "fashion_cnn",        "lenet5",          "mlp",          "seed_mlp",
      "softmax_regression", "linear",          "cifar10_cnn",  "vgg16",
      "speech_conv",        "cnn_trad_fpool3", "mobilenet_v2", "mobilenet_v2_dense",
      "resnet18",           "resnet50"};
  return names;
}

const std::vector<std::string>& KnownLosses() {
  static const auto& names = *new std::vector<std::string>{"sparse_softmax_cross_entropy",
                                                           "softmax_cross_entropy",
                                                           "sigmoid_cross_entropy",
                                                           "log_loss",
                                                           "mean_squared_error",
                                                           "absolute_difference",
                                                           "hinge",
                                                           "huber",
                                                           "cosine_distance"};
  return names;
}

v1::RunConfig SharedByAllTasks(const v1::RunConfig& run) {
  v1::RunConfig shared;
  *shared.mutable_model() = run.model();
  *shared.mutable_data() = run.data();
  shared.mutable_data()->clear_directory();
  shared.mutable_data()->clear_decode_threads();
  *shared.mutable_optimizer() = run.optimizer();
  shared.mutable_deployment()->set_num_clones(run.deployment().num_clones());
  shared.mutable_sync()->set_sync_replicas(run.sync().sync_replicas());
  shared.mutable_cluster()->set_slice_bytes(
      run.cluster().slice_bytes() == 0 ? kDefaultSliceBytes : run.cluster().slice_bytes());
  shared.mutable_cluster()->set_round_robin(run.cluster().round_robin());
  shared.set_batch_size(run.batch_size());
  shared.set_replica_batch_size(run.replica_batch_size());
  shared.set_seed(run.seed());
  if (ComputesInBfloat16(run)) shared.set_compute_dtype(run.compute_dtype());
  return shared;
}

std::optional<RunDifference> FirstDifference(const v1::RunConfig& first,
                                             const v1::RunConfig& second) {
  std::string report;
  google::protobuf::util::MessageDifferencer differencer;
  differencer.ReportDifferencesToString(&report);
  if (differencer.Compare(first, second)) return std::nullopt;
  // "modified: batch_size: 64 -> 32", or "added" or "deleted" and one value.
  const std::vector<std::string> parts =
      absl::StrSplit(report.substr(0, report.find('\n')), absl::MaxSplits(": ", 2));
  if (parts.size() < 3) return RunDifference{report, "", ""};
  if (parts[0] == "added") return RunDifference{parts[1], "unset", parts[2]};
  if (parts[0] == "deleted") return RunDifference{parts[1], parts[2], "unset"};
  const std::vector<std::string> values = absl::StrSplit(parts[2], absl::MaxSplits(" -> ", 1));
  return RunDifference{parts[1], values.front(), values.back()};
}

}  // namespace shoal

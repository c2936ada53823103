#include "runtime/config/run_config.h"

#include <algorithm>
#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "google/protobuf/text_format.h"
#include "google/protobuf/util/message_differencer.h"

#include "base/file_system.h"
#include "base/find_file.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "ml/data/data_defaults.h"
#include "ml/nn/loss_names.h"
#include "ml/nn/zoo_layers.h"
#include "ml/optim/optimizer_config.h"
#include "ml/optim/optimizer_options.h"
#include "proto/v1/run_config.pb.h"
#include "runtime/config/nearest_name.h"
#include "runtime/config/text_proto.h"

namespace shoal {
namespace {

// The model's name, or that of the worker program; "run" if that is not a valid name.
std::string DefaultName(const v1::RunConfig& run) {
  if (!run.model().name().empty()) return run.model().name();
  const std::string& program =
      run.program().file().empty() ? run.deployment().worker_binary() : run.program().file();
  absl::string_view name = absl::string_view(program).substr(program.rfind('/') + 1);
  absl::ConsumeSuffix(&name, ".py");
  const bool is_plain = std::all_of(name.begin(), name.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_';
  });
  return name.empty() || !is_plain ? "run" : std::string(name);
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
}

// replicas_to_aggregate and cluster.slice_bytes stay 0 where they were not given: the first start
// decides, its checkpoints keep them.
void ResolveSync(v1::RunConfig* run) {
  if (run->sync().sync_replicas()) return;
  SetFieldDefault("sync.max_staleness", run);
  SetFieldDefault("sync.clock_bound", run);
}

void ResolveModel(v1::ModelConfig* model) {
  const bool is_elsewhere = model->name().empty() && model->layer().empty();
  if (is_elsewhere || !model->loss().empty()) return;
  const zoo::Model* named = zoo::Find(model->name());
  model->set_loss(std::string(named == nullptr ? kDefaultLoss : named->loss()));
}

// Gives a model of clicks, if it has no features, those of its name, and their tables.
void ResolveFeatures(v1::RunConfig* run) {
  const zoo::Model* named = zoo::Find(run->model().name());
  if (named == nullptr || named->features == nullptr || run->model().feature_size() > 0) return;
  v1::RunConfig defaults;
  const std::string text = absl::StrCat("model { ", named->features, "} ", named->tables);
  CHECK(google::protobuf::TextFormat::ParseFromString(text, &defaults)) << text;
  *run->mutable_model()->mutable_feature() = defaults.model().feature();
  if (run->table_size() == 0) *run->mutable_table() = defaults.table();
}

void ResolveOptimizer(v1::OptimizerConfig* optimizer) {
  if (optimizer->rule_case() == v1::OptimizerConfig::RULE_NOT_SET) optimizer->mutable_sgd();
  if (!optimizer->has_learning_rate()) {
    const bool adam = optimizer->has_adam() || optimizer->has_adamw();
    optimizer->set_learning_rate(adam ? kDefaultAdamLearningRate : kDefaultLearningRate);
  }
  ResolveScheduleDefaults(optimizer->mutable_schedule());
  ResolveRuleDefaults(optimizer);
}

// Returns the name of the other language that the text looks like, or "".
std::string FindOtherLanguage(absl::string_view text) {
  bool is_first = true;
  bool opens_block = false;  // The line before ends with a colon.
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const absl::string_view words = absl::StripAsciiWhitespace(line);
    if (words.empty() || words[0] == '#') continue;
    if (is_first && words[0] == '{') return "JSON";
    if (is_first && words[0] == '[') return "TOML";
    if (words == "---" || absl::StartsWith(words, "- ")) return "YAML";
    if (opens_block && line[0] == ' ') return "YAML";
    is_first = false;
    opens_block = words.back() == ':';
  }
  return "";
}

}  // namespace

absl::StatusOr<v1::RunConfig> ParseRunConfig(absl::string_view text, absl::string_view file_name) {
  v1::RunConfig run;
  const absl::Status parsed = ParseTextProto(text, file_name, &run);
  if (parsed.ok()) return run;
  const std::string language = FindOtherLanguage(text);
  if (language.empty()) return parsed;
  return absl::InvalidArgumentError(
      absl::StrCat(file_name, ": looks like ", language,
                   ", but a run file is a text proto; write it as batch_size: 64 model { name: "
                   "\"mlp\" }, as those in deploy/runs"));
}

absl::StatusOr<v1::RunConfig> LoadRunConfig(const std::string& path) {
  const std::unique_ptr<FileSystem> files = NewPosixFileSystem();
  // If nobody can see now what the path is, it cannot be read either, and the error says why.
  if (IsDirectory(*files, path).value_or(false)) {
    const std::string inside = absl::StrCat(path, path.back() == '/' ? "" : "/", "run.textproto");
    const std::optional<FileInfo> found = FindFile(*files, inside).value_or(std::nullopt);
    const bool is_run = found.has_value() && !found->is_directory;
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
      "--run: ", path, " is not text; name a run file, such as deploy/runs/fashion_cnn.textproto"));
}

absl::StatusOr<std::string> FindRunDirectory(const std::string& run_file) {
  const size_t slash = run_file.rfind('/');
  const std::string name = slash == std::string::npos ? run_file : run_file.substr(slash + 1);
  if (name != "run.textproto") return "";
  const std::string directory = slash == std::string::npos ? "." : run_file.substr(0, slash);
  const std::unique_ptr<FileSystem> files = NewPosixFileSystem();
  for (const char* inside : {"/logs", "/checkpoints"}) {
    const absl::StatusOr<bool> is_run = IsDirectory(*files, directory + inside);
    if (!is_run.ok()) {
      return absl::Status(is_run.status().code(),
                          absl::StrCat("--run: ", is_run.status().message()));
    }
    if (*is_run) return directory.empty() ? "/" : directory;
  }
  return "";
}

void MakePathsAbsolute(const std::string& working_directory, v1::RunConfig* run) {
  const auto absolute = [&](const std::string& path) {
    if (path.empty() || path[0] == '/') return path;
    return path == "." ? working_directory : absl::StrCat(working_directory, "/", path);
  };
  run->set_out(absolute(run->out()));
  run->set_init_from(absolute(run->init_from()));
  if (!run->data().directory().empty()) {
    run->mutable_data()->set_directory(absolute(run->data().directory()));
  }
  if (!run->deployment().worker_binary().empty()) {
    run->mutable_deployment()->set_worker_binary(absolute(run->deployment().worker_binary()));
  }
  if (!run->program().file().empty()) {
    run->mutable_program()->set_file(absolute(run->program().file()));
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
  SetFieldDefaults(run);
  ResolveDeployment(counts, run->mutable_deployment());
  ResolveSync(run);
  ResolveModel(run->mutable_model());
  ResolveFeatures(run);
  if (run->program().file().empty()) ResolveDataDefaults(run->mutable_data());
  ResolveOptimizer(run->mutable_optimizer());
  if (run->name().empty()) run->set_name(DefaultName(*run));
}

uint32_t NumPsProcesses(const v1::RunConfig& run) {
  const uint32_t num_ps_tasks = run.deployment().num_ps_tasks();
  return run.deployment().worker_binary().empty() ? num_ps_tasks : std::max(1u, num_ps_tasks);
}

bool IsSynchronous(const v1::RunConfig& run) {
  if (run.sync().has_sync_replicas()) return run.sync().sync_replicas();
  return DefaultText("sync.sync_replicas") == "true";
}

uint64_t SliceBytes(const v1::RunConfig& run) {
  return run.cluster().slice_bytes() > 0 ? run.cluster().slice_bytes() : kDefaultSliceBytes;
}

bool ComputesInBfloat16(const v1::RunConfig& run) { return run.compute_dtype() == "bfloat16"; }

uint64_t ReplicaBatchExamples(const v1::RunConfig& run) {
  if (run.replica_batch_size() > 0) return run.replica_batch_size();
  return uint64_t{run.deployment().num_clones()} * run.batch_size();
}

absl::Status SelectOptimizer(absl::string_view name, v1::OptimizerConfig* optimizer) {
  const std::vector<std::string>& known = KnownOptimizers();
  if (std::find(known.begin(), known.end(), name) == known.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("optimizer: \"", name, "\" is unknown; it is one of ",
                     absl::StrJoin(known, ", "), DidYouMean(name, known)));
  }
  if (name == OptimizerName(OptimizerKind::kNesterov)) {
    optimizer->mutable_momentum()->set_nesterov(true);
    return absl::OkStatus();
  }
  // Every other rule has a field of its name.
  const google::protobuf::FieldDescriptor* rule =
      v1::OptimizerConfig::descriptor()->FindFieldByName(std::string(name));
  CHECK(rule != nullptr) << name;
  optimizer->GetReflection()->MutableMessage(optimizer, rule);
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
  static const auto& names = *new std::vector<std::string>([] {
    std::vector<std::string> all;
    for (int kind = 0; kind <= static_cast<int>(OptimizerKind::kFtrl); ++kind) {
      all.emplace_back(OptimizerName(static_cast<OptimizerKind>(kind)));
    }
    return all;
  }());
  return names;
}

const std::vector<std::string>& KnownModels() {
  static const auto& names = *new std::vector<std::string>([] {
    std::vector<std::string> all;
    for (const zoo::Model& model : zoo::Models()) all.emplace_back(model.name);
    return all;
  }());
  return names;
}

const std::vector<std::string>& KnownLosses() {
  static const auto& names = *new std::vector<std::string>([] {
    std::vector<std::string> all;
    for (const NamedLoss& loss : Losses()) all.emplace_back(loss.name);
    return all;
  }());
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
  shared.mutable_cluster()->set_slice_bytes(SliceBytes(run));
  shared.mutable_cluster()->set_round_robin(run.cluster().round_robin());
  shared.set_batch_size(run.batch_size());
  shared.set_replica_batch_size(run.replica_batch_size());
  shared.set_seed(run.seed());
  if (ComputesInBfloat16(run)) shared.set_compute_dtype(run.compute_dtype());
  *shared.mutable_trainable() = run.trainable();
  *shared.mutable_metrics() = run.metrics();
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

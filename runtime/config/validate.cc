#include "runtime/config/validate.h"

#include <algorithm>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "base/status_macros.h"
#include "ml/nn/metric_names.h"
#include "ml/tensor/device_spec.h"
#include "proto/v1/run_config.pb.h"
#include "runtime/config/name_patterns.h"
#include "runtime/config/rule.h"

namespace shoal {
namespace {

// Names become parts of paths and of scopes.
bool IsPlainName(absl::string_view name) {
  if (name.empty() || name.size() > 128 || name[0] == '.' || name[0] == '-') return false;
  for (const char c : name) {
    if (!absl::ascii_isalnum(c) && c != '_' && c != '-' && c != '.') return false;
  }
  return true;
}

absl::Status CheckPlainName(absl::string_view field, absl::string_view name) {
  if (IsPlainName(name)) return absl::OkStatus();
  return InvalidField(field,
                      absl::StrCat("\"", absl::CHexEscape(name),
                                   "\" must be 1 to 128 letters, digits, '_', '-' or '.', and not "
                                   "begin with '-' or '.'"));
}

absl::Status CheckCount(absl::string_view field, uint64_t value, uint64_t low, uint64_t high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return InvalidField(field, absl::StrCat("must be ", low, " to ", high, ", is ", value));
}

// Checks the rules of TF-Slim's DeploymentConfig, in its order and with its texts, and then further
// ones.
absl::Status ValidateTasks(const v1::DeploymentOptions& deployment) {
  if (deployment.num_replicas() > 1 && deployment.num_ps_tasks() < 1) {
    return InvalidField(
        "num_ps_tasks",
        absl::StrCat("When using replicas num_ps_tasks must be positive: num_replicas is ",
                     deployment.num_replicas(),
                     ", num_ps_tasks is 0; give --num_ps_tasks=1 or --num_replicas=1"));
  }
  if (deployment.num_replicas() > 0 && deployment.replica_id() >= deployment.num_replicas()) {
    return InvalidField("replica_id",
                        absl::StrCat("replica_id must be less than num_replicas: replica_id is ",
                                     deployment.replica_id(), ", num_replicas is ",
                                     deployment.num_replicas(), "; replicas are numbered from 0"));
  }
  RETURN_IF_ERROR(CheckCount("num_replicas", deployment.num_replicas(), 1, kMaxReplicas));
  RETURN_IF_ERROR(CheckCount("num_ps_tasks", deployment.num_ps_tasks(), 0, kMaxPsTasks));
  RETURN_IF_ERROR(CheckCount("num_clones", deployment.num_clones(), 1, kMaxClones));
  RETURN_IF_ERROR(CheckCount("threads", deployment.threads(), 1, kMaxThreads));
  RETURN_IF_ERROR(CheckPlainName("worker_job_name", deployment.worker_job_name()));
  RETURN_IF_ERROR(CheckPlainName("ps_job_name", deployment.ps_job_name()));
  if (deployment.worker_job_name() == deployment.ps_job_name()) {
    return InvalidField("ps_job_name",
                        absl::StrCat("\"", deployment.ps_job_name(),
                                     "\" is worker_job_name as well; use two names"));
  }
  return absl::OkStatus();
}

// "/cpu:0", "/gpu:1", "/job:worker/task:1/device:CPU:0": one device, not a pattern.
bool IsDevice(absl::string_view text) {
  const absl::StatusOr<DeviceSpec> spec = DeviceSpec::Parse(text);
  return spec.ok() && (spec->device_type == "CPU" || spec->device_type == "GPU") &&
         spec->device_index.has_value() && *spec->device_index >= 0;
}

absl::Status ValidateDevices(const v1::DeploymentOptions& deployment) {
  if (deployment.devices().empty()) return absl::OkStatus();
  std::set<std::string> seen;
  uint32_t count = 0;
  for (const absl::string_view piece : absl::StrSplit(deployment.devices(), ',')) {
    const std::string device(absl::StripAsciiWhitespace(piece));
    ++count;
    if (!IsDevice(device)) {
      return InvalidField("devices",
                          absl::StrCat("\"", device,
                                       "\" is not a device; write /cpu:0 or /gpu:0, one per "
                                       "clone, with commas"));
    }
    if (!seen.insert(absl::AsciiStrToLower(device)).second) {
      return InvalidField("devices",
                          absl::StrCat(device, " is named twice; give each clone its own"));
    }
    if (deployment.clone_on_cpu() && absl::StrContains(absl::AsciiStrToLower(device), "gpu:")) {
      return InvalidField("devices",
                          absl::StrCat(device, " contradicts clone_on_cpu; drop one of them"));
    }
  }
  if (count == deployment.num_clones()) return absl::OkStatus();
  return InvalidField("devices",
                      absl::StrCat("names ", count, " devices, but num_clones is ",
                                   deployment.num_clones(), "; name one device per clone"));
}

absl::Status ValidateVariables(const v1::DeploymentOptions& deployment) {
  const std::string& variables = deployment.variables();
  if (variables != "cpu" && variables != "first_device" && variables != "mirrored") {
    return InvalidField("variables", absl::StrCat("\"", absl::CHexEscape(variables),
                                                  "\" must be cpu, first_device or mirrored"));
  }
  if (variables == "cpu" || deployment.num_ps_tasks() == 0) return absl::OkStatus();
  return InvalidField(
      "variables",
      absl::StrCat("is ", variables, ", but num_ps_tasks is ", deployment.num_ps_tasks(),
                   ", and variables are on the parameter servers; drop it or give "
                   "--num_ps_tasks=0"));
}

absl::Status ValidateComputeType(const std::string& dtype) {
  if (dtype == "float32" || dtype == "bfloat16") return absl::OkStatus();
  return InvalidField("compute_dtype", absl::StrCat("\"", absl::CHexEscape(dtype),
                                                    "\" must be float32 or bfloat16"));
}

absl::Status ValidateSync(const v1::SyncOptions& sync) {
  if (sync.sync_replicas()) {
    if (sync.replicas_to_aggregate() != 0) {
      RETURN_IF_ERROR(CheckCount("replicas_to_aggregate", sync.replicas_to_aggregate(), 1,
                                 kMaxReplicasToAggregate));
    }
    if (sync.max_staleness() >= 0 && sync.has_max_staleness()) {
      return InvalidField(
          "max_staleness",
          absl::StrCat("is ", sync.max_staleness(),
                       ", but nothing is stale in synchronous training; drop it or give "
                       "--nosync_replicas"));
    }
    if (sync.clock_bound() >= 0 && sync.has_clock_bound()) {
      return InvalidField(
          "clock_bound",
          absl::StrCat("is ", sync.clock_bound(),
                       ", but synchronous training has one clock for all; drop it or "
                       "give --nosync_replicas"));
    }
  }
  if (sync.max_staleness() < -1) {
    return InvalidField("max_staleness",
                        absl::StrCat("must be -1 (unlimited) or more, is ", sync.max_staleness()));
  }
  if (sync.clock_bound() < -1) {
    return InvalidField("clock_bound",
                        absl::StrCat("must be -1 (no bound) or more, is ", sync.clock_bound()));
  }
  return absl::OkStatus();
}

absl::Status ValidateCluster(const v1::ClusterOptions& cluster) {
  if (cluster.slice_bytes() % 64 != 0) {
    return InvalidField("cluster.slice_bytes",
                        absl::StrCat("must be a multiple of 64, is ", cluster.slice_bytes()));
  }
  if (cluster.slice_bytes() != 0) {
    RETURN_IF_ERROR(
        CheckCount("cluster.slice_bytes", cluster.slice_bytes(), kMinSliceBytes, kMaxSliceBytes));
  }
  if (cluster.ps_memory() != 0 && cluster.ps_memory() < kMinPsMemory) {
    return InvalidField("cluster.ps_memory",
                        absl::StrCat("is in bytes and must be 0 or at least ", kMinPsMemory,
                                     ", is ", cluster.ps_memory()));
  }
  RETURN_IF_ERROR(CheckCount("cluster.lease_seconds", cluster.lease_seconds(), 2, 3600));
  RETURN_IF_ERROR(CheckCount("cluster.wait_seconds", cluster.wait_seconds(), 1, 86400));
  RETURN_IF_ERROR(CheckCount("cluster.stall_seconds", cluster.stall_seconds(), 1, 86400));
  RETURN_IF_ERROR(CheckCount("cluster.ps_threads", cluster.ps_threads(), 0, 64));
  RETURN_IF_ERROR(CheckCount("cluster.grace_seconds", cluster.grace_seconds(), 1, 86400));
  RETURN_IF_ERROR(CheckCount("cluster.ps_return_seconds", cluster.ps_return_seconds(), 1, 86400));
  return CheckCount("cluster.max_worker_restarts", cluster.max_worker_restarts(), 0, 1000);
}

absl::Status ValidateCheckpoint(const v1::CheckpointOptions& checkpoint) {
  const std::string& resume = checkpoint.resume();
  if (resume != "auto" && resume != "never" && resume != "must") {
    return InvalidField("resume",
                        absl::StrCat("\"", absl::CHexEscape(resume),
                                     "\" must be auto, never or must; the run that it resumes is "
                                     "that of --out"));
  }
  RETURN_IF_ERROR(CheckCount("checkpoint.save_seconds", checkpoint.save_seconds(), 0, 1000000));
  RETURN_IF_ERROR(CheckCount("checkpoint.export_every", checkpoint.export_every(), 0, 1000000000));
  return CheckCount("checkpoint.keep", checkpoint.keep(), 1, 1000000);
}

absl::Status ValidateLength(const v1::RunConfig& run) {
  RETURN_IF_ERROR(CheckCount("batch_size", run.batch_size(), 1, kMaxBatchSize));
  if (run.replica_batch_size() > 0) {
    RETURN_IF_ERROR(CheckCount("replica_batch_size", run.replica_batch_size(),
                               run.deployment().num_clones(), kMaxReplicaBatchSize));
  }
  if (run.max_steps() == 0 && run.num_epochs() == 0) {
    return InvalidField(
        "num_epochs",
        "and max_steps are both 0, so there is nothing to train; give --num_epochs=3 or "
        "--max_steps=1000");
  }
  RETURN_IF_ERROR(CheckCount("num_epochs", run.num_epochs(), 0, 1000000));
  // Steps are counted as int64 in places, and by users.
  return CheckCount("max_steps", run.max_steps(), 0, uint64_t{1} << 48);
}

absl::Status ValidateStart(const v1::RunConfig& run) {
  if (run.init_map_size() > 0 && run.init_from().empty()) {
    return InvalidField("init_map",
                        "has no meaning without init_from; give --init_from or drop it");
  }
  if (run.init_state() && run.init_from().empty()) {
    return InvalidField("init_state",
                        "has no meaning without init_from; give --init_from the directory of a "
                        "run, or drop it");
  }
  RETURN_IF_ERROR(
      NameMap::Create("init_map", {run.init_map().begin(), run.init_map().end()}).status());
  return NamePatterns::Create("trainable", {run.trainable().begin(), run.trainable().end()})
      .status();
}

absl::Status ValidateMetrics(const v1::RunConfig& run) {
  constexpr int kMost = 16;
  if (run.metrics_size() > kMost) {
    return InvalidField("metrics", absl::StrCat("has ", run.metrics_size(), " names; at most ",
                                                kMost, " are possible: leave some out"));
  }
  std::set<std::string> names;
  for (const std::string& name : run.metrics()) {
    RETURN_IF_ERROR(ParseMetric(name).status());
    if (!names.insert(name).second) {
      return InvalidField("metrics", absl::StrCat("has ", name, " twice; drop one of them"));
    }
  }
  if (run.metrics_size() == 0 || run.deployment().worker_binary().empty()) return absl::OkStatus();
  return InvalidField("metrics",
                      absl::StrCat("are those of a run file's model, but the model is in ",
                                   run.deployment().worker_binary(),
                                   "; drop them and return them in ModelOutputs.metrics"));
}

// A compute program has the model and the data, and computes on devices of its own choice.
absl::Status ValidateProgram(const v1::RunConfig& run) {
  const v1::ProgramConfig& program = run.program();
  if (program.file().empty()) {
    if (program.ByteSizeLong() == 0) return absl::OkStatus();
    return InvalidField("program.file",
                        "is empty, but the run has arguments or an interpreter for it; "
                        "give --program=FILE");
  }
  const auto drop = [&](absl::string_view what) {
    return InvalidField("program", absl::StrCat("is ", program.file(), ", which ", what));
  };
  if (run.model().ByteSizeLong() != 0) {
    return drop(
        "has a model of its own, but the run has model or loss too; remove model from the run "
        "file, or start without --program");
  }
  if (!run.deployment().worker_binary().empty()) {
    return drop("takes the place of worker_binary; drop one of them");
  }
  v1::DataConfig data = run.data();
  data.clear_evaluation_block();  // Programs evaluate in blocks too.
  if (data.ByteSizeLong() != 0) {
    return drop(
        "reads the data itself, but the run has data too; remove data from the run file, and "
        "give the program its arguments behind --");
  }
  if (run.trainable_size() > 0) {
    return drop("says what is frozen; drop trainable and freeze in the program");
  }
  if (run.metrics_size() > 0) {
    return drop("declares its own metrics; drop the run's metrics");
  }
  if (run.deployment().num_clones() != 1 || !run.deployment().devices().empty()) {
    return drop("chooses its devices; drop num_clones and devices");
  }
  if (run.compute_dtype() == "bfloat16") {
    return drop("chooses its types; drop compute_dtype and use autocast in the program");
  }
  if (program.python().empty() || absl::EndsWith(program.file(), ".py")) return absl::OkStatus();
  return InvalidField("program.python",
                      absl::StrCat("is ", program.python(), ", but ", program.file(),
                                   " is not a FILE.py; drop one of them"));
}

// Both decays change the same gradient, and a user who sets one to 0 expects none.
absl::Status CheckOneDecay(const v1::RunConfig& run) {
  if (run.optimizer().has_adamw())
    return absl::OkStatus();  // Its decay does not change the gradient.
  const auto& layers = run.model().layer();
  if (run.model().weight_decay() == 0 &&
      std::none_of(layers.begin(), layers.end(),
                   [](const v1::LayerConfig& layer) { return layer.weight_decay() > 0; })) {
    return absl::OkStatus();
  }
  for (int g = 0; g < run.optimizer().group_size(); ++g) {
    if (!run.optimizer().group(g).has_weight_decay()) continue;
    return InvalidField(
        absl::StrCat("optimizer.group[", g, "].weight_decay"),
        "would be added to the model's weight_decay, which is a part of the loss; drop "
        "one of them");
  }
  return absl::OkStatus();
}

// Checks that there is exactly one model: in the run file or in the program that the workers run.
absl::Status ValidateModelSource(const v1::RunConfig& run, ModelFrom from) {
  const v1::ModelConfig& model = run.model();
  RETURN_IF_ERROR(ValidateProgram(run));
  RETURN_IF_ERROR(ValidateMetrics(run));
  if (!run.program().file().empty()) return absl::OkStatus();
  if (!run.deployment().worker_binary().empty()) {
    if (model.ByteSizeLong() == 0) return absl::OkStatus();
    return InvalidField(
        "worker_binary",
        absl::StrCat("is ", run.deployment().worker_binary(),
                     ", which has a model of its own, but the run says model or loss "
                     "too; drop one of them"));
  }
  const bool is_given = !model.name().empty() || !model.layer().empty();
  return is_given || from == ModelFrom::kRunFile ? ValidateModel(model) : absl::OkStatus();
}

}  // namespace

absl::Status ValidateRunConfig(const v1::RunConfig& run, ModelFrom model) {
  RETURN_IF_ERROR(CheckPlainName("name", run.name()));
  RETURN_IF_ERROR(ValidateModelSource(run, model));
  RETURN_IF_ERROR(ValidateTables(run));
  RETURN_IF_ERROR(ValidateTasks(run.deployment()));
  RETURN_IF_ERROR(ValidateDevices(run.deployment()));
  RETURN_IF_ERROR(ValidateVariables(run.deployment()));
  RETURN_IF_ERROR(ValidateComputeType(run.compute_dtype()));
  RETURN_IF_ERROR(ValidateLength(run));
  RETURN_IF_ERROR(ValidateSync(run.sync()));
  RETURN_IF_ERROR(ValidateCheckpoint(run.checkpoint()));
  RETURN_IF_ERROR(ValidateCluster(run.cluster()));
  RETURN_IF_ERROR(ValidateStart(run));
  RETURN_IF_ERROR(CheckOneDecay(run));
  if (run.program().file().empty()) RETURN_IF_ERROR(ValidateData(run.data()));
  return ValidateOptimizer(run.optimizer());
}

}  // namespace shoal

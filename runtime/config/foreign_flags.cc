#include "runtime/config/foreign_flags.h"

#include "runtime/config/flags.h"

namespace shoal {
namespace {

constexpr uint32_t kRunning = kScopeTrain | kScopeTask;
// Commands that read the files of a run.
constexpr uint32_t kFiles = kScopeUse | kScopePredict | kScopeExport | kScopeLookup;

constexpr char kClones[] = "--num_clones, or --devices=/gpu:0,/gpu:1";
constexpr char kModelFile[] = "--model_file, or --tables for the rows of tables";
constexpr char kNoChiefHost[] =
    "none, because this command starts all tasks; `shoal worker` has --chief_host";
constexpr char kNoChiefPort[] =
    "none, because this command starts all tasks; `shoal worker` has --chief_port";
constexpr char kNoTaskIndex[] =
    "none, because this command starts all tasks; `shoal worker` has --task_index";
constexpr char kWeightDecay[] =
    "--set optimizer.adamw.weight_decay=X with --optimizer=adamw, or --set model.weight_decay=X "
    "with any optimizer, which adds L2 to the loss";

constexpr ForeignFlag kForeignFlags[] = {
    {"async", kRunning, "another system", "--nosync_replicas"},
    {"checkpoint_dir", kRunning | kFiles, "TensorFlow", "--out"},
    {"checkpoint_exclude_scopes", kRunning, "TF-Slim", "--init_map, with nothing on the right"},
    {"checkpoint_path", kRunning, "TF-Slim", "--init_from"},
    {"checkpoint_path", kFiles, "TF-Slim", "the run's directory, and --step=N"},
    {"eval", kRunning, "another system", "a command of its own: shoal eval DIR"},
    {"format", kScopeExport, "another system", "none, because exports are safetensors"},
    {"gpu_count", kRunning, "TensorFlow", kClones},
    {"gpu_count", kScopePredict, "TensorFlow", "--devices=/gpu:0,/gpu:1"},
    {"gpus", kRunning, "PyTorch", kClones},
    {"gpus", kScopePredict, "PyTorch", "--devices=/gpu:0,/gpu:1"},
    {"issync", kRunning, "TensorFlow", "--sync_replicas"},
    {"log_dir", kRunning | kFiles, "TensorFlow", "--out"},
    {"logdir", kRunning | kFiles, "TF-Slim", "--out"},
    {"lr", kRunning, "PyTorch", "--learning_rate"},
    {"master", kScopeTask, "TensorFlow", "--chief_host"},
    {"master", kScopeTrain, "TensorFlow", kNoChiefHost},
    {"master_addr", kScopeTask, "torchrun", "--chief_host"},
    {"master_addr", kScopeTrain, "torchrun", kNoChiefHost},
    {"master_port", kScopeTask, "torchrun", "--chief_port"},
    {"master_port", kScopeTrain, "torchrun", kNoChiefPort},
    {"max_number_of_steps", kRunning, "TF-Slim", "--max_steps"},
    {"model_dir", kRunning | kFiles, "TensorFlow", "--out"},
    {"model_name", kRunning, "TF-Slim", "--model"},
    {"momentum", kRunning, "PyTorch",
     "--optimizer=momentum and --set optimizer.momentum.momentum=X"},
    {"nnodes", kRunning, "torchrun", "--num_replicas"},
    {"nosync", kRunning, "another system", "--nosync_replicas"},
    {"nproc_per_node", kRunning, "torchrun", "--num_replicas"},
    {"num_gpus", kRunning, "TensorFlow", kClones},
    {"num_gpus", kScopePredict, "TensorFlow", "--devices=/gpu:0,/gpu:1"},
    {"num_ps", kRunning, "TensorFlow", "--num_ps_tasks"},
    {"num_servers", kRunning, "MXNet", "--num_ps_tasks"},
    {"num_worker", kRunning, "TensorFlow", "--num_replicas"},
    {"num_workers", kRunning, "TensorFlow", "--num_replicas"},
    {"output", kRunning, "another system", "--out"},
    {"output", kScopeExport, "another system", kModelFile},
    {"output", kScopePredict, "another system", "--predictions"},
    {"output_dir", kRunning, "PyTorch", "--out"},
    {"output_dir", kScopeExport, "PyTorch", kModelFile},
    {"output_dir", kScopePredict, "PyTorch", "--predictions, which is a file"},
    {"precision", kRunning | kScopePredict, "PyTorch Lightning", "--compute_dtype=bfloat16"},
    {"ps", kRunning, "another system", "--num_ps_tasks"},
    {"save_interval_secs", kRunning, "TF-Slim", "--save_seconds"},
    {"save_summaries_secs", kRunning, "TF-Slim", "--summarize_every, which counts steps"},
    {"sync", kRunning, "another system", "--sync_replicas"},
    {"task", kScopeTask, "TF-Slim", "--task_index"},
    {"task", kScopeTrain, "TF-Slim", kNoTaskIndex},
    {"train_dir", kRunning | kFiles, "TF-Slim", "--out"},
    {"train_steps", kRunning, "TensorFlow", "--max_steps"},
    {"trainable_scopes", kRunning, "TF-Slim", "--trainable, which takes regular expressions"},
    {"wd", kRunning, "PyTorch", kWeightDecay},
    {"weight_decay", kRunning, "PyTorch", kWeightDecay},
    {"worker", kRunning, "another system", "--num_replicas"},
    {"worker_replicas", kRunning, "TF-Slim", "--num_replicas"},
    {"workers", kRunning, "another system", "--num_replicas"},
    {"world_size", kRunning, "PyTorch", "--num_replicas"},
};

}  // namespace

absl::Span<const ForeignFlag> ForeignFlags() { return kForeignFlags; }

const ForeignFlag* FindForeignFlag(uint32_t scope, absl::string_view name) {
  for (const ForeignFlag& flag : kForeignFlags) {
    if ((flag.scopes & scope) != 0 && name == flag.name) return &flag;
  }
  return nullptr;
}

}  // namespace shoal

#include "runtime/config/foreign_flags.h"

namespace shoal {
namespace {

constexpr ForeignFlag kForeignFlags[] = {
    {"async", "another system", "--nosync_replicas"},
    {"checkpoint_dir", "TensorFlow", "--out"},
    {"checkpoint_exclude_scopes", "TF-Slim", "--init_map, with nothing on the right"},
    {"checkpoint_path", "TF-Slim", "--init_from"},
    {"eval", "another system", "a command of its own: shoal eval DIR"},
    {"format", "another system", "none, because exports are safetensors"},
    {"gpu_count", "TensorFlow", "--num_clones, or --devices=/gpu:0,/gpu:1"},
    {"gpus", "PyTorch", "--num_clones, or --devices=/gpu:0,/gpu:1"},
    {"issync", "TensorFlow", "--sync_replicas"},
    {"log_dir", "TensorFlow", "--out"},
    {"logdir", "TF-Slim", "--out"},
    {"lr", "PyTorch", "--learning_rate"},
    {"master", "TensorFlow", "--chief_host, of a task that is started by itself"},
    {"master_addr", "torchrun", "--chief_host, of a task that is started by itself"},
    {"master_port", "torchrun", "--chief_port, of a task that is started by itself"},
    {"max_number_of_steps", "TF-Slim", "--max_steps"},
    {"model_dir", "TensorFlow", "--out"},
    {"model_name", "TF-Slim", "--model"},
    {"momentum", "PyTorch", "--set optimizer.momentum.momentum=X"},
    {"nnodes", "torchrun", "--num_replicas"},
    {"nosync", "another system", "--nosync_replicas"},
    {"nproc_per_node", "torchrun", "--num_replicas"},
    {"num_gpus", "TensorFlow", "--num_clones, or --devices=/gpu:0,/gpu:1"},
    {"num_ps", "TensorFlow", "--num_ps_tasks"},
    {"num_servers", "MXNet", "--num_ps_tasks"},
    {"num_worker", "TensorFlow", "--num_replicas"},
    {"num_workers", "TensorFlow", "--num_replicas"},
    {"output", "another system", "--out"},
    {"output_dir", "PyTorch", "--out"},
    {"precision", "PyTorch Lightning", "--compute_dtype=bfloat16"},
    {"ps", "another system", "--num_ps_tasks"},
    {"save_interval_secs", "TF-Slim", "--save_seconds"},
    {"save_summaries_secs", "TF-Slim", "--summarize_every, which counts steps"},
    {"sync", "another system", "--sync_replicas"},
    {"task", "TF-Slim", "--task_index"},
    {"train_dir", "TF-Slim", "--out"},
    {"train_steps", "TensorFlow", "--max_steps"},
    {"trainable_scopes", "TF-Slim", "--trainable, which takes regular expressions"},
    {"wd", "PyTorch", "--set optimizer.adamw.weight_decay=X"},
    {"weight_decay", "PyTorch", "--set optimizer.adamw.weight_decay=X"},
    {"worker", "another system", "--num_replicas"},
    {"worker_replicas", "TF-Slim", "--num_replicas"},
    {"workers", "another system", "--num_replicas"},
    {"world_size", "PyTorch", "--num_replicas"},
};

}  // namespace

const ForeignFlag* FindForeignFlag(absl::string_view name) {
  for (const ForeignFlag& flag : kForeignFlags) {
    if (name == flag.name) return &flag;
  }
  return nullptr;
}

}  // namespace shoal

#include "runtime/config/foreign_flags.h"

#include <string>

#include "absl/strings/str_replace.h"

#include "runtime/config/flags.h"

namespace shoal {
namespace {

constexpr uint32_t kRunning = kScopeTrain | kScopeTask;
// Commands that compute with a checkpoint, which may have averages.
constexpr uint32_t kComputing = kScopeUse | kScopePredict | kScopeExport;
// Commands that read the files of a run.
constexpr uint32_t kFiles = kComputing | kScopeLookup;

constexpr char kBfloat16[] = "--compute_dtype=bfloat16";
constexpr char kClones[] = "--num_clones, or --devices=/gpu:0,/gpu:1";
constexpr char kDevicesOfRun[] = "--set deployment.devices=/gpu:0,/gpu:1";
constexpr char kDevices[] = "--devices=/gpu:0,/gpu:1";
constexpr char kDirectoryAlone[] =
    "none, because the directory stands alone, as in shoal status DIR";
constexpr char kHosts[] =
    "none, because this command uses this machine; `shoal launch` has --hosts=FILE";
constexpr char kImageSize[] = "--set data.image.height=N and --set data.image.width=N";
constexpr char kModelFile[] = "--model_file, or --tables for the rows of tables";
constexpr char kModelOfRun[] = "none, because the run has its model";
constexpr char kNoChiefHost[] =
    "none, because this command starts all tasks; `shoal worker` has --chief_host";
constexpr char kNoChiefPort[] =
    "none, because this command starts all tasks; `shoal worker` has --chief_port";
constexpr char kNoSplit[] = "none, because a run trains on the train split and evaluates on test";
constexpr char kNoTaskIndex[] =
    "none, because this command starts all tasks; `shoal worker` has --task_index";
constexpr char kResume[] =
    "--out=DIR of the run, which resumes from its newest checkpoint, or --init_from=PATH to begin "
    "another run with these values";
constexpr char kStep[] = "the run's directory, and --step=N";
constexpr char kTestExamples[] =
    "--set data.test_examples=N, which counts examples, not batches; default: the whole test split";
constexpr char kThreads[] = "--set data.decode_threads=N";
constexpr char kTransport[] =
    "none, because tasks exchange gradients over gRPC, or shared memory on one machine";
constexpr char kWeightDecay[] =
    "--set optimizer.adamw.weight_decay=X with --optimizer=adamw, or --set model.weight_decay=X "
    "with any optimizer, which adds L2 to the loss";
constexpr char kWorkers[] =
    "--num_replicas; threads that read data are --set data.decode_threads=N";

constexpr ForeignFlag kForeignFlags[] = {
    {"accelerator", kRunning, "PyTorch Lightning", "--devices=/gpu:0, or --clone_on_cpu"},
    {"accumulate_grad_batches", kRunning, "PyTorch Lightning",
     "--replicas_to_aggregate, which counts the batches of a step"},
    {"adadelta_rho", kRunning, "TF-Slim",
     "--set optimizer.adadelta.rho=X with --optimizer=adadelta"},
    {"adagrad_initial_accumulator_value", kRunning, "TF-Slim",
     "--set optimizer.adagrad.initial_accumulator=X with --optimizer=adagrad"},
    {"adam_beta1", kRunning, "TF-Slim", "--set optimizer.adam.beta1=X with --optimizer=adam"},
    {"adam_beta2", kRunning, "TF-Slim", "--set optimizer.adam.beta2=X with --optimizer=adam"},
    {"amp", kRunning | kScopePredict, "PyTorch", kBfloat16},
    {"async", kRunning, "another system", "--nosync_replicas"},
    {"backend", kRunning, "PyTorch", kTransport},
    {"bf16", kRunning | kScopePredict, "PyTorch", kBfloat16},
    {"checkpoint", kRunning, "another system", kResume},
    {"checkpoint", kFiles, "another system", kStep},
    {"checkpoint_dir", kRunning | kFiles, "TensorFlow", "--out"},
    {"checkpoint_exclude_scopes", kRunning, "TF-Slim", "--init_map, with nothing on the right"},
    {"checkpoint_path", kRunning, "TF-Slim", "--init_from"},
    {"checkpoint_path", kFiles, "TF-Slim", kStep},
    {"ckpt", kRunning, "PyTorch", kResume},
    {"ckpt", kFiles, "PyTorch", kStep},
    {"ckpt_path", kRunning, "PyTorch Lightning", kResume},
    {"ckpt_path", kFiles, "PyTorch Lightning", kStep},
    {"dataset_dir", kRunning | kScopeUse | kScopePredict, "TF-Slim", "--data_dir"},
    {"dataset_name", kRunning, "TF-Slim",
     "--data_dir, and --data_format=tfrecord if the files do not tell their format"},
    {"dataset_name", kScopeUse | kScopePredict, "TF-Slim",
     "--data_dir, if the run's data set has moved"},
    {"dataset_split_name", kRunning, "TF-Slim", kNoSplit},
    {"dataset_split_name", kScopeUse, "TF-Slim", "none, because the test split is evaluated"},
    {"dataset_split_name", kScopePredict, "TF-Slim",
     "--input=FILE, for other examples than the test split"},
    {"deepspeed", kRunning, "DeepSpeed",
     "none, because parameter servers hold the variables: --num_ps_tasks"},
    {"deepspeed_config", kRunning, "DeepSpeed", "none, because the run file has the settings"},
    {"default_root_dir", kRunning, "PyTorch Lightning", "--out"},
    {"device", kRunning, "PyTorch", kClones},
    {"device", kScopePredict, "PyTorch", kDevices},
    {"device", kScopeUse, "PyTorch", kDevicesOfRun},
    {"dir", kRunning | kFiles, "another system", "--out"},
    {"dir", kScopeControl, "another system", kDirectoryAlone},
    {"end_learning_rate", kRunning, "TF-Slim",
     "--set optimizer.schedule.end=X, of a polynomial or cosine schedule"},
    {"eval", kRunning, "another system", "a command of its own: shoal eval DIR"},
    {"eval_dir", kRunning, "TF-Slim", "--out"},
    {"eval_dir", kScopeUse, "TF-Slim", "none, because this command prints its result"},
    {"eval_image_size", kRunning, "TF-Slim", kImageSize},
    {"eval_interval_secs", kScopeTrain, "TF-Slim", "--eval_every, which counts updates"},
    {"eval_interval_secs", kScopeTask, "TF-Slim",
     "none, because an evaluator evaluates each checkpoint when it appears"},
    {"eval_interval_secs", kScopeUse, "TF-Slim",
     "none, because this command evaluates once; `shoal evaluator` evaluates each checkpoint"},
    {"fast_dev_run", kRunning, "PyTorch Lightning", "--max_steps=1"},
    {"format", kScopeExport, "another system", "none, because exports are safetensors"},
    {"fp16", kRunning | kScopePredict, "PyTorch", kBfloat16},
    {"ftrl_initial_accumulator_value", kRunning, "TF-Slim",
     "--set optimizer.ftrl.initial_accumulator=X with --optimizer=ftrl"},
    {"ftrl_l1", kRunning, "TF-Slim", "--set optimizer.ftrl.l1=X with --optimizer=ftrl"},
    {"ftrl_l2", kRunning, "TF-Slim", "--set optimizer.ftrl.l2=X with --optimizer=ftrl"},
    {"ftrl_learning_rate_power", kRunning, "TF-Slim",
     "--set optimizer.ftrl.learning_rate_power=X with --optimizer=ftrl"},
    {"gpu_count", kRunning, "TensorFlow", kClones},
    {"gpu_count", kScopePredict, "TensorFlow", kDevices},
    {"gpu_count", kScopeUse, "TensorFlow", kDevicesOfRun},
    {"gpus", kRunning, "PyTorch", kClones},
    {"gpus", kScopePredict, "PyTorch", kDevices},
    {"gpus", kScopeUse, "PyTorch", kDevicesOfRun},
    {"gradient_clip_val", kRunning, "PyTorch Lightning", "--set optimizer.clip_by_global_norm=X"},
    {"H", kScopeHosts, "Horovod", "--hosts=FILE, with a line for each host"},
    {"H", kScopeTrain, "Horovod", kHosts},
    {"hostfile", kScopeHosts, "DeepSpeed", "--hosts=FILE, with a line for each host"},
    {"hostfile", kScopeTrain, "DeepSpeed", kHosts},
    {"ignore_missing_vars", kRunning, "TF-Slim", "--init_map, with nothing on the right"},
    {"include", kScopeHosts, "DeepSpeed", "--hosts=FILE, with a line for each host"},
    {"include", kScopeTrain, "DeepSpeed", kHosts},
    {"issync", kRunning, "TensorFlow", "--sync_replicas"},
    {"label_smoothing", kRunning, "TF-Slim", "--set model.label_smoothing=X"},
    {"learning_rate_decay_factor", kRunning, "TF-Slim",
     "--set optimizer.schedule.rate=X with --set optimizer.schedule.kind=exponential"},
    {"learning_rate_decay_type", kRunning, "TF-Slim",
     "--set optimizer.schedule.kind=exponential, or step, polynomial, cosine or constant"},
    {"log_dir", kRunning | kFiles, "TensorFlow", "--out"},
    {"log_every_n_steps", kRunning, "TF-Slim", "--log_every"},
    {"logdir", kRunning | kFiles, "TF-Slim", "--out"},
    {"lr", kRunning, "PyTorch", "--learning_rate"},
    {"master", kScopeTask, "TensorFlow", "--chief_host"},
    {"master", kScopeTrain, "TensorFlow", kNoChiefHost},
    {"master", kFiles, "TensorFlow", "none, because this command needs no other task"},
    {"master_addr", kScopeTask, "torchrun", "--chief_host"},
    {"master_addr", kScopeTrain, "torchrun", kNoChiefHost},
    {"master_port", kScopeTask, "torchrun", "--chief_port"},
    {"master_port", kScopeTrain, "torchrun", kNoChiefPort},
    {"max_epochs", kRunning, "PyTorch Lightning", "--num_epochs"},
    {"max_num_batches", kRunning | kScopeUse, "TF-Slim", kTestExamples},
    {"max_number_of_steps", kRunning, "TF-Slim", "--max_steps"},
    {"max_restarts", kRunning, "torchrun", "--set cluster.max_worker_restarts=N"},
    {"model_dir", kRunning | kFiles, "TensorFlow", "--out"},
    {"model_name", kRunning, "TF-Slim", "--model"},
    {"model_name", kFiles, "TF-Slim", kModelOfRun},
    {"momentum", kRunning, "PyTorch",
     "--optimizer=momentum and --set optimizer.momentum.momentum=X"},
    {"moving_average_decay", kRunning, "TF-Slim", "--set optimizer.moving_average_decay=X"},
    {"moving_average_decay", kComputing, "TF-Slim", "--use_averages"},
    {"n", kRunning, "mpirun", "--num_replicas"},
    {"nnodes", kRunning, "torchrun", "--num_replicas, which counts the workers of all hosts"},
    {"node_rank", kScopeTask, "torchrun", "--task_index"},
    {"node_rank", kScopeTrain, "torchrun", kNoTaskIndex},
    {"nosync", kRunning, "another system", "--nosync_replicas"},
    {"np", kRunning, "Horovod", "--num_replicas"},
    {"nproc_per_node", kRunning, "torchrun", "--num_replicas"},
    {"num_epochs_per_decay", kRunning, "TF-Slim",
     "--set optimizer.schedule.decay_steps=N, which counts updates"},
    {"num_gpus", kRunning, "TensorFlow", kClones},
    {"num_gpus", kScopePredict, "TensorFlow", kDevices},
    {"num_gpus", kScopeUse, "TensorFlow", kDevicesOfRun},
    {"num_nodes", kRunning, "PyTorch Lightning",
     "--num_replicas, which counts the workers of all hosts"},
    {"num_preprocessing_threads", kRunning | kScopeUse, "TF-Slim", kThreads},
    {"num_ps", kRunning, "TensorFlow", "--num_ps_tasks"},
    {"num_readers", kRunning, "TF-Slim", kThreads},
    {"num_servers", kRunning, "MXNet", "--num_ps_tasks"},
    {"num_train_epochs", kRunning, "PyTorch", "--num_epochs"},
    {"num_worker", kRunning, "TensorFlow", "--num_replicas"},
    {"num_workers", kRunning, "another system", kWorkers},
    {"opt", kRunning, "PyTorch", "--optimizer=sgd, or another name"},
    {"opt_epsilon", kRunning, "TF-Slim",
     "--set optimizer.adam.epsilon=X, or that of another optimizer"},
    {"output", kRunning, "another system", "--out"},
    {"output", kScopeExport, "another system", kModelFile},
    {"output", kScopePredict, "another system", "--predictions"},
    {"output_dir", kRunning, "PyTorch", "--out"},
    {"output_dir", kScopeExport, "PyTorch", kModelFile},
    {"output_dir", kScopePredict, "PyTorch", "--predictions, which is a file"},
    {"per_device_train_batch_size", kRunning, "Hugging Face", "--batch_size"},
    {"precision", kRunning | kScopePredict, "PyTorch Lightning", kBfloat16},
    {"preprocessing_name", kRunning, "TF-Slim",
     "--set data.augment.flip=true and --set data.augment.pad=N"},
    {"pretrained_checkpoint", kRunning, "another system", "--init_from"},
    {"ps", kRunning, "another system", "--num_ps_tasks"},
    {"rank", kScopeTask, "PyTorch", "--task_index"},
    {"rank", kScopeTrain, "PyTorch", kNoTaskIndex},
    {"rdzv_backend", kRunning, "torchrun", "none, because the chief gathers the tasks"},
    {"rdzv_endpoint", kScopeTask, "torchrun", "--chief_host"},
    {"rdzv_endpoint", kScopeTrain, "torchrun", kNoChiefHost},
    {"rdzv_id", kRunning, "torchrun", "none, because the chief gathers the tasks"},
    {"resume_from_checkpoint", kRunning, "PyTorch", kResume},
    {"rmsprop_decay", kRunning, "TF-Slim",
     "--set optimizer.rmsprop.decay=X with --optimizer=rmsprop"},
    {"rmsprop_momentum", kRunning, "TF-Slim",
     "--set optimizer.rmsprop.momentum=X with --optimizer=rmsprop"},
    {"save_interval_secs", kRunning, "TF-Slim", "--save_seconds"},
    {"save_summaries_secs", kRunning, "TF-Slim", "--summarize_every, which counts steps"},
    {"seed_everything", kRunning, "PyTorch Lightning", "--seed"},
    {"split", kRunning, "another system", kNoSplit},
    {"split", kScopeUse, "another system", "none, because the test split is evaluated"},
    {"split", kScopePredict, "another system",
     "--input=FILE, for other examples than the test split"},
    {"strategy", kRunning, "PyTorch Lightning",
     "--num_replicas for workers, --num_clones for devices of each, and --nosync_replicas for "
     "asynchronous training"},
    {"sync", kRunning, "another system", "--sync_replicas"},
    {"task", kScopeTask, "TF-Slim", "--task_index"},
    {"task", kScopeTrain, "TF-Slim", kNoTaskIndex},
    {"total_num_replicas", kRunning, "TensorFlow", "--num_replicas"},
    {"train_dir", kRunning | kFiles, "TF-Slim", "--out"},
    {"train_image_size", kRunning, "TF-Slim", kImageSize},
    {"train_steps", kRunning, "TensorFlow", "--max_steps"},
    {"trainable_scopes", kRunning, "TF-Slim", "--trainable, which takes regular expressions"},
    {"use_grayscale", kRunning, "TF-Slim", "--set data.image.channels=1"},
    {"val_check_interval", kRunning, "PyTorch Lightning", "--eval_every, which counts updates"},
    {"warmup_steps", kRunning, "Hugging Face", "--set optimizer.schedule.warmup_steps=N"},
    {"wd", kRunning, "PyTorch", kWeightDecay},
    {"weight_decay", kRunning, "PyTorch", kWeightDecay},
    {"worker", kRunning, "another system", "--num_replicas"},
    {"worker_replicas", kRunning, "TF-Slim", "--num_replicas"},
    {"workers", kRunning, "another system", kWorkers},
    {"world_size", kRunning, "PyTorch", "--num_replicas"},
};

}  // namespace

absl::Span<const ForeignFlag> ForeignFlags() { return kForeignFlags; }

const ForeignFlag* FindForeignFlag(uint32_t scope, absl::string_view name) {
  const std::string wanted = absl::StrReplaceAll(name, {{"-", "_"}});
  for (const ForeignFlag& flag : kForeignFlags) {
    if ((flag.scopes & scope) != 0 && wanted == flag.name) return &flag;
  }
  return nullptr;
}

}  // namespace shoal

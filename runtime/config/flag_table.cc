#include "runtime/config/flags.h"

namespace shoal {
namespace {

constexpr char kRun[] = "The run";
constexpr char kTraining[] = "Training";
constexpr char kModel[] = "Model and data";
constexpr char kTasks[] = "Tasks";
constexpr char kHand[] = "Tasks started by hand";
constexpr char kFinished[] = "A finished run";
constexpr char kUnderWay[] = "A run that is under way";

constexpr uint32_t kRunning = kScopeTrain | kScopeTask;
constexpr uint32_t kReading = kScopeUse | kScopePredict;
constexpr FlagKind kText = FlagKind::kText;
constexpr FlagKind kBool = FlagKind::kBool;

// A flag whose meaning or default differs between commands stands once for each. "{default}" is the
// field's default (defaults.h).
constexpr FlagSpec kTable[] = {
    {"run", kRun, kRunning, kText, "", "FILE",
     "The run file, a text proto of shoal.v1.RunConfig, such as deploy/runs/fashion_cnn.textproto. "
     "Every other flag changes the run it describes."},
    {"run", kRun, kReading | kScopeExport, kText, "", "FILE",
     "A run file to use instead of DIR/run.textproto. That of a run's directory also says --out."},
    {"set", kRun, kScopeAll, kText, "", "PATH=VALUE",
     "Any field of the run file by its path, e.g. --set optimizer.adam.beta1=0.8. Repeatable."},
    {"out", kRun, kScopeTrain, kText, "out", "DIR",
     "The run's directory: run.textproto, cluster.textproto, logs, checkpoints, metrics.jsonl, "
     "summary.json. Default: runs/NAME-TIME-PROCESS."},
    {"out", kRun, kScopeTask, kText, "out", "DIR",
     "The run's directory, the same for all tasks: run.textproto, cluster.textproto, checkpoints, "
     "metrics.jsonl, summary.json. Needed here or in the run file."},
    {"out", kRun, kReading | kScopeExport, kText, "out", "DIR",
     "The directory of the run: its run.textproto and checkpoints are read. Needed, unless --run "
     "says it."},
    {"name", kRun, kRunning, kText, "name", "NAME",
     "What the run is called. Default: as the run file says, or its model."},
    {"resume", kRun, kRunning, kText, "checkpoint.resume", "auto|never|must",
     "auto goes on from the newest valid checkpoint in DIR, if there is one; must fails without "
     "one; never refuses a DIR that has one. Default {default}."},

    {"max_steps", kTraining, kRunning, kText, "max_steps", "N",
     "Stop after N updates in all: replicas_to_aggregate batches each when synchronous, one each "
     "when not. 0: by num_epochs."},
    {"num_epochs", kTraining, kRunning, kText, "num_epochs", "N", "Stop after N epochs."},
    {"batch_size", kTraining, kRunning, kText, "batch_size", "N",
     "Examples per clone and step, whatever replica_batch_size the run file has. Default "
     "{default}."},
    {"batch_size", kTraining, kScopePredict, kText, "batch_size", "N",
     "Examples per device at a time. Default: the run's."},
    {"replica_batch_size", kTraining, kRunning, kText, "replica_batch_size", "N",
     "Examples per worker and step, cut over its clones as evenly as can be, instead of "
     "--batch_size: a run then means the same on any number of devices. 0: batch_size x "
     "num_clones."},
    {"optimizer", kTraining, kRunning, kText, "", "NAME",
     "sgd, momentum, nesterov, adagrad, adadelta, rmsprop, adam, adamw or ftrl; parameters by "
     "--set, e.g. optimizer.momentum.momentum=0.95."},
    {"learning_rate", kTraining, kRunning, kText, "optimizer.learning_rate", "X",
     "Default {default}; adam and adamw 0.001. Schedules: --set optimizer.schedule.kind=cosine."},
    {"seed", kTraining, kRunning, kText, "seed", "N",
     "Of initial values and of the order of the data. Default {default}. Synchronous runs with "
     "equal seeds "
     "give equal bytes."},
    {"save_every", kTraining, kRunning, kText, "checkpoint.save_every", "N",
     "Updates between checkpoints. 0: every epoch."},
    {"save_seconds", kTraining, kRunning, kText, "checkpoint.save_seconds", "N",
     "Seconds after which a checkpoint is made although --save_every makes none. Default "
     "{default}; 0: "
     "none for that."},
    {"export_every", kTraining, kRunning, kText, "checkpoint.export_every", "N",
     "Checkpoints between those that get a model.safetensors; the run's last one always has it. "
     "Default {default}; 0: only that."},
    {"eval_every", kTraining, kRunning, kText, "eval_every", "N",
     "Updates between evaluations on the test split. 0: every epoch."},
    {"scalars_every", kTraining, kRunning, kText, "summary.scalars_every", "N",
     "Updates between points of loss, accuracy, learning rate and speed in DIR/events, for "
     "TensorBoard. Default {default}; 0: none."},
    {"summarize_every", kTraining, kRunning, kText, "summary.model_every", "N",
     "Updates between summaries of the model in DIR/events: histograms and norms of gradients, "
     "losses, what the model collects. Default 0: none."},
    {"log_every", kTraining, kRunning, kText, "log_every", "N",
     "Updates between console lines when the output is no terminal. 0: every few seconds. "
     "metrics.jsonl has every update in any case."},

    {"model", kModel, kRunning, kText, "model.name", "NAME",
     "fashion_cnn, lenet5, mlp, seed_mlp, softmax_regression, linear, cifar10_cnn, vgg16, "
     "speech_conv, cnn_trad_fpool3, mobilenet_v2, mobilenet_v2_dense, resnet18 or resnet50; others "
     "are written as layers in the run file."},
    {"worker_binary", kModel, kRunning, kText, "deployment.worker_binary", "PROGRAM",
     "The workers run this program, which has a model of its own (worker/main.h); the run file's "
     "model is then of no use."},
    {"worker_binary", kModel, kReading, kText, "deployment.worker_binary", "PROGRAM",
     "The program with the run's own model, where that has moved. Default: the run's."},
    {"loss", kModel, kRunning, kText, "model.loss", "NAME",
     "sparse_softmax_cross_entropy, softmax_cross_entropy, sigmoid_cross_entropy, log_loss, "
     "mean_squared_error, absolute_difference, hinge, huber or cosine_distance. Default: what "
     "suits the model."},
    {"data_dir", kModel, kRunning, kText, "data.directory", "DIR",
     "Directory of the data set: IDX, CIFAR or TFRecord files, CSV tables, npy arrays, or folders "
     "of PNG and JPEG images, one per class. Default {default}."},
    {"data_dir", kModel, kReading, kText, "data.directory", "DIR",
     "Directory of the data set, where that has moved. Default: the run's."},
    {"data_format", kModel, kRunning, kText, "data.format", "NAME",
     "idx, image_folder, cifar10, cifar100, csv, npy, tfrecord, synthetic_regression or "
     "synthetic_classification. Default: what the directory holds."},

    {"num_ps_tasks", kTasks, kScopeTrain, kText, "deployment.num_ps_tasks", "N",
     "Parameter servers. 0: everything in one process. Default {default}."},
    {"num_ps_tasks", kTasks, kScopeTask, kText, "deployment.num_ps_tasks", "N",
     "Parameter servers. Default of a chief: what --ps_hosts, --cluster or the launcher says. The "
     "other tasks need not know."},
    {"num_replicas", kTasks, kScopeTrain, kText, "deployment.num_replicas", "N",
     "Workers, those beyond --replicas_to_aggregate included. Default {default}, or 1 with "
     "--num_ps_tasks=0."},
    {"num_replicas", kTasks, kScopeTask, kText, "deployment.num_replicas", "N",
     "Workers, those beyond --replicas_to_aggregate included. Default of a chief: what "
     "--worker_hosts, --cluster or the launcher says, or else 1. The other tasks need not know."},
    {"num_clones", kTasks, kRunning, kText, "deployment.num_clones", "N",
     "Copies of the model in each worker, one per device. Default {default}."},
    {"devices", kTasks, kRunning, kText, "deployment.devices", "LIST",
     "One device per clone, any numbers: /cpu:0,/cpu:1 or /gpu:0,/gpu:2,/gpu:3."},
    {"devices", kTasks, kScopePredict, kText, "deployment.devices", "LIST",
     "Devices that the examples are split over, any numbers: /cpu:0,/cpu:1 or /gpu:0,/gpu:2. "
     "Default: the run's, or as many CPUs as it has clones."},
    {"variables", kTasks, kRunning, kText, "deployment.variables", "cpu|first_device|mirrored",
     "With --num_ps_tasks=0: where gradients are summed and variables are listed. mirrored: on "
     "every device, each gets the sums of its share. Default {default}."},
    {"threads", kTasks, kRunning, kText, "deployment.threads", "N",
     "Compute threads per clone. Default {default}. Part of what decides the bytes of a result."},
    {"threads", kTasks, kScopePredict, kText, "deployment.threads", "N",
     "Compute threads per device. Default: the run's."},
    {"compute_dtype", kTasks, kRunning, kText, "compute_dtype", "float32|bfloat16",
     "bfloat16: inputs of products are rounded to it and summed in float32, for GPUs; variables, "
     "gradients and all else stay float32. Default {default}."},
    {"compute_dtype", kTasks, kScopePredict, kText, "compute_dtype", "float32|bfloat16",
     "What products are computed from. Default: the run's."},
    {"clone_on_cpu", kTasks, kRunning, kBool, "deployment.clone_on_cpu", "",
     "Put clones on CPUs even where there are GPUs."},
    {"sync_replicas", kTasks, kRunning, kBool, "sync.sync_replicas", "",
     "Synchronous training: a step is the mean over replicas_to_aggregate batches. Default; "
     "--nosync_replicas applies every batch by itself."},
    {"replicas_to_aggregate", kTasks, kRunning, kText, "sync.replicas_to_aggregate", "N",
     "Batches per synchronous step. Default: num_replicas. The result depends on it, not on the "
     "number of workers."},
    {"max_staleness", kTasks, kRunning, kText, "sync.max_staleness", "N",
     "Asynchronous: how many updates a batch may be late. -1: unlimited, the default."},
    {"clock_bound", kTasks, kRunning, kText, "sync.clock_bound", "N",
     "Asynchronous: how many batches a worker may be ahead of the slowest. -1: no bound, the "
     "default."},
    {"allow_mixed_compute", kTasks, kRunning, kBool, "sync.allow_mixed_compute", "",
     "Let workers with other processors or libraries join; results are then not the same bytes."},
    {"slice_bytes", kTasks, kRunning, kText, "cluster.slice_bytes", "N",
     "Size of the pieces that variables are cut into, a multiple of 64. Default, which 0 stands "
     "for: what the checkpoint has, or else {default}."},
    {"lease_seconds", kTasks, kRunning, kText, "cluster.lease_seconds", "N",
     "A task that the chief has not heard of for so long counts as dead. Default {default}, which "
     "0 "
     "stands for."},
    {"wait_seconds", kTasks, kRunning, kText, "cluster.wait_seconds", "N",
     "How long the run waits for tasks to register, for ps to load, for a worker to come back and "
     "for anything to go forward, before it ends. Default {default}, which 0 stands for."},
    {"ps_return_seconds", kTasks, kRunning, kText, "cluster.ps_return_seconds", "N",
     "How long the run waits for a lost ps to come back, before it ends. Default {default}, which "
     "0 "
     "stands for."},
    {"stall_seconds", kTasks, kRunning, kText, "cluster.stall_seconds", "N",
     "A worker that computes one batch for so long counts as hung: others get its work. Default "
     "{default}, which 0 stands for."},
    {"grace_seconds", kTasks, kRunning, kText, "cluster.grace_seconds", "N",
     "How long the last checkpoint may take when a run or a task is told to end. Default "
     "{default}; more "
     "where shards are large, and as much more for whoever kills what does not end."},
    {"ps_memory", kTasks, kRunning, kText, "cluster.ps_memory", "N",
     "Bytes that each parameter server may use. A model for which it does not suffice is refused "
     "with a list of what needs how much. Default: what its cgroup or the machine allows."},
    {"ps_threads", kTasks, kRunning, kText, "cluster.ps_threads", "N",
     "How many threads of each ps add up and apply contributions. Default, which 0 stands for: as "
     "many as its machine has cores, at most 8."},
    {"cuda_graphs", kTasks, kRunning, kBool, "deployment.cuda_graphs", "",
     "Record the step of each GPU once and replay it, where it can be recorded; else a line of log "
     "says why not."},
    {"log_device_placement", kTasks, kRunning, kBool, "deployment.log_device_placement", "",
     "Print the device of every node of the graph."},
    {"allow_soft_placement", kTasks, kRunning, kBool, "deployment.allow_soft_placement", "",
     "Use a CPU where a device or a kernel is missing. Default; --noallow_soft_placement fails "
     "instead."},
    {"allow_soft_placement", kTasks, kScopePredict, kBool, "deployment.allow_soft_placement", "",
     "Use a CPU where a device or a kernel is missing; --noallow_soft_placement fails instead. "
     "Default: as the run had it."},
    {"worker_job_name", kTasks, kRunning, kText, "deployment.worker_job_name", "NAME",
     "Name of the workers' job in device strings. Default {default}."},
    {"ps_job_name", kTasks, kRunning, kText, "deployment.ps_job_name", "NAME",
     "Name of the parameter servers' job in device strings. Default {default}."},
    {"metrics_address", kTasks, kScopeTrain, kText, "", "ADDRESS",
     "Serve /metrics for Prometheus, /healthz, /readyz and /statusz over HTTP: the chief there, "
     "the "
     "other tasks at free ports of their hosts, see DIR/monitoring. Port 0: any free one. Default: "
     "nowhere."},
    {"metrics_address", kTasks, kScopeTask, kText, "", "ADDRESS",
     "Serve /metrics for Prometheus, /healthz, /readyz and /statusz there, over HTTP. Port 0: any "
     "free one, see the log. Default: nowhere."},
    {"insecure", kTasks, kRunning, kBool, "", "",
     "Serve on addresses that other machines can reach, although connections are not encrypted."},
    {"tls_cert", kTasks, kRunning, kText, "", "FILE",
     "This task's certificate, PEM, with what leads to the authority. With --tls_key and --tls_ca "
     "all connections are mutual TLS; see docs/security.md. \"{job}\" in the three stands for the "
     "task's job. Read again when they change."},
    {"tls_cert", kTasks, kScopeControl, kText, "", "FILE",
     "A certificate with the role operator, PEM, with what leads to the authority; needed with "
     "--tls_key and --tls_ca where the run has certificates. \"{job}\" in the three stands for "
     "operator. See docs/security.md."},
    {"tls_key", kTasks, kRunning | kScopeControl, kText, "", "FILE",
     "The key of --tls_cert, PEM, not encrypted."},
    {"tls_ca", kTasks, kRunning | kScopeControl, kText, "", "FILE",
     "Certificates of the authorities that peers' certificates must come from, PEM."},
    {"hosts", kTasks, kScopeHosts, kText, "", "FILE",
     "The hosts, one a line: NAME [slots=N] [roles=chief,ps,worker] [address=A] [user=U] "
     "[port=P]."},
    {"ssh_config", kTasks, kScopeHosts, kText, "", "FILE",
     "The configuration of OpenSSH's client. Default: its own."},

    {"job_name", kHand, kScopeTask, kText, "", "JOB",
     "chief, ps, worker or evaluator, for `shoal task`. Other commands say it already; another "
     "value is an error."},
    {"cluster_from", kHand, kScopeTask, kText, "", "SOURCE",
     "Who says which task this is and where the others are: flags, file (--cluster), tf_config, "
     "jobset, kubernetes, mpi, torchrun or slurm. Default auto: the first of them that does."},
    {"task_index", kHand, kScopeTask, kText, "", "N",
     "Which task of its job this process is, from 0. Default 0 where the job has one task."},
    {"replica_id", kHand, kScopeTask, kText, "deployment.replica_id", "N",
     "TF-Slim's name of a worker's task_index."},
    {"ps_hosts", kHand, kScopeTask, kText, "", "LIST",
     "Addresses of all parameter servers, host:port with commas, in order of task_index."},
    {"worker_hosts", kHand, kScopeTask, kText, "", "LIST", "Addresses of all workers, likewise."},
    {"chief_host", kHand, kScopeTask, kText, "", "ADDRESS",
     "Address of the chief. With --task_index it is enough for a worker or ps: they learn the rest "
     "from it."},
    {"chief_port", kHand, kScopeTask, kText, "", "PORT",
     "The chief's port where --chief_host or the launcher names only its host. Default: the "
     "launcher's, e.g. 15000 + job number % 10000 under Slurm; 2222 in Kubernetes."},
    {"cluster", kHand, kScopeTask, kText, "", "FILE",
     "A text proto of shoal.v1.ClusterSpec, instead of the three above."},
    {"listen_address", kHand, kScopeTask, kText, "", "ADDRESS",
     "Where to serve, if not at the task's own address in the cluster. Port 0: any free one. A "
     "worker serves only its gRPC health, if it has an address at all."},
    {"advertise", kHand, kScopeTask, kText, "", "ADDRESS",
     "What others dial, host or host:port, if not where this task serves. Default of a ps that "
     "serves at every address: $POD_IP, or the address of this machine toward the chief."},
    {"log_file", kHand, kScopeTask, kText, "", "FILE",
     "Append the log there. Default: standard error."},
    {"answer", kHand, kScopeTask, kText, "", "FILE", "Launcher: say there what the model is.",
     true},
    {"report_fd", kHand, kScopeTask, kText, "", "FD", "Launcher: report the address there.", true},
    {"parent_pid", kHand, kScopeTask, kText, "", "PID", "Launcher: die with this process.", true},

    {"step", kFinished, kReading | kScopeExport, kText, "", "N",
     "The checkpoint of this step. Default: the newest."},
    {"use_averages", kFinished, kReading | kScopeExport, kBool, "", "",
     "Use the moving average of each variable instead of its value, in a run with "
     "optimizer.moving_average_decay."},
    {"model_file", kFinished, kScopeExport, kText, "", "FILE",
     "Where to write the variables; ends in .safetensors. Default: DIR/model.safetensors."},
    {"input", kFinished, kScopePredict, kText, "", "FILE|FOLDER",
     "Examples without labels: a PNG or JPEG file, a folder of them, an array [examples, ...] in "
     ".npy, or a table of numbers in .csv; "
     "uint8 .npy alone is divided by 255. Default: the test split of the run's data."},
    {"predictions", kFinished, kScopePredict, kText, "", "FILE",
     "Where to write them, a row per example in order: .npy or .csv. Default: "
     "DIR/predictions.npy."},
    {"probabilities", kFinished, kScopePredict, kBool, "", "",
     "Write probabilities: the softmax of a classifier's outputs, the sigmoid with the loss "
     "sigmoid_cross_entropy."},

    {"json", kUnderWay, kScopeStatus, kBool, "", "", "Print one JSON object."},
    {"timeout", kUnderWay, kScopeSave, kText, "", "SECONDS",
     "How long to wait for the checkpoint, or for the end. Default 60."},
    {"timeout", kUnderWay, kScopeHealth, kText, "", "SECONDS",
     "How long to wait for an answer. Default 5."},
    {"service", kUnderWay, kScopeHealth, kText, "", "ps|chief|worker",
     "Ask whether this role can do its work. Default: whether the process lives."},
};

}  // namespace

absl::Span<const FlagSpec> FlagTable() { return kTable; }

}  // namespace shoal

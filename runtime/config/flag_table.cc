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

// A flag whose meaning or default differs between commands stands once for each. In a help text,
// "{default}" is the field's default (defaults.h), and "{models}", "{losses}", "{optimizers}" and
// "{formats}" are the names that a run file may use.
constexpr FlagSpec kTable[] = {
    {"run", kRun, kRunning, kText, "", "FILE",
     "The run file, a text proto of shoal.v1.RunConfig, such as deploy/runs/fashion_cnn.textproto. "
     "Every other flag changes the run it describes."},
    {"run", kRun, kReading | kScopeExport | kScopeLookup, kText, "", "FILE",
     "A run file to use instead of DIR/run.textproto. A run.textproto inside a run's "
     "directory also sets --out."},
    {"set", kRun, kScopeAll, kText, "", "PATH=VALUE",
     "Any field of the run file by its path, e.g. --set optimizer.adam.beta1=0.8. Repeatable."},
    {"out", kRun, kScopeTrain, kText, "out", "DIR",
     "The run's directory: run.textproto, cluster.textproto, logs, checkpoints, metrics.jsonl, "
     "summary.json, report.html. Default: runs/NAME-TIME-PROCESS."},
    {"out", kRun, kScopeTask, kText, "out", "DIR",
     "The run's directory, the same for all tasks: run.textproto, cluster.textproto, checkpoints, "
     "metrics.jsonl, summary.json. Needed here or in the run file."},
    {"out", kRun, kReading | kScopeExport | kScopeLookup, kText, "out", "DIR",
     "The directory of the run: its run.textproto and checkpoints are read. Needed, unless --run "
     "names it or DIR is the command's only argument."},
    {"name", kRun, kRunning, kText, "name", "NAME",
     "The name of the run. Default: that in the run file, or its model's name."},
    {"resume", kRun, kRunning, kText, "checkpoint.resume", "auto|never|must",
     "auto resumes from the newest valid checkpoint in DIR, if there is one; must fails without "
     "one; never refuses a DIR that has one. Default {default}."},

    {"max_steps", kTraining, kRunning, kText, "max_steps", "N",
     "Stop after N updates in total, each of replicas_to_aggregate batches in synchronous and of "
     "one batch in asynchronous training. 0: num_epochs decides."},
    {"num_epochs", kTraining, kRunning, kText, "num_epochs", "N",
     "Stop after N epochs, or after --max_steps if that comes first. 0: max_steps decides."},
    {"batch_size", kTraining, kRunning, kText, "batch_size", "N",
     "Examples per clone and step; overrides replica_batch_size in the run file. Default "
     "{default}."},
    {"batch_size", kTraining, kScopePredict, kText, "batch_size", "N",
     "Examples per device at a time. Default: the run's."},
    {"replica_batch_size", kTraining, kRunning, kText, "replica_batch_size", "N",
     "Examples per worker and step, divided as evenly as possible among its clones, instead of "
     "--batch_size. The run then does not depend on the number of devices. 0: batch_size x "
     "num_clones."},
    {"optimizer", kTraining, kRunning, kText, "", "NAME",
     "{optimizers}. Set parameters by --set, e.g. optimizer.momentum.momentum=0.95."},
    {"learning_rate", kTraining, kRunning, kText, "optimizer.learning_rate", "X",
     "Default {default}; adam and adamw {adam_default}. Schedules: --set "
     "optimizer.schedule.kind=cosine."},
    {"seed", kTraining, kRunning, kText, "seed", "N",
     "Seed of the initial values and of the order of the data. Default {default}. Synchronous runs "
     "with equal seeds give equal bytes."},
    {"init_from", kTraining, kRunning, kText, "init_from", "PATH",
     "Start from existing values: a safetensors file, a run's directory, that of one of its "
     "checkpoints, or one with NAME.keys.npy and NAME.values.npy of tables, and with "
     "model.safetensors if other variables shall start from there. A checkpoint in DIR takes "
     "precedence."},
    {"init_map", kTraining, kRunning, kText, "init_map", "RULES",
     "Comma-separated rules EXPRESSION=NAME that map whole names of variables to names of tensors "
     "in --init_from, as in body/(.*)=resnet/\\1,logits/.*= where the last lets logits start from "
     "its initializer."},
    {"init_state", kTraining, kRunning, kBool, "init_state", "",
     "Continue the training of --init_from: take its optimizer's slots too, and the counts and "
     "ages of the keys of tables. The optimizers must be the same. Learning-rate schedules begin "
     "anew, and so does Adam's t, which makes its first steps shorter."},
    {"trainable", kTraining, kRunning, kText, "trainable", "LIST",
     "Train only the parameters whose whole names match one of these regular expressions, with "
     "commas. Default: all."},
    {"save_every", kTraining, kRunning, kText, "checkpoint.save_every", "N",
     "Updates between checkpoints. 0: every epoch."},
    {"save_seconds", kTraining, kRunning, kText, "checkpoint.save_seconds", "N",
     "Seconds after which a checkpoint is made even if --save_every makes none. Default {default}; "
     "0: only --save_every counts."},
    {"export_every", kTraining, kRunning, kText, "checkpoint.export_every", "N",
     "Every so many checkpoints get a model.safetensors; the run's last one always does. Default "
     "{default}; 0: only the last one."},
    {"eval_every", kTraining, kRunning, kText, "eval_every", "N",
     "Updates between evaluations on the test split. 0: every epoch."},
    {"scalars_every", kTraining, kRunning, kText, "summary.scalars_every", "N",
     "Updates between points of loss, accuracy, learning rate and speed in DIR/events, for "
     "TensorBoard. Default {default}; 0: none."},
    {"summarize_every", kTraining, kRunning, kText, "summary.model_every", "N",
     "Updates between summaries of the model in DIR/events: histograms and norms of gradients, "
     "losses, summaries that the model defines. Default 0: none."},
    {"metrics", kTraining, kRunning, kText, "metrics", "LIST",
     "Metrics in addition to loss and accuracy, with commas: log_loss, mean_absolute_error, auc, "
     "calibration, top_5_accuracy (any number). Default: none. A program of yours declares its "
     "own."},
    {"log_every", kTraining, kRunning, kText, "log_every", "N",
     "Updates between console lines if the output is not a terminal. 0: every few seconds. "
     "metrics.jsonl always has every update."},

    {"model", kModel, kRunning, kText, "model.name", "NAME",
     "{models}; others are written as layers in the run file, see also `shoal model`."},
    {"worker_binary", kModel, kRunning, kText, "deployment.worker_binary", "PROGRAM",
     "The workers run this program, which has its own model (worker/main.h). The run file must not "
     "have a model then."},
    {"worker_binary", kModel, kReading, kText, "deployment.worker_binary", "PROGRAM",
     "The program with the run's own model, if it has moved. Default: the run's."},
    {"program", kModel, kRunning, kText, "program.file", "FILE",
     "Each worker starts this program, which computes its batches: a Python program (FILE.py) or "
     "any other that speaks the protocol of docs/compute_program.md. It has the model and the "
     "data. Its arguments follow `--`."},
    {"python", kModel, kRunning, kText, "program.python", "PROGRAM",
     "The interpreter of a program FILE.py; {default} if it is not given."},
    {"loss", kModel, kRunning, kText, "model.loss", "NAME",
     "{losses}. Default: that of the named model, otherwise {default_loss}."},
    {"data_dir", kModel, kRunning, kText, "data.directory", "DIR",
     "Directory of the data set: IDX, CIFAR or TFRecord files, CSV tables, npy arrays, or folders "
     "of PNG and JPEG images, one per class. Default {default}."},
    {"data_dir", kModel, kReading, kText, "data.directory", "DIR",
     "Directory of the data set, if it has moved. Default: the run's."},
    {"data_format", kModel, kRunning, kText, "data.format", "NAME",
     "{formats}. Default: the format of the directory's files."},

    {"num_ps_tasks", kTasks, kScopeTrain, kText, "deployment.num_ps_tasks", "N",
     "Number of parameter servers. 0: everything in one process. Default {default}."},
    {"num_ps_tasks", kTasks, kScopeTask, kText, "deployment.num_ps_tasks", "N",
     "Number of parameter servers. Default of a chief: that of --ps_hosts, --cluster or the "
     "launcher. The other tasks do not need it."},
    {"num_replicas", kTasks, kScopeTrain, kText, "deployment.num_replicas", "N",
     "Number of workers, including those beyond --replicas_to_aggregate. Default {default}, or 1 "
     "with --num_ps_tasks=0."},
    {"num_replicas", kTasks, kScopeTask, kText, "deployment.num_replicas", "N",
     "Number of workers, including those beyond --replicas_to_aggregate. Default of a chief: that "
     "of --worker_hosts, --cluster or the launcher, otherwise 1. The other tasks do not need it."},
    {"num_clones", kTasks, kRunning, kText, "deployment.num_clones", "N",
     "Copies of the model in each worker, one per device. Default {default}."},
    {"devices", kTasks, kRunning, kText, "deployment.devices", "LIST",
     "One device per clone, with any indices: /cpu:0,/cpu:1 or /gpu:0,/gpu:2,/gpu:3."},
    {"devices", kTasks, kScopePredict, kText, "deployment.devices", "LIST",
     "Devices that the examples are split over, with any indices: /cpu:0,/cpu:1 or /gpu:0,/gpu:2. "
     "Default: the run's, or one CPU for each of its clones."},
    {"variables", kTasks, kRunning, kText, "deployment.variables", "cpu|first_device|mirrored",
     "The place of the variables with --num_ps_tasks=0, where gradients are summed. mirrored: on "
     "every device, each of which sums a part of the gradients. Default {default}."},
    {"threads", kTasks, kRunning, kText, "deployment.threads", "N",
     "Compute threads per clone. Default {default}. The bytes of a result depend on it."},
    {"threads", kTasks, kScopePredict, kText, "deployment.threads", "N",
     "Compute threads per device. Default: the run's."},
    {"compute_dtype", kTasks, kRunning, kText, "compute_dtype", "float32|bfloat16",
     "bfloat16: inputs of products are rounded to bfloat16, which is faster on GPUs, and summed in "
     "float32; variables and gradients stay float32. Default {default}."},
    {"compute_dtype", kTasks, kScopePredict, kText, "compute_dtype", "float32|bfloat16",
     "The type of the inputs of products. Default: the run's."},
    {"clone_on_cpu", kTasks, kRunning, kBool, "deployment.clone_on_cpu", "",
     "Put clones on CPUs even where there are GPUs."},
    {"sync_replicas", kTasks, kRunning, kBool, "sync.sync_replicas", "",
     "Synchronous training: a step applies the mean over replicas_to_aggregate batches. Default; "
     "--nosync_replicas applies every batch by itself."},
    {"replicas_to_aggregate", kTasks, kRunning, kText, "sync.replicas_to_aggregate", "N",
     "Batches per synchronous step. Default: num_replicas. The result depends on it, not on the "
     "number of workers."},
    {"max_staleness", kTasks, kRunning, kText, "sync.max_staleness", "N",
     "Asynchronous: the most updates that may happen between a batch's pull and its push. "
     "{default}, the default: unlimited."},
    {"clock_bound", kTasks, kRunning, kText, "sync.clock_bound", "N",
     "Asynchronous: the most batches that a worker may be ahead of the slowest one. "
     "{default}, the default: unlimited."},
    {"allow_mixed_compute", kTasks, kRunning, kBool, "sync.allow_mixed_compute", "",
     "Accept workers with other processors or libraries. Results then do not have the same bytes."},
    {"slice_bytes", kTasks, kRunning, kText, "cluster.slice_bytes", "N",
     "Size of the slices that variables are divided into, a multiple of 64. Default, also for 0: "
     "that of the checkpoint, or {default}."},
    {"lease_seconds", kTasks, kRunning, kText, "cluster.lease_seconds", "N",
     "A task whose heartbeats the chief has not received for this time counts as dead. Default "
     "{default}, also for 0."},
    {"wait_seconds", kTasks, kRunning, kText, "cluster.wait_seconds", "N",
     "Seconds that the run waits for tasks to register, for ps to load, for a worker to return and "
     "for any progress, before it ends. Default {default}, also for 0."},
    {"ps_return_seconds", kTasks, kRunning, kText, "cluster.ps_return_seconds", "N",
     "Seconds that the run waits for a lost ps to return, before it ends. Default {default}, also "
     "for 0."},
    {"stall_seconds", kTasks, kRunning, kText, "cluster.stall_seconds", "N",
     "A worker that computes one batch for this time counts as hung, and others get its work. "
     "Default {default}, also for 0."},
    {"grace_seconds", kTasks, kRunning, kText, "cluster.grace_seconds", "N",
     "Seconds that the last checkpoint may take when a run or a task is asked to end. Default "
     "{default}. Raise it for large shards, and raise the kill timeout of the scheduler by as "
     "much."},
    {"ps_memory", kTasks, kRunning, kText, "cluster.ps_memory", "N",
     "Bytes that each parameter server may use. A model that needs more is refused with a list of "
     "its needs. If the rows of tables grow beyond it, the run makes a checkpoint and ends with "
     "exit code 78; it continues with more ps or memory. Default: what its cgroup or the machine "
     "allows."},
    {"ps_threads", kTasks, kRunning, kText, "cluster.ps_threads", "N",
     "The number of threads of each ps that add and apply contributions. Default, also for 0: as "
     "many as its machine has cores, at most 8."},
    {"cuda_graphs", kTasks, kRunning, kBool, "deployment.cuda_graphs", "",
     "Record the step of each GPU once and replay it. If it cannot be recorded, a log line gives "
     "the reason."},
    {"log_device_placement", kTasks, kRunning, kBool, "deployment.log_device_placement", "",
     "Print the device of every node of the graph."},
    {"allow_soft_placement", kTasks, kRunning, kBool, "deployment.allow_soft_placement", "",
     "Use a CPU if a device or a kernel is missing. Default; --noallow_soft_placement fails "
     "instead."},
    {"allow_soft_placement", kTasks, kScopePredict, kBool, "deployment.allow_soft_placement", "",
     "Use a CPU if a device or a kernel is missing; --noallow_soft_placement fails instead. "
     "Default: the run's."},
    {"worker_job_name", kTasks, kRunning, kText, "deployment.worker_job_name", "NAME",
     "Name of the workers' job in device strings. Default {default}."},
    {"ps_job_name", kTasks, kRunning, kText, "deployment.ps_job_name", "NAME",
     "Name of the parameter servers' job in device strings. Default {default}."},
    {"metrics_address", kTasks, kScopeTrain, kText, "", "ADDRESS",
     "Serve over HTTP: the chief at this address the page of the run for browsers, and every task "
     "/metrics for Prometheus, /healthz, /readyz and /statusz, the others at free ports of their "
     "hosts, see DIR/monitoring. Port 0: a free port, which is printed. Default: not served."},
    {"metrics_address", kTasks, kScopeTask, kText, "", "ADDRESS",
     "Serve /metrics for Prometheus, /healthz, /readyz and /statusz at this address, over HTTP. "
     "Port 0: a free port, see the log. Default: not served."},
    {"insecure", kTasks, kRunning, kBool, "", "",
     "Serve on addresses that other machines can reach, although connections are not encrypted."},
    {"tls_cert", kTasks, kRunning, kText, "", "FILE",
     "This task's certificate chain (PEM). With --tls_key and --tls_ca all connections are mutual "
     "TLS; see docs/security.md. \"{job}\" in the three paths stands for the task's job. Changed "
     "files are read again."},
    {"tls_cert", kTasks, kScopeControl, kText, "", "FILE",
     "The operator's certificate chain (PEM); needed with --tls_key and --tls_ca if the run has "
     "certificates. \"{job}\" in the three paths stands for operator. See docs/security.md."},
    {"tls_key", kTasks, kRunning | kScopeControl, kText, "", "FILE",
     "The private key of --tls_cert (PEM, not encrypted)."},
    {"tls_ca", kTasks, kRunning | kScopeControl, kText, "", "FILE",
     "Certificates of the authorities that sign peers' certificates (PEM)."},
    {"hosts", kTasks, kScopeHosts, kText, "", "FILE",
     "The hosts, one per line: NAME [slots=N] [roles=chief,ps,worker] [address=A] [user=U] "
     "[port=P]."},
    {"ssh_config", kTasks, kScopeHosts, kText, "", "FILE",
     "The configuration file of the OpenSSH client. Default: the client's own."},

    {"job_name", kHand, kScopeTask, kText, "", "JOB",
     "chief, ps, worker or evaluator, for `shoal task`. Other commands name the job themselves; "
     "another value is an error."},
    {"cluster_from", kHand, kScopeTask, kText, "", "SOURCE",
     "The source of this task's job and index and of the other tasks' addresses: flags, file "
     "(--cluster), tf_config, jobset, kubernetes, mpi, torchrun or slurm. Default auto: the first "
     "one that is present."},
    {"task_index", kHand, kScopeTask, kText, "", "N",
     "The index of this process in its job, from 0. Default 0 if the job has one task."},
    {"replica_id", kHand, kScopeTask, kText, "deployment.replica_id", "N",
     "TF-Slim's name of a worker's task_index."},
    {"ps_hosts", kHand, kScopeTask, kText, "", "LIST",
     "Addresses of all parameter servers: host:port, separated by commas, in order of task_index."},
    {"worker_hosts", kHand, kScopeTask, kText, "", "LIST",
     "Addresses of all workers, in the same form."},
    {"chief_host", kHand, kScopeTask, kText, "", "ADDRESS",
     "Address of the chief. A worker or ps needs only this and --task_index; it receives the rest "
     "from the chief."},
    {"chief_port", kHand, kScopeTask, kText, "", "PORT",
     "The chief's port if --chief_host or the launcher names only its host. Default: the "
     "launcher's, e.g. 15000 + job number % 10000 under Slurm; 2222 in Kubernetes."},
    {"cluster", kHand, kScopeTask, kText, "", "FILE",
     "A text proto of shoal.v1.ClusterSpec, instead of --ps_hosts, --worker_hosts and "
     "--chief_host."},
    {"listen_address", kHand, kScopeTask, kText, "", "ADDRESS",
     "The address to serve at, if not the task's address in the cluster. Port 0: a free port. A "
     "worker serves only its gRPC health, and only if it has an address."},
    {"advertise", kHand, kScopeTask, kText, "", "ADDRESS",
     "The host or host:port that others dial, if not the address at which this task serves. "
     "Default of a ps that serves at every address: $POD_IP, or the address of this machine toward "
     "the chief."},
    {"log_file", kHand, kScopeTask, kText, "", "FILE",
     "Append the log to this file. Default: standard error."},
    {"answer", kHand, kScopeTask, kText, "", "FILE", "Launcher: write the model to this file.",
     true},
    {"use_averages", kHand, kScopeTask, kBool, "", "",
     "Evaluator: evaluate the moving average of each variable instead of its value, in a run with "
     "optimizer.moving_average_decay."},
    {"report_fd", kHand, kScopeTask, kText, "", "FD",
     "Launcher: report the address to this descriptor.", true},
    {"local_worker", kHand, kScopeTask, kText, "", "N",
     "Launcher: the worker's number among those of its host, from 0.", true},
    {"parent_pid", kHand, kScopeTask, kText, "", "PID", "Launcher: die with this process.", true},

    {"step", kFinished, kReading | kScopeExport | kScopeLookup, kText, "", "N",
     "The checkpoint of this step. Default: the newest."},
    {"use_averages", kFinished, kReading | kScopeExport, kBool, "", "",
     "Use the moving average of each variable instead of its value, in a run with "
     "optimizer.moving_average_decay."},
    {"model_file", kFinished, kScopeExport, kText, "", "FILE",
     "Where to write the variables; ends in .safetensors. Default: DIR/model.safetensors, and "
     "nowhere with --tables."},
    {"tables", kFinished, kScopeExport, kText, "", "DIR",
     "Write the rows of tables, as TABLE.keys.npy and TABLE.values.npy, to this directory, and "
     "last export.json, which says what they are."},
    {"since", kFinished, kScopeExport, kText, "", "STEP|CHECKPOINT",
     "With --tables: only rows that are new or changed since the run's checkpoint of this step, or "
     "since the checkpoint in this directory, and TABLE.removed.npy with the keys that are gone."},
    {"table", kFinished, kScopeLookup, kText, "", "TABLE", "The table. Needed."},
    {"words", kFinished, kScopeLookup, kBool, "", "",
     "Each KEY is a word of a column with `words: true`; its key is that of the data, "
     "XXH3-64(word)."},
    {"input", kFinished, kScopePredict, kText, "", "FILE|FOLDER",
     "Examples without labels: a PNG or JPEG file, a folder of them, an array [examples, ...] in "
     ".npy, lines in .csv or .tsv, or records in .tfrecord. Only an array of uint8 is divided by "
     "255. Default: the test split of the run's data."},
    {"predictions", kFinished, kScopePredict, kText, "", "FILE",
     "The output file, .npy or .csv, with a row per example in order. Default: "
     "DIR/predictions.npy."},
    {"probabilities", kFinished, kScopePredict, kBool, "", "",
     "Write probabilities: the softmax of a classifier's outputs, the sigmoid with the loss "
     "sigmoid_cross_entropy."},

    {"json", kUnderWay, kScopeStatus, kBool, "", "", "Print one JSON object."},
    {"timeout", kUnderWay, kScopeSave, kText, "", "SECONDS",
     "The time to wait for the checkpoint, or for the end of the run. Default {save_timeout}."},
    {"timeout", kUnderWay, kScopeHealth, kText, "", "SECONDS",
     "The time to wait for an answer. Default {health_timeout}."},
    {"service", kUnderWay, kScopeHealth, kText, "", "ps|chief|worker",
     "Ask whether this role can do its work. Default: ask whether the process is alive."},
};

}  // namespace

absl::Span<const FlagSpec> FlagTable() { return kTable; }

}  // namespace shoal

#include "worker/program/program_inputs.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "base/clock.h"
#include "base/file_system.h"
#include "base/find_file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/passing_errors.h"
#include "base/status_macros.h"
#include "runtime/checkpoint/checkpoint_directory.h"
#include "runtime/checkpoint/initial_model.h"
#include "runtime/checkpoint/safetensors.h"
#include "runtime/config/defaults.h"
#include "runtime/config/program_settings.h"
#include "runtime/config/run_config.h"
#include "runtime/config/stop_times.h"
#include "runtime/process/shutdown.h"
#include "runtime/task/task_options.h"
#include "worker/program/external_program.h"
#include "worker/program/program_gpus.h"
#include "worker/program/program_process.h"

namespace shoal {
namespace {

constexpr double kPartOfWait = 0.8;

// The examples are with the program: here they have only numbers.
class ProgramDataset : public Dataset {
 public:
  ProgramDataset(uint64_t size, uint64_t fingerprint)
      : size_(static_cast<int64_t>(size)), fingerprint_(CombineFingerprints(size, fingerprint)) {}

  int64_t size() const override { return size_; }
  const std::vector<FieldSpec>& fields() const override { return fields_; }
  uint64_t fingerprint() const override { return fingerprint_; }
  absl::Status FillBatch(uint32_t /*epoch*/, absl::Span<const int64_t> /*indices*/,
                         absl::Span<void* const> /*outputs*/) const override {
    return absl::OkStatus();
  }

 private:
  const int64_t size_;
  const uint64_t fingerprint_;
  const std::vector<FieldSpec> fields_;
};

bool IsPython(const v1::ProgramConfig& program) { return absl::EndsWith(program.file(), ".py"); }

std::vector<std::string> MakeCommand(const v1::ProgramConfig& program) {
  std::vector<std::string> command;
  if (IsPython(program)) {
    // -u: what it prints is in the log at once.
    command = {program.python().empty() ? DefaultText("program.python") : program.python(), "-u"};
  }
  command.push_back(program.file());
  command.insert(command.end(), program.args().begin(), program.args().end());
  return command;
}

// Returns what to do if the system does not execute the command.
std::string RemedyForCommand(const v1::ProgramConfig& program) {
  return IsPython(program)
             ? "; install it on every host, or name another interpreter with --python=PROGRAM"
             : "; --program=FILE names a Python program (FILE.py) or one that may be executed";
}

std::string GetName(const v1::ProgramConfig& program) {
  return program.file().substr(program.file().rfind('/') + 1);
}

// The options of the start of a program.
struct StartOptions {
  uint32_t worker = 0;
  bool declares_only = false;
  std::string output_file;
  std::string log_file;
  std::optional<std::string> gpus;  // The value of kVisibleGpus; nullopt: the inherited one.
  bool has_started_before = false;
  const Clock* clock = nullptr;
  std::function<bool()> is_asked_to_end;
};

// Returns an error if the program's file cannot be read, which names it and not its interpreter:
// UNAVAILABLE if that may pass. A program without a slash that is not Python's is searched in PATH.
absl::Status CheckFile(const std::string& file) {
  if (!absl::EndsWith(file, ".py") || access(file.c_str(), R_OK) == 0) return absl::OkStatus();
  const int error = errno;
  const absl::Status status = StatusOfErrno(error, absl::StrCat("program: cannot read ", file));
  if (absl::IsUnavailable(status)) return status;
  const std::string text = absl::StrCat(status.message(), "; --program=FILE names the program");
  return error == EACCES ? absl::PermissionDeniedError(text) : absl::NotFoundError(text);
}

// A program that has started before in this run is there, so what keeps it from starting now is
// temporary: a file system that is not mounted, a process too many.
absl::Status Judged(const absl::Status& failure, bool has_started_before) {
  if (failure.ok() || !has_started_before) return failure;
  return absl::UnavailableError(failure.message());
}

absl::StatusOr<std::unique_ptr<ExternalProgram>> StartProgram(const v1::RunConfig& run,
                                                              const StartOptions& start) {
  RETURN_IF_ERROR(Judged(CheckFile(run.program().file()), start.has_started_before));
  ASSIGN_OR_RETURN(std::unique_ptr<ProgramMemory> memory, ProgramMemory::Create());
  ProgramProcess::Options process;
  process.args = MakeCommand(run.program());
  process.remedy = RemedyForCommand(run.program());
  process.output_file = start.output_file;
  process.log_file = start.log_file;
  process.clock = start.clock;
  if (start.gpus.has_value()) process.environment.emplace_back(kVisibleGpus, *start.gpus);
  process.parameters_fd = memory->parameters_fd();
  process.contributions_fd = memory->contributions_fd();
  // Less than the time for which the chief waits for the worker: this error names the program.
  process.patience = kPartOfWait * absl::Seconds(run.cluster().wait_seconds());
  absl::StatusOr<std::unique_ptr<ProgramProcess>> channel = ProgramProcess::Start(process);
  RETURN_IF_ERROR(Judged(channel.status(), start.has_started_before));
  ExternalProgram::Options options;
  options.name = GetName(run.program());
  options.log_file = start.log_file;
  options.has_started_before = start.has_started_before;
  options.clock = start.clock;
  options.welcome.declares_only = start.declares_only;
  options.welcome.worker = start.worker;
  options.welcome.num_workers = run.deployment().num_replicas();
  options.welcome.seed = run.seed();
  options.welcome.directory = run.out();
  options.welcome.run_file = PrintRunConfig(run);
  options.patience = process.patience;
  options.grace = ComputeStopTimes(run).drain;
  options.after_run = kProgramAfterRun;
  options.is_asked_to_end = start.is_asked_to_end;
  return ExternalProgram::Create(std::move(options), std::move(memory), *std::move(channel));
}

absl::StatusOr<ReplicaInputs> MakeReplicaInputs(const v1::RunConfig& run,
                                                ExternalProgram* program) {
  const ProgramDeclaration& declared = program->declaration();
  ReplicaInputs inputs;
  inputs.train =
      std::make_unique<ProgramDataset>(declared.train_examples, declared.data_fingerprint);
  if (declared.test_examples > 0) {
    inputs.test =
        std::make_unique<ProgramDataset>(declared.test_examples, declared.data_fingerprint);
  }
  RETURN_IF_ERROR(PlanBatches(run, &inputs));
  return inputs;
}

// Returns whether the run resumes from a checkpoint, so that nobody needs initial values.
absl::StatusOr<bool> HasCheckpoint(const std::string& run_directory, FileSystem* file_system) {
  const std::string root = JoinPath(run_directory, "checkpoints");
  ASSIGN_OR_RETURN(const std::optional<FileInfo> found, FindFile(*file_system, root));
  if (!found.has_value()) return false;
  ASSIGN_OR_RETURN(const std::unique_ptr<CheckpointDirectory> checkpoints,
                   CheckpointDirectory::Open(*file_system, root));
  ASSIGN_OR_RETURN(const std::vector<CheckpointName> names, checkpoints->List());
  return !names.empty();
}

absl::Status WriteFile(const std::string& bytes, const std::string& path, uint32_t worker,
                       FileSystem* file_system) {
  const std::string directory = path.substr(0, path.rfind('/'));
  RETURN_IF_ERROR(file_system->MakeDirectory(directory));
  // Other workers may write the same file now.
  const std::string own = absl::StrCat(path, ".worker-", worker);
  RETURN_IF_ERROR(WriteAtomically(*file_system, own, bytes));
  RETURN_IF_ERROR(file_system->Rename(own, path));
  return file_system->SyncDirectory(directory);
}

// Writes the values, if a run may begin with them, and returns their fingerprint. Programs that
// give equal values write one file.
absl::StatusOr<uint64_t> WriteInitialValues(const ExternalProgram& program, uint32_t worker,
                                            const std::string& run_directory,
                                            FileSystem* file_system) {
  ASSIGN_OR_RETURN(const std::vector<absl::Span<const float>> values, program.InitialValues());
  if (values.empty()) return 0;  // Rows start from their initializers.
  SafetensorsHeader header;
  uint64_t offset = 0;
  for (size_t v = 0; v < values.size(); ++v) {
    const v1::VariableSpec& variable = program.variables()[v];
    SafetensorsEntry entry;
    entry.name = variable.name();
    entry.shape.assign(variable.shape().begin(), variable.shape().end());
    entry.begin = offset;
    offset += values[v].size() * sizeof(float);
    entry.end = offset;
    header.tensors.push_back(std::move(entry));
  }
  std::string bytes = EncodeSafetensorsHeader(header);
  bytes.reserve(bytes.size() + offset);
  for (const absl::Span<const float> value : values) {
    bytes.append(reinterpret_cast<const char*>(value.data()), value.size() * sizeof(float));
  }
  const uint64_t fingerprint = Fingerprint64(bytes);
  const std::string path = InitialValuesPath(run_directory, fingerprint);
  // A worker that cannot see them now writes the same file again.
  if (FileExists(*file_system, path) || HasCheckpoint(run_directory, file_system).value_or(false)) {
    return fingerprint;
  }
  const absl::Status written = WriteFile(bytes, path, worker, file_system);
  if (written.ok()) return fingerprint;
  // The chief removes the files when the run has a checkpoint.
  const absl::StatusOr<bool> resumes = HasCheckpoint(run_directory, file_system);
  if (absl::IsUnavailable(resumes.status())) return resumes.status();
  if (!resumes.value_or(false)) return written;
  return fingerprint;
}

FinishReason ToFinishReason(const absl::Status& why) {
  if (why.ok()) return FinishReason::kOver;
  return absl::IsCancelled(why) ? FinishReason::kStopped : FinishReason::kFailed;
}

}  // namespace

absl::StatusOr<ReplicaInputs> LoadProgramInputs(TaskOptions* options) {
  const v1::RunConfig& run = options->run;
  const uint32_t worker = options->task.index;
  FileSystem* const file_system = options->file_system;
  const std::string logs = JoinPath(run.out(), "logs");
  RETURN_IF_ERROR(file_system->MakeDirectory(logs));
  const std::string log_file = JoinPath(logs, absl::StrCat("program-", worker, ".log"));
  StartOptions start;
  start.worker = worker;
  start.output_file = JoinPath(logs, absl::StrCat("program-", worker, ".out"));
  start.log_file = log_file;
  start.has_started_before = options->was_checked || HasTrained(run.out(), file_system);
  start.clock = options->clock;
  if (options->shutdown != nullptr) {
    start.is_asked_to_end = [shutdown = options->shutdown] { return shutdown->requested(); };
  }
  const std::vector<std::string> gpus = GpusHere(*file_system, std::getenv(kVisibleGpus));
  start.gpus =
      GpusOfProgram(run.deployment(), options->local_worker, options->given_num_replicas, gpus);
  if (start.gpus.has_value()) {
    LOG(INFO) << "the program gets " << kVisibleGpus << "=" << *start.gpus << " of the "
              << gpus.size() << " GPUs that its worker sees";
  }
  ASSIGN_OR_RETURN(std::unique_ptr<ExternalProgram> program, StartProgram(run, start));
  if (options->given.has_value()) {
    ASSIGN_OR_RETURN(options->run,
                     CompleteRun(run, *options->given, program->declaration().settings));
    options->given.reset();
  }
  RETURN_IF_ERROR(program->Freeze(run.optimizer()));
  RETURN_IF_ERROR(program->DeclareTables(run));
  ASSIGN_OR_RETURN(ReplicaInputs inputs, MakeReplicaInputs(run, program.get()));
  RETURN_IF_ERROR(program->MakeReady(*inputs.train_plan, inputs.test_plan));
  ExternalProgram* const external = program.get();
  inputs.program = std::move(program);
  inputs.declaration = DeclareModel(inputs, /*classifies=*/false);
  RETURN_IF_ERROR(external->InitialValues().status());
  inputs.write_initial_values = [external, worker, directory = run.out(),
                                 file_system](v1::ModelDeclaration* declaration) {
    ASSIGN_OR_RETURN(const uint64_t values,
                     WriteInitialValues(*external, worker, directory, file_system));
    declaration->set_initial_values(values);
    return absl::OkStatus();
  };
  inputs.refused = [external](const absl::Status& why) { return external->Refuse(why); };
  inputs.finish = [external](const absl::Status& why) {
    external->Finish(ToFinishReason(why), std::string(why.message()));
  };
  LOG(INFO) << "the program " << GetName(run.program()) << " is ready, its output is in "
            << log_file;
  return inputs;
}

bool HasTrained(const std::string& directory, FileSystem* file_system) {
  const absl::StatusOr<std::optional<FileInfo>> metrics =
      FindFile(*file_system, JoinPath(directory, "metrics.jsonl"));
  return !metrics.ok() || metrics->has_value();
}

absl::StatusOr<v1::WorkerProgram> AskProgram(const v1::RunConfig& run, bool has_started_before) {
  const RealClock clock;
  StartOptions start;
  start.has_started_before = has_started_before;
  start.declares_only = true;
  start.gpus = GpusOfProgram(run.deployment(), std::nullopt, 1, {});
  start.clock = &clock;
  ASSIGN_OR_RETURN(std::unique_ptr<ExternalProgram> program, StartProgram(run, start));
  v1::WorkerProgram answer;
  *answer.mutable_settings() = program->declaration().settings;
  // The run's batch size is not known before the settings are: one example fits any data.
  v1::RunConfig one = run;
  one.set_batch_size(1);
  one.clear_replica_batch_size();
  RETURN_IF_ERROR(program->DeclareTables(run));
  ASSIGN_OR_RETURN(ReplicaInputs inputs, MakeReplicaInputs(one, program.get()));
  ExternalProgram* const external = program.get();
  inputs.program = std::move(program);
  *answer.mutable_model() = DeclareModel(inputs, /*classifies=*/false);
  external->Finish(FinishReason::kDeclared, "");
  return answer;
}

}  // namespace shoal

#include "worker/replica/trained_variables.h"

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"

#include "base/file_system.h"
#include "base/find_file.h"
#include "base/status_macros.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/checkpoint_directory.h"
#include "runtime/config/rule.h"
#include "runtime/config/run_config.h"
#include "runtime/config/validate.h"

namespace shoal {
namespace {

// Returns an error if the directory holds no run.
absl::Status CheckIsRun(const FileSystem& files, const std::string& directory) {
  ASSIGN_OR_RETURN(const std::optional<FileInfo> run,
                   FindFile(files, JoinPath(directory, "run.textproto")));
  if (run.has_value()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::optional<FileInfo> found, FindFile(files, directory));
  const std::string what = !found.has_value() ? absl::StrCat("there is no ", directory)
                           : found->is_directory
                               ? absl::StrCat(directory, " holds no run: it has no run.textproto")
                               : absl::StrCat(directory, " is not a directory");
  return absl::NotFoundError(absl::StrCat(what, "; name the directory of a run"));
}

// Returns the error that names a run without a checkpoint.
absl::Status RunWithoutCheckpoint(const FileSystem& files, const std::string& run_directory) {
  ASSIGN_OR_RETURN(const std::optional<FileInfo> summary,
                   FindFile(files, JoinPath(run_directory, "summary.json")));
  return absl::NotFoundError(absl::StrCat(
      "the run in ", run_directory,
      summary.has_value()
          ? absl::StrCat(" has ended without a checkpoint; `shoal status ", run_directory,
                         "` says how to continue")
          : absl::StrCat(" has no checkpoint yet; wait for its first one (`shoal checkpoint ",
                         run_directory, "` has one made)"),
      ", or name the directory of another run"));
}

absl::StatusOr<v1::RunConfig> LoadRunFrom(const std::string& directory) {
  RETURN_IF_ERROR(CheckIsRun(*NewPosixFileSystem(), directory));
  return LoadRunConfig(JoinPath(directory, "run.textproto"));
}

}  // namespace

absl::Status NoCheckpointIn(const FileSystem& files, const std::string& run_directory,
                            const absl::Status& none) {
  if (absl::IsFailedPrecondition(none)) {
    return absl::FailedPreconditionError(
        absl::StrCat(none.message(), "; bring it back, or name the directory of another run"));
  }
  if (!absl::IsNotFound(none)) RETURN_IF_ERROR(none);
  RETURN_IF_ERROR(CheckIsRun(files, run_directory));
  return RunWithoutCheckpoint(files, run_directory);
}

absl::StatusOr<v1::RunConfig> FindFinishedRun(const CommandLine& line) {
  if (line.run.out().empty()) {
    return InvalidField("--out", "is missing; name the directory of a run");
  }
  v1::RunConfig run = line.run;
  if (line.task.run_file.empty()) {
    ASSIGN_OR_RETURN(run, LoadRunFrom(line.run.out()));
    run.MergeFrom(line.run);
  }
  if (!line.run.deployment().devices().empty() && !line.run.deployment().has_num_clones()) {
    run.mutable_deployment()->clear_num_clones();
    run.clear_replica_batch_size();
  }
  ResolveDefaults(TaskCounts(), &run);
  RETURN_IF_ERROR(ValidateRunConfig(run, ModelFrom::kElsewhere));
  return run;
}

absl::Status CheckNotInComputeProgram(const v1::RunConfig& run) {
  const std::string& program = run.program().file();
  if (program.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "program: the model of this run is in ", program, ", so predictions and evaluations are ",
      "computed there and not by shoal. Load the trained values into its model, in PyTorch with ",
      "shoal.torch.load(\"", run.out(), "\", model), elsewhere from the files that `shoal export ",
      run.out(), "` and, for rows of tables, `shoal export ", run.out(),
      " --tables=FOLDER` write. The evaluations of the run are in its metrics.jsonl"));
}

absl::StatusOr<std::unique_ptr<Checkpoint>> OpenCheckpoint(FileSystem* file_system,
                                                           const std::string& run_directory,
                                                           std::optional<uint64_t> step) {
  const std::string root = absl::StrCat(run_directory, "/checkpoints");
  ASSIGN_OR_RETURN(const std::optional<FileInfo> found, FindFile(*file_system, root));
  if (!found.has_value()) return NoCheckpointIn(*file_system, run_directory);
  ASSIGN_OR_RETURN(const std::unique_ptr<CheckpointDirectory> directory,
                   CheckpointDirectory::Open(*file_system, root));
  if (!step.has_value()) {
    std::vector<std::string> rejected;
    absl::StatusOr<std::unique_ptr<Checkpoint>> newest =
        directory->OpenLatestValid(Checkpoint::Verify::kIndex, &rejected);
    if (absl::IsNotFound(newest.status()) || absl::IsFailedPrecondition(newest.status())) {
      return NoCheckpointIn(*file_system, run_directory, newest.status());
    }
    if (newest.ok()) {
      for (const std::string& reason : rejected) std::fprintf(stderr, "%s\n", reason.c_str());
    }
    return newest;  // an error says it all
  }
  const absl::StatusOr<std::vector<CheckpointName>> names = directory->ListSome();
  if (absl::IsNotFound(names.status())) return NoCheckpointOfStep(*step, {});
  if (!names.ok()) return NoCheckpointIn(*file_system, run_directory, names.status());
  for (const CheckpointName& name : *names) {
    if (name.step != *step) continue;
    return Checkpoint::Open(*file_system, directory->GetPath(name.ToString()),
                            Checkpoint::Verify::kIndex);
  }
  return NoCheckpointOfStep(*step, *names);
}

absl::Status CheckDirectoryOf(const FileSystem& files, const std::string& flag,
                              const std::string& path) {
  const std::string directory = ParentDirectory(path);
  ASSIGN_OR_RETURN(const bool is_directory, IsDirectory(files, directory));
  if (is_directory) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat(flag, ": cannot write ", path, ": there is no directory ",
                                          directory,
                                          "; create it, or name a file in one that is there"));
}

absl::Status CheckSameVariables(const std::vector<v1::VariableSpec>& model,
                                const v1::Manifest& manifest) {
  const auto describe = [](const v1::VariableSpec& variable) {
    return absl::StrCat(variable.has_table() ? "table " : "", variable.name(), " [",
                        absl::StrJoin(variable.shape(), ","), "]");
  };
  for (size_t i = 0; i < model.size() || i < static_cast<size_t>(manifest.variables_size()); ++i) {
    const std::string ours = i < model.size() ? describe(model[i]) : "nothing";
    const std::string theirs = i < static_cast<size_t>(manifest.variables_size())
                                   ? describe(manifest.variables(i))
                                   : "nothing";
    if (ours != theirs) {
      return absl::FailedPreconditionError(absl::StrCat("model: the run file's has variable ", ours,
                                                        " where the checkpoint has ", theirs,
                                                        "; use the run file of that checkpoint"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<VariableValues> ValuesToUse(bool use_averages, const Checkpoint& checkpoint) {
  if (!use_averages) return VariableValues::kCurrent;
  if (checkpoint.HasAverages()) return VariableValues::kAverages;
  if (checkpoint.slices().has_tables()) {
    return InvalidField("--use_averages",
                        "has no meaning for a run with tables, which have no averages; leave the "
                        "flag out");
  }
  return InvalidField("--use_averages",
                      "the run keeps no averages; train with --set "
                      "optimizer.moving_average_decay=0.999, or leave the flag out");
}

absl::StatusOr<std::vector<std::vector<float>>> ReadVariables(Checkpoint* checkpoint,
                                                              VariableValues which) {
  const SliceTable& slices = checkpoint->slices();
  std::vector<std::vector<float>> values(slices.num_variables());
  for (uint32_t v = 0; v < slices.num_variables(); ++v) {
    if (!slices.is_table(v)) values[v].resize(slices.elements_of(v));
  }
  for (uint32_t i = 0; i < slices.size(); ++i) {
    const Slice& slice = slices[i];
    if (slice.is_bucket) continue;
    RETURN_IF_ERROR(checkpoint->ReadValues(
        i, which,
        absl::MakeSpan(values[slice.variable]).subspan(slice.first_element, slice.num_elements)));
  }
  return values;
}

}  // namespace shoal

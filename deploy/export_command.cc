#include "deploy/export_command.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

#include "base/file_system.h"
#include "base/status_macros.h"
#include "deploy/table_export.h"
#include "proto/v1/variable.pb.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/model_export.h"
#include "runtime/config/flags.h"
#include "runtime/config/rule.h"
#include "runtime/process/exit_code.h"
#include "worker/replica/trained_variables.h"

namespace shoal {
namespace {

// Opens what --since names: the run's checkpoint of a step, or one in a directory.
absl::StatusOr<std::unique_ptr<Checkpoint>> OpenSince(FileSystem* files, const std::string& out,
                                                      const std::string& since) {
  uint64_t step = 0;
  absl::StatusOr<std::unique_ptr<Checkpoint>> opened =
      absl::SimpleAtoi(since, &step) ? OpenCheckpoint(files, out, step)
                                     : Checkpoint::Open(*files, since, Checkpoint::Verify::kIndex);
  if (opened.ok()) return opened;
  return absl::Status(
      opened.status().code(),
      absl::StrCat("--since: ", absl::StripPrefix(opened.status().message(), "--step: "),
                   "; `shoal inspect` lists the checkpoints of a run"));
}

// Writes the variables to `directory`/`name`, which gets the name `path`, possibly later.
absl::Status WriteModel(FileSystem* files, Checkpoint* checkpoint, VariableValues values,
                        const std::string& path, const std::string& directory,
                        const std::string& name) {
  const absl::Status written = ExportModel(*files, *checkpoint, directory, name, values);
  if (written.ok()) return written;
  return absl::Status(written.code(), absl::StrCat("--model_file: cannot write ", path, ": ",
                                                   written.message(), "; name another file"));
}

// Returns the text about a model file that is written.
std::string DescribeModelFile(const Checkpoint& checkpoint, VariableValues values,
                              const std::string& path, bool with_rows) {
  const auto& variables = checkpoint.manifest().variables();
  const auto num_tables =
      std::count_if(variables.begin(), variables.end(),
                    [](const v1::VariableSpec& variable) { return variable.has_table(); });
  return absl::StrCat(variables.size() - num_tables, " variables, step ",
                      checkpoint.manifest().step(),
                      values == VariableValues::kAverages ? ", averages: " : ": ", path,
                      num_tables > 0 && !with_rows ? " (without tables: see --tables)" : "");
}

// Writes the rows, and the model file too unless its path is empty. Returns what to print.
absl::StatusOr<std::string> ExportRows(const CommandLine& line, FileSystem* files,
                                       Checkpoint* checkpoint, const std::string& model_path) {
  const std::string& directory = line.task.tables_directory;
  if (line.task.use_averages) {
    return InvalidField("--use_averages", "has no meaning with --tables: tables have no averages");
  }
  // The export makes the directory of the rows.
  if (!model_path.empty() && ParentDirectory(model_path) != absl::StripSuffix(directory, "/")) {
    RETURN_IF_ERROR(CheckDirectoryOf(*files, "--model_file", model_path));
  }
  std::unique_ptr<Checkpoint> since;
  if (!line.task.since.empty()) {
    ASSIGN_OR_RETURN(since, OpenSince(files, line.run.out(), line.task.since));
  }
  absl::Status model_written;
  const ModelFileOfExport model = {
      model_path, [&](const std::string& model_directory, const std::string& name) {
        return model_written = WriteModel(files, checkpoint, VariableValues::kCurrent, model_path,
                                          model_directory, name);
      }};
  const absl::StatusOr<std::vector<ExportedTable>> tables = ExportTables(
      *files, *checkpoint, since.get(), directory, model_path.empty() ? nullptr : &model);
  RETURN_IF_ERROR(model_written);
  if (!tables.ok()) {
    return absl::Status(tables.status().code(),
                        absl::StrCat("--tables: ", tables.status().message()));
  }
  std::string text = absl::StrCat("step ", checkpoint->manifest().step());
  if (since != nullptr) absl::StrAppend(&text, " since step ", since->manifest().step());
  for (const ExportedTable& table : *tables) {
    absl::StrAppend(&text, text.find(':') == std::string::npos ? ": " : ", ", table.table, " ",
                    table.rows, " rows");
    if (since != nullptr) absl::StrAppend(&text, " and ", table.removed, " removed");
  }
  absl::StrAppend(&text, "; in ", directory);
  if (model_path.empty()) return text;
  return absl::StrCat(text, "\n",
                      DescribeModelFile(*checkpoint, VariableValues::kCurrent, model_path,
                                        /*with_rows=*/true));
}

// Returns what to print.
absl::StatusOr<std::string> ExportVariables(const CommandLine& line, FileSystem* files,
                                            Checkpoint* checkpoint, const std::string& path) {
  RETURN_IF_ERROR(CheckDirectoryOf(*files, "--model_file", path));
  ASSIGN_OR_RETURN(const VariableValues values, ValuesToUse(line.task.use_averages, *checkpoint));
  RETURN_IF_ERROR(WriteModel(files, checkpoint, values, path, ParentDirectory(path),
                             path.substr(path.rfind('/') + 1)));
  return DescribeModelFile(*checkpoint, values, path, /*with_rows=*/false);
}

// Returns what to print.
absl::StatusOr<std::string> Export(const CommandLine& line) {
  const std::string& out = line.run.out();
  if (out.empty()) return InvalidField("--out", "is missing; name the directory of a run");
  const std::string& given = line.task.model_file;
  const std::string path = given.empty() ? JoinPath(out, kModelExportFile) : given;
  if (!absl::EndsWith(path, ".safetensors")) {
    return InvalidField("--model_file", absl::StrCat(path, " must end in .safetensors"));
  }
  const std::unique_ptr<FileSystem> files = NewPosixFileSystem();
  ASSIGN_OR_RETURN(const std::unique_ptr<Checkpoint> checkpoint,
                   OpenCheckpoint(files.get(), out, line.task.checkpoint_step));
  if (line.task.tables_directory.empty()) {
    if (line.task.since.empty()) return ExportVariables(line, files.get(), checkpoint.get(), path);
    return InvalidField("--since", "has no meaning without --tables; name the directory for them");
  }
  return ExportRows(line, files.get(), checkpoint.get(), given);
}

}  // namespace

int ExportMain(absl::Span<const std::string> args) {
  const absl::StatusOr<CommandLine> line = ParseCommandLine(kScopeExport, args);
  if (line.ok() && line->help) {
    std::printf(
        "usage: shoal export DIR [--step=N] [--use_averages] [--model_file=FILE]\n"
        "       shoal export DIR --tables=DIR2 [--step=N] [--since=STEP|CHECKPOINT]\n"
        "                        [--model_file=FILE]\n\n"
        "Writes the variables of a checkpoint, whole and without optimizer slots, as one\n"
        "safetensors file for other programs; or the rows of its tables as NumPy arrays, all of\n"
        "them or only what has changed. With both flags it writes both, of one checkpoint.\n\n%s",
        FlagHelp(kScopeExport).c_str());
    return kExitDone;
  }
  const absl::StatusOr<std::string> done =
      line.ok() ? Export(*line) : absl::StatusOr<std::string>(line.status());
  if (!done.ok()) {
    std::fprintf(stderr, "shoal export: %s\n", std::string(done.status().message()).c_str());
    return ToExitCode(done.status());
  }
  std::printf("%s\n", done->c_str());
  return kExitDone;
}

}  // namespace shoal

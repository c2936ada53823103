#include "deploy/export_command.h"

#include <cstdio>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "base/file_system.h"
#include "base/status_macros.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/model_export.h"
#include "runtime/config/flags.h"
#include "runtime/config/rule.h"
#include "runtime/process/exit_code.h"
#include "worker/replica/trained_variables.h"

namespace shoal {
namespace {

// Returns what to print.
absl::StatusOr<std::string> Export(const CommandLine& line) {
  if (!line.arguments.empty())
    return InvalidField(line.arguments[0], "is not a flag; write --out=DIR");
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
  ASSIGN_OR_RETURN(const VariableValues values, ValuesToUse(line.task.use_averages, *checkpoint));
  const std::string parent = ParentDirectory(path);
  const std::string directory = parent.empty() ? "." : parent;
  if (!files->GetInfo(directory).ok()) {
    return absl::NotFoundError(absl::StrCat("--model_file: cannot write ", path,
                                            ": there is no directory ", directory,
                                            "; create it, or name a file in one that is there"));
  }
  const absl::Status written =
      ExportModel(*files, *checkpoint, directory, path.substr(path.rfind('/') + 1), values);
  if (!written.ok()) {
    return absl::Status(written.code(), absl::StrCat("--model_file: cannot write ", path, ": ",
                                                     written.message(), "; name another file"));
  }
  return absl::StrCat(checkpoint->manifest().variables_size(), " variables, step ",
                      checkpoint->manifest().step(),
                      values == VariableValues::kAverages ? ", averages: " : ": ", path);
}

}  // namespace

int ExportMain(absl::Span<const std::string> args) {
  const absl::StatusOr<CommandLine> line = ParseCommandLine(kScopeExport, args);
  if (line.ok() && line->help) {
    std::printf(
        "usage: shoal export DIR [--step=N] [--use_averages] [--model_file=FILE]\n\n"
        "Writes the variables of a checkpoint, whole and without optimizer slots, as one\n"
        "safetensors file for other programs.\n\n%s",
        FlagHelp(kScopeExport).c_str());
    return kExitDone;
  }
  const absl::StatusOr<std::string> done =
      line.ok() ? Export(*line) : absl::StatusOr<std::string>(line.status());
  if (!done.ok()) {
    std::fprintf(stderr, "shoal export: %s\n", std::string(done.status().message()).c_str());
    return ExitCodeOf(done.status());
  }
  std::printf("%s\n", done->c_str());
  return kExitDone;
}

}  // namespace shoal

#include "deploy/inspect_command.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"

#include "base/file_system.h"
#include "base/find_file.h"
#include "base/status_macros.h"
#include "proto/v1/checkpoint.pb.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/checkpoint_directory.h"
#include "runtime/config/flags.h"
#include "runtime/config/rule.h"
#include "runtime/process/exit_code.h"
#include "worker/replica/trained_variables.h"

namespace shoal {
namespace {

std::string CheckpointsOf(const std::string& run_directory) {
  return JoinPath(run_directory, "checkpoints");
}

// Returns the names of the checkpoints, newest first. Does not create a directory.
absl::StatusOr<std::vector<CheckpointName>> ListCheckpoints(FileSystem* file_system,
                                                            const std::string& run_directory) {
  const std::string root = CheckpointsOf(run_directory);
  ASSIGN_OR_RETURN(const std::optional<FileInfo> found, FindFile(*file_system, root));
  if (!found.has_value()) return NoCheckpointIn(*file_system, run_directory);
  ASSIGN_OR_RETURN(const std::unique_ptr<CheckpointDirectory> directory,
                   CheckpointDirectory::Open(*file_system, root));
  absl::StatusOr<std::vector<CheckpointName>> names = directory->ListSome();
  if (!names.ok()) return NoCheckpointIn(*file_system, run_directory, names.status());
  return names;
}

absl::StatusOr<CheckpointName> Choose(const std::vector<CheckpointName>& names, uint64_t step) {
  for (const CheckpointName& name : names) {
    if (name.step == step) return name;
  }
  return NoCheckpointOfStep(step, names);
}

void AppendVariables(const v1::Manifest& manifest, const SliceTable& slices, std::string* text) {
  absl::StrAppendFormat(text, "%-32s %-20s %10s %7s\n", "variable", "shape", "bytes", "slices");
  for (int i = 0; i < manifest.variables_size(); ++i) {
    const v1::VariableSpec& variable = manifest.variables(i);
    if (variable.has_table()) continue;
    absl::StrAppendFormat(text, "%-32s %-20s %10d %7d\n", variable.name(),
                          absl::StrCat("[", absl::StrJoin(variable.shape(), ","), "]"),
                          slices.elements_of(i) * sizeof(float),
                          slices.first_slice_of(i + 1) - slices.first_slice_of(i));
  }
}

// Reads the keys of all rows.
absl::Status AppendTables(Checkpoint& checkpoint, std::string* text) {
  const SliceTable& slices = checkpoint.slices();
  if (!slices.has_tables()) return absl::OkStatus();
  absl::StrAppendFormat(text, "\n%-32s %6s %12s %14s %8s  %s\n", "table", "dim", "rows", "bytes",
                        "buckets", "slots");
  for (uint32_t v = 0; v < slices.num_variables(); ++v) {
    if (!slices.is_table(v)) continue;
    uint64_t rows = 0, bytes = 0;
    std::set<std::string> slots;
    for (uint32_t slice = slices.first_slice_of(v); slice < slices.first_slice_of(v + 1); ++slice) {
      ASSIGN_OR_RETURN(const BucketRows read, checkpoint.ReadBucket(slice, {}));
      uint64_t row_bytes =
          sizeof(uint64_t) + sizeof(uint32_t) + slices.row_elements_of(v) * sizeof(float);
      for (const RowSlot& slot : checkpoint.GetRowSlots(slice)) {
        slots.insert(slot.name);
        row_bytes += slot.floats * sizeof(float);
      }
      rows += read.keys.size();
      bytes += read.keys.size() * row_bytes;
    }
    absl::StrAppendFormat(text, "%-32s %6d %12d %14d %8d  %s\n",
                          checkpoint.manifest().variables(static_cast<int>(v)).name(),
                          slices.row_elements_of(v), rows, bytes, slices.num_buckets_of(v),
                          absl::StrJoin(slots, ","));
  }
  return absl::OkStatus();
}

absl::Status AppendCheckpoint(Checkpoint& checkpoint, std::string* text) {
  const v1::Manifest& manifest = checkpoint.manifest();
  absl::StrAppendFormat(
      text,
      "\nstep %d%s, %s, %d batches skipped\nrun %s, term %d, lineage %d, seed %d\nmade %s\n\n",
      manifest.step(), manifest.finished() ? " (finished)" : "",
      manifest.synchronous() ? "synchronous" : "asynchronous", manifest.skipped_size(),
      manifest.run_id(), manifest.term(), manifest.lineage(), manifest.seed(),
      absl::FormatTime(absl::FromUnixSeconds(manifest.created_unix_seconds()),
                       absl::UTCTimeZone()));
  AppendVariables(manifest, checkpoint.slices(), text);
  RETURN_IF_ERROR(AppendTables(checkpoint, text));
  absl::StrAppend(text, "\n");
  for (const v1::ShardFile& shard : manifest.shards()) {
    absl::StrAppendFormat(text, "%-40s %10d bytes, verified\n", shard.name(), shard.bytes());
  }
  return absl::OkStatus();
}

bool StillExists(FileSystem* file_system, const std::string& run_directory,
                 const CheckpointName& name) {
  const absl::StatusOr<std::vector<CheckpointName>> names =
      ListCheckpoints(file_system, run_directory);
  return !names.ok() ||
         std::any_of(names->begin(), names->end(), [&name](const CheckpointName& other) {
           return other.ToString() == name.ToString();
         });
}

}  // namespace

absl::StatusOr<RunReport> InspectRun(FileSystem* file_system, const std::string& run_directory,
                                     std::optional<uint64_t> step) {
  const std::string root = CheckpointsOf(run_directory);
  ASSIGN_OR_RETURN(std::vector<CheckpointName> names, ListCheckpoints(file_system, run_directory));
  if (step.has_value()) {
    ASSIGN_OR_RETURN(const CheckpointName chosen, Choose(names, *step));
    names = {chosen};
  }
  RunReport report;
  std::unique_ptr<Checkpoint> described;  // The newest that is whole.
  for (const CheckpointName& name : names) {
    absl::StatusOr<std::unique_ptr<Checkpoint>> checkpoint = Checkpoint::Open(
        *file_system, absl::StrCat(root, "/", name.ToString()), Checkpoint::Verify::kEverything);
    // A running training removes its oldest checkpoints.
    if (!checkpoint.ok() && !StillExists(file_system, run_directory, name)) continue;
    const bool is_newest = checkpoint.ok() && described == nullptr;
    absl::StrAppend(&report.text, is_newest ? "* " : "  ", name.ToString());
    if (!checkpoint.ok()) {
      absl::StrAppend(&report.text, "  damaged: ", checkpoint.status().message());
      if (report.damage.ok()) {
        report.damage = absl::DataLossError(checkpoint.status().message());
      }
    }
    absl::StrAppend(&report.text, "\n");
    if (is_newest) described = *std::move(checkpoint);
  }
  if (report.text.empty()) {
    return absl::NotFoundError(
        absl::StrCat("the checkpoints of ", run_directory,
                     " were removed by the running training while they were read; try again"));
  }
  if (described != nullptr) RETURN_IF_ERROR(AppendCheckpoint(*described, &report.text));
  return report;
}

int InspectMain(absl::Span<const std::string> args) {
  const auto fail = [](const absl::Status& status) {
    std::fprintf(stderr, "shoal inspect: %s\n", std::string(status.message()).c_str());
    return ToExitCode(status);
  };
  const absl::StatusOr<CommandLine> line = ParseCommandLine(kScopeUse, args);
  if (!line.ok()) return fail(line.status());
  if (line->help) {
    std::printf(
        "usage: shoal inspect DIR [--step=N]\n\n"
        "Verifies every byte of a run's checkpoints; lists them, damaged ones too, and variables\n"
        "and files of the newest that is whole. Exit code 65: something is damaged.\n\n"
        "  --out=DIR   the run's directory, as DIR alone (or --run=DIR/run.textproto)\n"
        "  --step=N    only the checkpoint of this step\n");
    return kExitDone;
  }
  if (line->task.use_averages) {
    return fail(InvalidField("--use_averages", "has no meaning for this command; see --help"));
  }
  if (line->run.out().empty()) {
    return fail(InvalidField("--out", "is missing; name the directory of a run"));
  }
  const std::unique_ptr<FileSystem> file_system = NewPosixFileSystem();
  const absl::StatusOr<RunReport> report =
      InspectRun(file_system.get(), line->run.out(), line->task.checkpoint_step);
  if (!report.ok()) return fail(report.status());
  std::fputs(report->text.c_str(), stdout);
  if (!report->damage.ok()) return fail(report->damage);
  return kExitDone;
}

}  // namespace shoal

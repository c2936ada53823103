#include "deploy/lookup_command.h"

#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "base/file_system.h"
#include "base/find_file.h"
#include "base/status_macros.h"
#include "deploy/table_export.h"
#include "ml/data/ids/text_hash.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/config/flags.h"
#include "runtime/config/rule.h"
#include "runtime/process/exit_code.h"
#include "runtime/tables/bucket_rows.h"
#include "worker/replica/trained_variables.h"

namespace shoal {
namespace {

// A key is an unsigned number of 64 bits; a negative one names the key with the same bits.
absl::StatusOr<uint64_t> ParseKey(const std::string& text) {
  uint64_t key = 0;
  int64_t negative = 0;
  if (absl::SimpleAtoi(text, &key)) return key;
  if (absl::SimpleAtoi(text, &negative)) return static_cast<uint64_t>(negative);
  return InvalidField(text,
                      "is not a key; a key is a whole number of 64 bits; give --words for words");
}

// Returns the key of an argument; `words`: it is a text in a column of words.
absl::StatusOr<uint64_t> KeyOf(const std::string& argument, bool words) {
  if (!words) return ParseKey(argument);
  if (argument.empty()) return InvalidField("KEY", "is empty; an empty text is never an id");
  return HashText(argument);
}

std::string Describe(const std::string& name, const TableReader::Row& row, uint32_t min_count) {
  std::string line = absl::StrCat(name, ": ", absl::StrJoin(row.value, " "));
  if (row.is_stored && IsTouchedBefore(row.touched)) {
    return absl::StrCat(line, "  (trained ", UpdatesSinceTouched(row.touched, /*version=*/0),
                        " updates before the run began)");
  }
  if (row.is_stored) return absl::StrCat(line, "  (version ", row.touched, ")");
  if (row.count == 0) return absl::StrCat(line, "  (never trained: the initial value)");
  return absl::StrCat(line, "  (touched in ", row.count, " of ", min_count,
                      " updates: the initial value)");
}

// Takes the first argument as the run's directory if --out is not given and it is one. A key may
// have the name of another directory.
absl::Status TakeRunDirectory(const FileSystem& files, CommandLine* line) {
  if (!line->run.out().empty() || line->arguments.empty()) return absl::OkStatus();
  const std::string& first = line->arguments[0];
  for (const char* name : {"run.textproto", "RUN_ID"}) {
    ASSIGN_OR_RETURN(const std::optional<FileInfo> found, FindFile(files, JoinPath(first, name)));
    if (!found.has_value()) continue;
    line->run.set_out(first);
    line->arguments.erase(line->arguments.begin());
    break;
  }
  return absl::OkStatus();
}

// Returns what to print.
absl::StatusOr<std::string> Lookup(CommandLine line) {
  const std::unique_ptr<FileSystem> files = NewPosixFileSystem();
  RETURN_IF_ERROR(TakeRunDirectory(*files, &line));
  if (line.run.out().empty()) {
    return InvalidField(
        "--out", line.arguments.empty()
                     ? "is missing; name the directory of a run"
                     : absl::StrCat("is missing, and the first argument, ", line.arguments[0],
                                    ", is not the directory of a run; name one"));
  }
  if (line.task.table.empty())
    return InvalidField("--table", "is missing; name a table of the run");
  if (line.arguments.empty()) {
    return InvalidField("KEY", "is missing; write the keys after the flags");
  }
  std::vector<uint64_t> keys;
  for (const std::string& argument : line.arguments) {
    ASSIGN_OR_RETURN(keys.emplace_back(), KeyOf(argument, line.task.words));
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<Checkpoint> checkpoint,
                   OpenCheckpoint(files.get(), line.run.out(), line.task.checkpoint_step));
  absl::StatusOr<std::unique_ptr<TableReader>> table =
      TableReader::Open(*checkpoint, line.task.table);
  if (!table.ok()) {
    return absl::Status(table.status().code(), absl::StrCat("--table: ", table.status().message()));
  }
  std::string text = absl::StrCat(line.task.table, ", step ", checkpoint->manifest().step(), "\n");
  for (size_t i = 0; i < keys.size(); ++i) {
    ASSIGN_OR_RETURN(const TableReader::Row row, (*table)->Find(keys[i]));
    const std::string name =
        line.task.words ? absl::StrCat(keys[i], " ", line.arguments[i]) : line.arguments[i];
    absl::StrAppend(&text, Describe(name, row, (*table)->min_count()), "\n");
  }
  return text;
}

}  // namespace

int LookupMain(absl::Span<const std::string> args) {
  absl::StatusOr<CommandLine> line = ParseCommandLine(kScopeLookup, args);
  if (line.ok() && line->help) {
    std::printf(
        "usage: shoal lookup DIR --table=TABLE [--step=N] [--words] KEY...\n\n"
        "Prints the rows of these keys from the newest checkpoint of a run, which may be under\n"
        "way. A key that was never trained has its initial value. A key is a whole number of 64\n"
        "bits; -5 names the key with the same bits. With --words it is a word of the data.\n\n%s",
        FlagHelp(kScopeLookup).c_str());
    return kExitDone;
  }
  const absl::StatusOr<std::string> text =
      line.ok() ? Lookup(*std::move(line)) : absl::StatusOr<std::string>(line.status());
  if (!text.ok()) {
    std::fprintf(stderr, "shoal lookup: %s\n", std::string(text.status().message()).c_str());
    return ToExitCode(text.status());
  }
  std::fputs(text->c_str(), stdout);
  return kExitDone;
}

}  // namespace shoal

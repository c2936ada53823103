// Parses run files, field paths and flags. The result is always a run that can be printed and read
// again, or an error of one line.
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

#include "proto/v1/run_config.pb.h"
#include "runtime/config/field_path.h"
#include "runtime/config/flags.h"
#include "runtime/config/run_config.h"
#include "runtime/config/validate.h"
#include "tests/fuzz/fuzz_target.h"

namespace shoal {
namespace {

void CheckError(const absl::Status& status) {
  CheckFuzzed(!status.message().empty() && !absl::StrContains(status.message(), '\n'));
}

// The printed run file has the same meaning.
void Resolve(v1::RunConfig run) {
  ResolveDefaults(TaskCounts(), &run);
  const absl::Status valid = ValidateRunConfig(run);
  if (!valid.ok()) return CheckError(valid);
  const absl::StatusOr<v1::RunConfig> again = ParseRunConfig(PrintRunConfig(run), "printed");
  CheckFuzzed(again.ok() && PrintRunConfig(*again) == PrintRunConfig(run));
}

void TryRunFile(absl::string_view text) {
  const absl::StatusOr<v1::RunConfig> run = ParseRunConfig(text, "fuzzed");
  run.ok() ? Resolve(*run) : CheckError(run.status());
}

// Applies lines "path=value", one after the other.
void TryFields(absl::string_view text) {
  v1::RunConfig run;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(line, absl::MaxSplits('=', 1));
    const absl::Status set = SetField("--set", parts.first, parts.second, &run);
    if (!set.ok()) CheckError(set);
  }
  Resolve(run);
}

// Parses one argument per line. Arguments that name files are left out, because the fuzzer must not
// read other files.
void TryFlags(absl::string_view text) {
  std::vector<std::string> arguments;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    if (!absl::StrContains(line, "run") && !absl::StrContains(line, "cluster")) {
      arguments.emplace_back(line);
    }
  }
  for (const FlagScope scope : {kScopeTrain, kScopeTask, kScopeUse, kScopeLaunch}) {
    const absl::StatusOr<CommandLine> parsed = ParseCommandLine(scope, arguments);
    if (!parsed.ok()) {
      CheckError(parsed.status());
    } else if (!parsed->help) {
      Resolve(parsed->run);
    }
  }
}

}  // namespace
}  // namespace shoal

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  absl::string_view input(reinterpret_cast<const char*>(data), size);
  switch (shoal::TakeChoice(&input, 3)) {
    case 0:
      shoal::TryRunFile(input);
      break;
    case 1:
      shoal::TryFields(input);
      break;
    default:
      shoal::TryFlags(input);
  }
  return 0;
}

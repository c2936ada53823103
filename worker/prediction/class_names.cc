#include "worker/prediction/class_names.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "base/file_system.h"

namespace shoal {

absl::Status WriteClassNames(FileSystem* file_system, const std::string& run_directory,
                             const std::vector<std::string>& names) {
  if (names.empty()) return absl::OkStatus();
  std::string text;
  for (const std::string& name : names) absl::StrAppend(&text, absl::Utf8SafeCEscape(name), "\n");
  return WriteAtomically(*file_system, JoinPath(run_directory, kClassNamesFile), text);
}

std::vector<std::string> ReadClassNames(FileSystem* file_system, const std::string& run_directory) {
  const absl::StatusOr<std::string> text =
      ReadFile(*file_system, JoinPath(run_directory, kClassNamesFile));
  if (!text.ok()) return {};
  std::vector<std::string> names = absl::StrSplit(*text, '\n');
  if (names.back().empty()) names.pop_back();
  for (std::string& name : names) {
    std::string plain;
    if (absl::CUnescape(name, &plain)) name = plain;
  }
  return names;
}

}  // namespace shoal

#include "worker/program/program_log.h"

#include <algorithm>
#include <fstream>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace shoal {
namespace {

constexpr size_t kLineBytes = 400;
constexpr std::streamoff kTailBytes = 64 << 10;
// Part of the paths of Python's own modules and of installed packages.
constexpr char kLibraries[] = "/lib/python3";

// The text that Python's faulthandler prints when a signal ends the process.
class FatalError {
 public:
  explicit FatalError(absl::string_view what) : what_(what) {}

  // Takes the next line; returns false if it is not part of what the handler prints.
  bool Take(absl::string_view line) {
    if (absl::StartsWith(line, "Current thread ")) {
      is_failed_thread_ = true;
    } else if (absl::StartsWith(line, "Thread ")) {
      is_failed_thread_ = false;
    } else if (absl::StartsWith(line, "File ")) {
      TakePlace(line);
    } else {
      return absl::StartsWith(line, "Current thread's ") ||
             absl::StartsWith(line, "Binary file ") ||
             absl::StartsWith(line, "Extension modules: ") || absl::StartsWith(line, "<") ||
             absl::StartsWith(line, "...");
    }
    return true;
  }

  std::string Describe() const {
    for (const std::string* place : {&users_, &innermost_, &of_any_thread_}) {
      if (!place->empty()) return absl::StrCat(what_, ", ", *place);
    }
    return what_;
  }

 private:
  void TakePlace(absl::string_view line) {
    if (of_any_thread_.empty()) of_any_thread_ = std::string(line);
    if (!is_failed_thread_) return;
    if (innermost_.empty()) innermost_ = std::string(line);
    if (users_.empty() && !absl::StrContains(line, kLibraries)) users_ = std::string(line);
  }

  std::string what_;
  bool is_failed_thread_ = false;
  std::string users_;
  std::string innermost_;
  std::string of_any_thread_;
};

}  // namespace

std::string EndOfLog(const std::string& path) {
  if (path.empty()) return "";
  std::ifstream log(path, std::ios::ate);
  if (!log.good()) return "";
  log.seekg(std::max<std::streamoff>(0, log.tellg() - std::streampos(kTailBytes)));
  std::string line, last;
  std::optional<FatalError> fatal;
  while (std::getline(log, line)) {
    const absl::string_view text = absl::StripAsciiWhitespace(line).substr(0, kLineBytes);
    if (absl::StartsWith(text, "Fatal Python error: ")) {
      fatal.emplace(text);
    } else if (!text.empty() && !(fatal.has_value() && fatal->Take(text))) {
      fatal.reset();  // Another start of the program, or a process of its own, has written since.
      last = std::string(text);
    }
  }
  return fatal.has_value() ? fatal->Describe() : last;
}

std::string RemedyForModule(absl::string_view end_of_log) {
  if (!absl::StrContains(end_of_log, "No module named '")) return "";
  const char* const where =
      absl::StrContains(end_of_log, "No module named 'shoal'")
          ? "; the package is in the wheel (`pip install shoal-VERSION.whl`) and in the folder "
            "python of a clone (`export PYTHONPATH=CLONE/python`)"
          : "";
  return absl::StrCat(where, "; --python=PROGRAM names another interpreter");
}

}  // namespace shoal

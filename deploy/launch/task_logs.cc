#include "deploy/launch/task_logs.h"

#include <cstddef>
#include <deque>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "runtime/process/program_words.h"

namespace shoal {
namespace {

constexpr size_t kLinesOfEnd = 8;
constexpr char kProgram[] = "] program: ";  // It follows the head of a log line.

}  // namespace

std::string TaskLogs::Path(TaskId task) const {
  return absl::StrCat(run_directory_, "/logs/", task.FileStem(), ".log");
}

std::string TaskLogs::ProgramPath(TaskId worker) const {
  return absl::StrCat(run_directory_, "/logs/program-", worker.index, ".log");
}

std::string TaskLogs::LastWords(TaskId task, uint64_t begin) const {
  const std::string prefix = absl::StrCat("shoal ", JobName(task.job), ": ");
  std::ifstream log(Path(task));
  log.seekg(static_cast<std::streamoff>(begin));
  std::string line, words;
  while (std::getline(log, line)) {
    if (absl::StartsWith(line, prefix)) words = line.substr(prefix.size());
  }
  return words;
}

std::string TaskLogs::ProgramWords(TaskId worker, uint64_t begin) const {
  std::ifstream log(Path(worker));
  log.seekg(static_cast<std::streamoff>(begin));
  std::string line, words;
  while (std::getline(log, line)) {
    const size_t at = line.find(kProgram);
    if (at == std::string::npos) continue;
    const std::string text = line.substr(at + sizeof(kProgram) - 1);
    if (absl::StrContains(text, kRunsAfterRun) || absl::StrContains(text, kKilledAfterRun)) {
      words = text;
    }
  }
  return words;
}

std::string TaskLogs::End(TaskId task) const {
  std::ifstream log(Path(task));
  std::deque<std::string> lines;
  std::string line;
  while (std::getline(log, line)) {
    lines.push_back(line);
    if (lines.size() > kLinesOfEnd) lines.pop_front();
  }
  return absl::StrJoin(lines, "\n");
}

}  // namespace shoal

#include "deploy/launch/task_deaths.h"

#include "absl/strings/str_cat.h"

#include "deploy/launch/task_logs.h"
#include "deploy/launch/task_places.h"
#include "runtime/observability/progress.h"

namespace shoal {

std::optional<ProgramFailure> TaskDeaths::FindProgramFailure(TaskId task,
                                                             uint64_t log_begin) const {
  if (!options_.has_programs || task.job != Job::kWorker) return std::nullopt;
  return ProgramFailureIn(options_.logs->LastWords(task, log_begin));
}

std::string TaskDeaths::DescribeExit(TaskId task, uint64_t log_begin, const ChildExit& exit) const {
  if (exit.by_signal || !FindProgramFailure(task, log_begin).has_value()) return exit.Describe();
  return absl::StrCat("exit code ", exit.number, " (its program failed)");
}

std::string TaskDeaths::DiedText(TaskId worker, const ChildExit& exit,
                                 const std::optional<ProgramFailure>& failure) {
  const std::string name = worker.ToString();
  if (!failure.has_value()) return absl::StrCat(name, " died (", exit.Describe(), ")");
  const bool is_new =
      program_failures_.Add(worker.index, failure->cause, options_.progress->step());
  return is_new ? absl::StrCat(failure->cause, "\n", name, " died of this")
                : absl::StrCat(name, " died in the same way");
}

absl::Status TaskDeaths::Failure(TaskId task, uint64_t log_begin, const ChildExit& exit) const {
  const absl::StatusCode code = exit.status_code();
  if (code != absl::StatusCode::kCancelled) return Death(task, log_begin, exit, code);
  const std::string words = options_.logs->LastWords(task, log_begin);
  return absl::CancelledError(words.empty() ? "stopped" : words);
}

absl::Status TaskDeaths::Death(TaskId task, uint64_t log_begin, const ChildExit& exit,
                               absl::StatusCode code) const {
  PrintLogEnd(task);
  if (const std::optional<ProgramFailure> failure = FindProgramFailure(task, log_begin)) {
    return absl::Status(code, absl::StrCat(failure->cause, " (the program of ", task.ToString(),
                                           "; log: ", options_.logs->ProgramPath(task), ")"));
  }
  const std::string words = options_.logs->LastWords(task, log_begin);
  if (exit.is_permanent() && !words.empty()) {
    return absl::Status(code, absl::StrCat(task.ToString(), ": ", words));
  }
  return absl::Status(
      code, absl::StrCat(task.ToString(), " ended the run: ", exit.Describe(),
                         words.empty() ? "" : ": ", words, "; see ", options_.logs->Path(task)));
}

void TaskDeaths::PrintLogEnd(TaskId task) const {
  if (options_.places == nullptr) return;
  const std::string end = options_.logs->End(task);
  if (end.empty()) return;
  options_.progress->Print(absl::StrCat("--- ", task.ToString(), " ",
                                        options_.places->Describe(task), ", the end of ",
                                        options_.logs->Path(task), ":\n", end, "\n---"));
}

}  // namespace shoal

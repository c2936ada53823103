#include "worker/evaluator/evaluation_log.h"

#include <map>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "base/clock.h"
#include "base/file_system.h"
#include "base/json.h"
#include "base/status_macros.h"

namespace shoal {

absl::StatusOr<std::unique_ptr<EvaluationLog>> EvaluationLog::Open(FileSystem* file_system,
                                                                   const Clock* clock,
                                                                   const std::string& run_directory,
                                                                   const std::string& name) {
  std::unique_ptr<EvaluationLog> log(
      new EvaluationLog(file_system, clock, JoinPath(JoinPath(run_directory, "events"), name)));
  RETURN_IF_ERROR(log->OpenLines(JoinPath(run_directory, name + ".jsonl")));
  return log;
}

EvaluationLog::EvaluationLog(FileSystem* file_system, const Clock* clock, const std::string& events)
    : file_system_(file_system),
      clock_(clock),
      lines_(file_system),
      events_(file_system, clock, events) {}

absl::Status EvaluationLog::OpenLines(const std::string& path) {
  absl::StatusOr<std::string> text = ReadFile(*file_system_, path);
  if (absl::IsNotFound(text.status())) text = "";
  RETURN_IF_ERROR(text.status());
  const size_t size = text->rfind('\n') + 1;  // 0 if there is no whole line.
  if (size < text->size()) {
    text->resize(size);
    RETURN_IF_ERROR(WriteAtomically(*file_system_, path, *text));
  }
  for (const absl::string_view line : absl::StrSplit(*text, '\n', absl::SkipEmpty())) {
    const absl::StatusOr<std::map<std::string, std::string>> fields = ParseFlatJson(line);
    if (!fields.ok()) continue;  // Not ours; it stays.
    const auto found = fields->find("checkpoint");
    if (found != fields->end()) known_.insert(found->second);
  }
  return lines_.Open(path, size);
}

absl::Status EvaluationLog::Add(const std::string& checkpoint, const Evaluation& evaluation,
                                absl::Duration took) {
  known_.insert(checkpoint);
  const std::optional<double> accuracy =
      evaluation.classifies ? std::make_optional(evaluation.accuracy) : std::nullopt;
  JsonObject line;
  line.Add("step", evaluation.step)
      .Add("checkpoint", checkpoint)
      .Add("loss", evaluation.loss)
      .Add("accuracy", accuracy)
      .Add("examples", evaluation.examples)
      .Add("seconds", absl::ToDoubleSeconds(took))
      .Add("unix_seconds", absl::ToDoubleSeconds(clock_->Now() - absl::UnixEpoch()));
  for (const auto& [name, value] : evaluation.named) line.Add(absl::StrCat("eval_", name), value);
  lines_.Add(line.ToString() + "\n");
  std::vector<ScalarPoint> points = {{"loss", evaluation.loss}};
  if (accuracy.has_value()) points.push_back({"accuracy", *accuracy});
  for (const auto& [name, value] : evaluation.named) {
    if (value.has_value()) points.push_back({name, *value});
  }
  absl::Status status = lines_.Flush();
  status.Update(events_.AddScalars(evaluation.step, points));
  status.Update(events_.Flush());
  return status;
}

}  // namespace shoal

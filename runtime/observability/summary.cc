#include "runtime/observability/summary.h"

#include <map>
#include <memory>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"

#include "base/file_system.h"
#include "base/json.h"
#include "base/status_macros.h"
#include "runtime/observability/metrics_file.h"

namespace shoal {
namespace {

constexpr absl::string_view kTest = "test_";

std::string SummaryPath(const std::string& directory) {
  return absl::StrCat(directory, "/summary.json");
}

}  // namespace

void SetLastEvaluation(FileSystem* file_system, const std::string& directory, Summary* summary) {
  absl::StatusOr<StepMetrics> last =
      LastEvaluation(file_system, JoinPath(directory, "metrics.jsonl"));
  if (!last.ok()) return;
  summary->test_step = last->step;
  summary->test_loss = last->eval_loss;
  summary->test_accuracy = last->eval_accuracy;
  summary->test_named = std::move(last->eval_named);
}

std::string SummaryJson(const Summary& summary) {
  JsonObject json;
  json.Add("status", absl::string_view(summary.status))
      .Add("exit_reason", absl::string_view(summary.exit_reason))
      .Add("steps", summary.steps)
      .Add("epochs", summary.epochs)
      .Add("first_step", summary.first_step)
      .Add("examples", summary.examples)
      .Add("skipped_batches", summary.skipped_batches)
      .Add("seconds", summary.seconds)
      .Add("train_seconds", summary.train_seconds)
      .Add("examples_per_second", summary.examples_per_second)
      .Add("final_loss", summary.final_loss)
      .Add("test_step", summary.test_step)
      .Add("test_loss", summary.test_loss)
      .Add("test_accuracy", summary.test_accuracy);
  for (const auto& [name, value] : summary.test_named) json.Add(absl::StrCat(kTest, name), value);
  json.Add("checkpoint", summary.checkpoint)
      .Add("checkpoint_failure", summary.checkpoint_failure)
      .Add("metric_warning", summary.metric_warning);
  AddTableFields(summary.tables, &json);
  return absl::StrCat(json.ToString(), "\n");
}

absl::Status WriteSummary(FileSystem* file_system, const std::string& directory,
                          const Summary& summary) {
  return WriteAtomically(*file_system, SummaryPath(directory), SummaryJson(summary));
}

absl::StatusOr<Summary> ReadSummary(FileSystem* file_system, const std::string& directory) {
  const std::string path = SummaryPath(directory);
  ASSIGN_OR_RETURN(const std::unique_ptr<ReadableFile> file, file_system->OpenForRead(path));
  ASSIGN_OR_RETURN(const uint64_t size, file->Size());
  std::string text(size, '\0');
  ASSIGN_OR_RETURN(const size_t count, file->Read(0, absl::MakeSpan(text)));
  text.resize(count);
  absl::StatusOr<std::map<std::string, std::string>> fields = ParseFlatJson(text);
  if (!fields.ok()) {
    return absl::DataLossError(absl::StrCat(path, ": ", fields.status().message()));
  }
  Summary summary;
  summary.status = (*fields)["status"];
  summary.exit_reason = (*fields)["exit_reason"];
  uint64_t whole = 0;
  double number = 0;
  if (absl::SimpleAtoi((*fields)["steps"], &whole)) summary.steps = whole;
  if (absl::SimpleAtoi((*fields)["first_step"], &whole)) summary.first_step = whole;
  if (absl::SimpleAtoi((*fields)["examples"], &whole)) summary.examples = whole;
  if (absl::SimpleAtoi((*fields)["skipped_batches"], &whole)) summary.skipped_batches = whole;
  if (absl::SimpleAtoi((*fields)["test_step"], &whole)) summary.test_step = whole;
  const std::pair<const char*, std::optional<double>*> numbers[] = {
      {"epochs", &summary.epochs},
      {"seconds", &summary.seconds},
      {"train_seconds", &summary.train_seconds},
      {"examples_per_second", &summary.examples_per_second},
      {"final_loss", &summary.final_loss},
      {"test_loss", &summary.test_loss},
      {"test_accuracy", &summary.test_accuracy}};
  for (const auto& [name, target] : numbers) {
    if (absl::SimpleAtod((*fields)[name], &number)) *target = number;
  }
  for (const auto& [field, value] : *fields) {
    if (TakeTableField(field, value, &summary.tables)) continue;
    absl::string_view name = field;
    if (!absl::ConsumePrefix(&name, kTest)) continue;
    if (name == "step" || name == "loss" || name == "accuracy") continue;
    summary.test_named[std::string(name)] =
        absl::SimpleAtod(value, &number) ? std::make_optional(number) : std::nullopt;
  }
  if ((*fields)["checkpoint"] != "null") summary.checkpoint = (*fields)["checkpoint"];
  const std::string failure = (*fields)["checkpoint_failure"];  // Older files lack it.
  if (!failure.empty() && failure != "null") summary.checkpoint_failure = failure;
  const std::string warning = (*fields)["metric_warning"];  // Older files lack it.
  if (!warning.empty() && warning != "null") summary.metric_warning = warning;
  return summary;
}

}  // namespace shoal

#include "runtime/observability/metrics_file.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"

#include "base/file_system.h"
#include "base/json.h"
#include "base/status_macros.h"

namespace shoal {
namespace {

// The most bytes of lines that may wait, some hundred thousand lines.
constexpr size_t kMaxUnwrittenBytes = size_t{64} << 20;

constexpr absl::string_view kEval = "eval_";

using Fields = std::map<std::string, std::string>;

// Returns whether a field has a name of its own, and is not a metric of the model.
bool IsOwnField(absl::string_view name) {
  static constexpr absl::string_view kNames[] = {
      "step",          "epoch",        "loss",
      "accuracy",      "examples",     "examples_per_second",
      "learning_rate", "staleness",    "eval_loss",
      "eval_accuracy", "eval_examples"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

template <typename T>
bool ReadField(const Fields& fields, const char* name, T* out) {
  const auto it = fields.find(name);
  if (it == fields.end()) return false;
  if constexpr (std::is_floating_point<T>::value) {
    return absl::SimpleAtod(it->second, out);
  } else {
    return absl::SimpleAtoi(it->second, out);
  }
}

template <typename T>
void ReadField(const Fields& fields, const char* name, std::optional<T>* out) {
  T value;
  if (ReadField(fields, name, &value)) *out = value;
}

absl::StatusOr<std::string> ReadWhole(FileSystem* file_system, const std::string& path) {
  absl::StatusOr<std::unique_ptr<ReadableFile>> file = file_system->OpenForRead(path);
  if (absl::IsNotFound(file.status())) return std::string();
  if (!file.ok()) return file.status();
  ASSIGN_OR_RETURN(const uint64_t size, (*file)->Size());
  std::string text(size, '\0');
  ASSIGN_OR_RETURN(const size_t count, (*file)->Read(0, absl::MakeSpan(text)));
  text.resize(count);
  return text;
}

// Finds how many bytes at the beginning of the file are whole lines with rising steps up to
// `last_step`, and the last of these steps.
std::pair<size_t, uint64_t> GoodPrefix(absl::string_view text, uint64_t last_step) {
  size_t good = 0;
  uint64_t step = 0;
  while (good < text.size()) {
    const size_t end = text.find('\n', good);
    if (end == absl::string_view::npos) break;
    const absl::StatusOr<StepMetrics> line = ParseMetricsLine(text.substr(good, end - good));
    if (!line.ok() || line->step <= step || line->step > last_step) break;
    step = line->step;
    good = end + 1;
  }
  return {good, step};
}

}  // namespace

std::string MetricsLine(const StepMetrics& metrics) {
  JsonObject line;
  line.Add("step", metrics.step)
      .Add("epoch", uint64_t{metrics.epoch})
      .Add("loss", metrics.loss)
      .Add("accuracy", metrics.accuracy)
      .Add("examples", metrics.examples)
      .Add("examples_per_second", metrics.examples_per_second)
      .Add("learning_rate", metrics.learning_rate)
      .AddIfPresent("staleness", metrics.staleness);
  for (const auto& [name, value] : metrics.named) line.Add(name, value);
  line.AddIfPresent("eval_loss", metrics.eval_loss)
      .AddIfPresent("eval_accuracy", metrics.eval_accuracy)
      .AddIfPresent("eval_examples", metrics.eval_examples);
  for (const auto& [name, value] : metrics.eval_named) line.Add(absl::StrCat(kEval, name), value);
  AddTableFields(metrics.tables, &line);
  return absl::StrCat(line.ToString(), "\n");
}

absl::StatusOr<StepMetrics> ParseMetricsLine(absl::string_view line) {
  ASSIGN_OR_RETURN(const Fields fields, ParseFlatJson(line));
  StepMetrics metrics;
  if (!ReadField(fields, "step", &metrics.step)) {
    return absl::InvalidArgumentError("has no step");
  }
  ReadField(fields, "epoch", &metrics.epoch);
  // null: not finite.
  if (!ReadField(fields, "loss", &metrics.loss)) metrics.loss = std::nan("");
  ReadField(fields, "accuracy", &metrics.accuracy);
  ReadField(fields, "examples", &metrics.examples);
  ReadField(fields, "examples_per_second", &metrics.examples_per_second);
  ReadField(fields, "learning_rate", &metrics.learning_rate);
  ReadField(fields, "staleness", &metrics.staleness);
  ReadField(fields, "eval_loss", &metrics.eval_loss);
  ReadField(fields, "eval_accuracy", &metrics.eval_accuracy);
  ReadField(fields, "eval_examples", &metrics.eval_examples);
  for (const auto& [name, value] : fields) {
    if (IsOwnField(name) || TakeTableField(name, value, &metrics.tables)) continue;
    std::optional<double> number;
    ReadField(fields, name.c_str(), &number);
    if (!number.has_value() && value != "null") continue;
    absl::string_view metric = name;
    const bool is_evaluated = absl::ConsumePrefix(&metric, kEval);
    (is_evaluated ? metrics.eval_named : metrics.named)[std::string(metric)] = number;
  }
  return metrics;
}

absl::StatusOr<StepMetrics> LastMetricsLine(FileSystem* file_system, const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadWhole(file_system, path));
  const size_t good = GoodPrefix(text, UINT64_MAX).first;
  if (good == 0) return absl::NotFoundError(absl::StrCat(path, ": has no line"));
  const size_t before = text.rfind('\n', good - 2);
  const size_t begin = good < 2 || before == std::string::npos ? 0 : before + 1;
  return ParseMetricsLine(absl::string_view(text).substr(begin, good - 1 - begin));
}

absl::StatusOr<StepMetrics> LastEvaluation(FileSystem* file_system, const std::string& path) {
  ASSIGN_OR_RETURN(std::string text, ReadWhole(file_system, path));
  text.resize(text.rfind('\n') + 1);  // npos + 1 is 0.
  const size_t field = text.rfind("\"eval_examples\": ");
  if (field == std::string::npos) return absl::NotFoundError(path + ": has no evaluation");
  const size_t begin = text.rfind('\n', field) + 1;
  return ParseMetricsLine(absl::string_view(text).substr(begin, text.find('\n', field) - begin));
}

absl::StatusOr<std::unique_ptr<MetricsFile>> MetricsFile::Open(FileSystem* file_system,
                                                               std::string path,
                                                               uint64_t last_step) {
  std::unique_ptr<MetricsFile> file(new MetricsFile(file_system, std::move(path)));
  RETURN_IF_ERROR(file->CutBackTo(last_step));
  return file;
}

MetricsFile::MetricsFile(FileSystem* file_system, std::string path)
    : file_system_(file_system), path_(std::move(path)), file_(file_system) {}

MetricsFile::~MetricsFile() = default;

absl::Status MetricsFile::Append(const StepMetrics& metrics) {
  if (metrics.step <= last_step_) {
    return absl::FailedPreconditionError(absl::StrCat(
        path_, ": step ", metrics.step, " after step ", last_step_, "; steps only increase"));
  }
  if (file_.waiting().size() > kMaxUnwrittenBytes && !Flush().ok()) {
    return absl::ResourceExhaustedError(
        absl::StrCat(path_, ": no line of step ", metrics.step, ": too much waits to be written"));
  }
  last_step_ = metrics.step;
  file_.Add(MetricsLine(metrics));
  return Flush();
}

absl::Status MetricsFile::Flush() {
  RETURN_IF_ERROR(CutFile());
  return file_.Flush();
}

absl::Status MetricsFile::CutBackTo(uint64_t last_step) {
  std::string waiting = file_.waiting();
  waiting.resize(GoodPrefix(waiting, last_step).first);
  file_.SetWaiting(std::move(waiting));
  last_step_ = std::min(last_step_, last_step);
  owed_cut_ = std::min(owed_cut_.value_or(last_step), last_step);
  return Flush();
}

absl::Status MetricsFile::CutFile() {
  if (!owed_cut_.has_value()) return absl::OkStatus();
  if (may_cut_ != nullptr) RETURN_IF_ERROR(may_cut_());
  ASSIGN_OR_RETURN(std::string text, ReadWhole(file_system_, path_));
  const size_t on_disk = text.size();
  if (file_.is_open()) text.resize(std::min<size_t>(on_disk, file_.size()));
  const auto [good, step] = GoodPrefix(text, *owed_cut_);
  text.resize(good);
  if (good != on_disk) RETURN_IF_ERROR(WriteAtomically(*file_system_, path_, text));
  // Opens the file again, because the old one may have been replaced.
  RETURN_IF_ERROR(file_.Open(path_, good));
  if (file_.waiting().empty()) last_step_ = step;
  owed_cut_.reset();
  return absl::OkStatus();
}

}  // namespace shoal

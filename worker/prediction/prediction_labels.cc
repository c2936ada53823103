#include "worker/prediction/prediction_labels.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/types/span.h"

namespace shoal {
namespace {

constexpr size_t kShown = 10;  // A longer list is for the file.

int64_t CountColumns(const Tensor& predictions) {
  const int64_t rows = predictions.shape().dim(0);
  return rows == 0 ? 0 : predictions.shape().num_elements() / rows;
}

absl::Span<const float> GetRow(const Tensor& predictions, size_t row) {
  const auto columns = static_cast<size_t>(CountColumns(predictions));
  return predictions.span<float>().subspan(row * columns, columns);
}

size_t FindLargest(absl::Span<const float> row) {
  return static_cast<size_t>(std::max_element(row.begin(), row.end()) - row.begin());
}

// Quotes a cell of a table if necessary.
std::string Cell(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  return absl::StrCat("\"", absl::StrReplaceAll(text, {{"\"", "\"\""}}), "\"");
}

}  // namespace

PredictionLabels LabelsFor(const Tensor& predictions, const Dataset& data,
                           std::vector<std::string> class_names) {
  PredictionLabels labels;
  for (int64_t i = 0; i < data.size() && !data.example_name(i).empty(); ++i) {
    labels.examples.push_back(data.example_name(i));
  }
  if (static_cast<int64_t>(class_names.size()) == CountColumns(predictions)) {
    labels.classes = std::move(class_names);
  }
  return labels;
}

std::string NoticeOfUnusedNames(const Tensor& predictions,
                                const std::vector<std::string>& class_names) {
  const auto columns = static_cast<size_t>(CountColumns(predictions));
  if (columns == 0 || class_names.empty() || class_names.size() == columns) return "";
  return absl::StrCat("the run's classes.txt names ", class_names.size(),
                      class_names.size() == 1 ? " class" : " classes", ", but the model has ",
                      columns, columns == 1 ? " output" : " outputs",
                      ": predictions are numbers without names; for names train a model with an "
                      "output for each class");
}

std::string PredictionsCsv(const Tensor& predictions, const PredictionLabels& labels) {
  const auto columns = static_cast<size_t>(CountColumns(predictions));
  const bool has_classes = !labels.classes.empty();
  std::string text = labels.examples.empty() ? "" : "file,";
  for (size_t c = 0; c < columns; ++c) {
    absl::StrAppend(&text, c == 0 ? "" : ",",
                    has_classes ? Cell(labels.classes[c]) : absl::StrCat("output_", c));
  }
  absl::StrAppend(&text, has_classes ? ",class\n" : "\n");
  for (size_t i = 0; i < static_cast<size_t>(predictions.shape().dim(0)); ++i) {
    const absl::Span<const float> row = GetRow(predictions, i);
    if (!labels.examples.empty()) absl::StrAppend(&text, Cell(labels.examples[i]), ",");
    for (size_t c = 0; c < columns; ++c) {
      char number[32];
      std::snprintf(number, sizeof(number), "%.9g", static_cast<double>(row[c]));
      absl::StrAppend(&text, c == 0 ? "" : ",", number);
    }
    if (has_classes) absl::StrAppend(&text, ",", Cell(labels.classes[FindLargest(row)]));
    text += '\n';
  }
  return text;
}

std::string PredictedClasses(const Tensor& predictions, const PredictionLabels& labels,
                             bool are_probabilities) {
  std::string text;
  if (labels.classes.empty() && !labels.are_classes) return text;
  const auto num_examples = static_cast<size_t>(predictions.shape().dim(0));
  for (size_t i = 0; i < std::min(kShown, num_examples); ++i) {
    const absl::Span<const float> row = GetRow(predictions, i);
    const size_t largest = FindLargest(row);
    absl::StrAppend(
        &text, labels.examples.empty() ? absl::StrCat("example ", i) : labels.examples[i], ": ",
        labels.classes.empty() ? absl::StrCat("class ", largest) : labels.classes[largest]);
    if (are_probabilities) absl::StrAppendFormat(&text, " %.2f", row[largest]);
    text += '\n';
  }
  if (num_examples > kShown) absl::StrAppend(&text, "and ", num_examples - kShown, " more\n");
  return text;
}

}  // namespace shoal

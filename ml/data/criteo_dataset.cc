#include "ml/data/criteo_dataset.h"

#include <array>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

#include "base/hash.h"
#include "base/status_macros.h"
#include "ml/data/ids/text_hash.h"
#include "ml/data/records/text_lines.h"

namespace shoal {
namespace {

constexpr size_t kNumbers = 13;
constexpr size_t kTexts = 26;
constexpr size_t kCells = 1 + kNumbers + kTexts;

struct Example {
  std::array<uint64_t, kTexts> keys;
  std::array<float, kNumbers> numbers;
  uint32_t present = 0;  // bit c: there is keys[c]
  int32_t label = 0;
};

// Returns log(1 + x) for an integer x >= 0, rounded to float. The C library's result may differ
// between machines in the last bit of a double, which changes a float only where x is between two
// of them.
float LogOf(int64_t x) {
  return x <= 0 ? 0 : static_cast<float>(std::log1p(static_cast<double>(x)));
}

std::string ColumnName(size_t cell) {
  if (cell == 0) return "column 1 (label)";
  if (cell <= kNumbers) return absl::StrCat("column ", cell + 1, " (number ", cell, ")");
  return absl::StrCat("column ", cell + 1, " (c", cell - kNumbers, ")");
}

class CriteoDataset final : public Dataset {
 public:
  explicit CriteoDataset(std::vector<Example> examples) : examples_(std::move(examples)) {
    fields_.push_back({kInputField, {DataType::kFloat32, {kNumbers}}});
    for (size_t c = 0; c < kTexts; ++c) fields_.push_back(RaggedField(absl::StrCat("c", c + 1)));
    fields_.push_back({kLabelField, {DataType::kInt32, {}}});
    fingerprint_ = Fingerprint64("criteo 1");
    for (const Example& example : examples_) {
      const absl::string_view bytes(reinterpret_cast<const char*>(&example), sizeof(example));
      fingerprint_ = Fingerprint64(bytes, fingerprint_);
    }
  }

  int64_t size() const override { return static_cast<int64_t>(examples_.size()); }
  const std::vector<FieldSpec>& fields() const override { return fields_; }
  uint64_t fingerprint() const override { return fingerprint_; }
  int64_t num_classes() const override { return 2; }

  absl::Status FillBatch(uint32_t /*epoch*/, absl::Span<const int64_t> indices,
                         absl::Span<void* const> outputs) const override {
    float* numbers = static_cast<float*>(outputs[0]);
    int32_t* labels = static_cast<int32_t*>(outputs[1 + kTexts]);
    for (const int64_t index : indices) {
      const Example& example = examples_[static_cast<size_t>(index)];
      std::memcpy(numbers, example.numbers.data(), sizeof(example.numbers));
      numbers += kNumbers;
      *labels++ = example.label;
      for (size_t c = 0; c < kTexts; ++c) {
        RaggedRows& column = RaggedOutput(outputs[1 + c]);
        if ((example.present >> c & 1) != 0) {
          column.AddKey(static_cast<int64_t>(example.keys[c]));
        }
        column.EndExample();
      }
    }
    return absl::OkStatus();
  }

 private:
  const std::vector<Example> examples_;
  std::vector<FieldSpec> fields_;
  uint64_t fingerprint_;
};

// Parses one cell. Returns what is wrong with it, or "".
std::string ReadCell(absl::string_view cell, size_t index, Example* example) {
  if (index == 0) {
    if (cell != "0" && cell != "1") return "which is neither 0 nor 1";
    example->label = cell == "1" ? 1 : 0;
    return "";
  }
  if (index <= kNumbers) {
    int64_t number = 0;
    if (!cell.empty() && !absl::SimpleAtoi(cell, &number)) return "which is not an integer";
    example->numbers[index - 1] = LogOf(number);
    return "";
  }
  if (cell.empty()) return "";
  const size_t column = index - 1 - kNumbers;
  example->keys[column] = HashText(cell);
  example->present |= uint32_t{1} << column;
  return "";
}

absl::Status Wrong(const CriteoOptions& options, int64_t line, absl::string_view what) {
  return absl::DataLossError(
      absl::StrCat(options.path, ":", line, ": ", what, "; correct or remove the line"));
}

absl::StatusOr<Example> ReadLine(const CriteoOptions& options, absl::string_view line,
                                 int64_t number) {
  Example example = {};
  const size_t first = options.has_label ? 0 : 1;
  for (size_t index = first; index < kCells; ++index) {
    const size_t end = line.find('\t');
    const bool is_last = index + 1 == kCells;
    if ((end == absl::string_view::npos) != is_last) {
      return Wrong(
          options, number,
          absl::StrCat("has ", is_last ? "more than " : "only ",
                       is_last ? kCells - first : index + 1 - first,
                       " columns separated by tabs, of which it should have ", kCells - first,
                       options.has_label ? "" : ", without the label's (cut -f2- removes it)"));
    }
    const absl::string_view cell = line.substr(0, end);
    const std::string wrong = ReadCell(cell, index, &example);
    if (!wrong.empty()) {
      return Wrong(options, number,
                   absl::StrCat(ColumnName(index), " is \"", absl::CHexEscape(cell.substr(0, 40)),
                                "\", ", wrong));
    }
    if (!is_last) line.remove_prefix(end + 1);
  }
  return example;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> LoadCriteo(const CriteoOptions& options) {
  ASSIGN_OR_RETURN(const std::unique_ptr<TextLines> lines, TextLines::Open(options.path));
  std::vector<Example> examples;
  absl::string_view line;
  while (options.max_examples == 0 ||
         static_cast<int64_t>(examples.size()) < options.max_examples) {
    ASSIGN_OR_RETURN(const bool has_line, lines->Next(&line));
    if (!has_line) break;
    if (line.empty()) continue;
    ASSIGN_OR_RETURN(examples.emplace_back(), ReadLine(options, line, lines->number()));
  }
  if (examples.empty()) {
    return absl::DataLossError(absl::StrCat(options.path, ": holds no examples; add some"));
  }
  return {std::make_unique<CriteoDataset>(std::move(examples))};
}

}  // namespace shoal

#include "ml/data/ids/id_options.h"

#include <set>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

#include "base/status_macros.h"

namespace shoal {
namespace {

using Config = v1::DataConfig;

absl::Status Wrong(absl::string_view field, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(field, ": ", what));
}

std::string EntryName(int index) { return absl::StrCat("data.ids[", index, "]"); }

// Checks the text between ids, or between an id and its weight.
absl::Status CheckSeparator(const std::string& field, const std::string& text, bool words) {
  const bool is_of_number = text.find_first_of("+-.0123456789eE") != std::string::npos;
  if (text.find_first_of("\"\n\r") == std::string::npos && (words || !is_of_number)) {
    return absl::OkStatus();
  }
  return Wrong(field, absl::StrCat("\"", absl::CHexEscape(text),
                                   "\" must be a text that no number and no quote has"));
}

// Checks the options that only tables have.
absl::Status CheckTableOptions(const std::string& entry, const v1::IdsOptions& ids) {
  RETURN_IF_ERROR(CheckSeparator(entry + ".separator", ids.separator(), ids.words()));
  RETURN_IF_ERROR(CheckSeparator(entry + ".weights", ids.weights(), /*words=*/false));
  if (ids.weights().empty() || ids.weights() != ids.separator()) return absl::OkStatus();
  return Wrong(entry + ".weights", "is the separator, too; use two texts, as in 7:0.5|8:1");
}

// Refuses the options that only tables have.
absl::Status CheckNoTableOptions(const std::string& entry, const v1::IdsOptions& ids,
                                 Config::Format format) {
  if (absl::EndsWith(ids.column(), "*")) {
    return Wrong(entry + ".column", absl::StrCat("\"", ids.column(),
                                                 "\" stands for many columns, as only csv has them;"
                                                 " give an entry for each"));
  }
  if (!ids.separator().empty()) {
    return Wrong(entry + ".separator", "is for cells of csv only; drop it");
  }
  if (format == Config::FORMAT_NPY && ids.words()) {
    return Wrong(entry + ".words",
                 "is for csv and tfrecord, because arrays have no texts; save XXH3-64 of the texts "
                 "as uint64");
  }
  return absl::OkStatus();
}

// Checks that each of the words can be in a cell or a feature.
absl::Status CheckMissingWords(const std::string& field, const v1::IdsOptions& ids) {
  if (ids.missing_words_size() > 0 && !ids.words()) {
    return Wrong(field, "is for words, but ids are numbers; use missing, or set words: true");
  }
  for (const std::string& word : ids.missing_words()) {
    if (word.empty()) return Wrong(field, "has an empty text, which is never an id; drop it");
    if (ids.separator().empty() || !absl::StrContains(word, ids.separator())) continue;
    return Wrong(field, absl::StrCat("\"", absl::CHexEscape(word),
                                     "\" has the separator of the ids, so no id is this text; drop "
                                     "it, or change separator"));
  }
  return absl::OkStatus();
}

absl::Status CheckEntry(int index, Config::Format format, const Config& config) {
  const v1::IdsOptions& ids = config.ids(index);
  const std::string entry = EntryName(index);
  if (ids.column().empty()) {
    return Wrong(entry + ".column", "is empty; name a column of the data that has ids");
  }
  if (absl::StrContains(absl::StripSuffix(ids.column(), "*"), '*')) {
    return Wrong(entry + ".column", "may have one '*', at its end");
  }
  if (absl::EndsWith(ids.column(), "*") && !ids.name().empty()) {
    return Wrong(entry + ".name", "would be the name of many columns; drop it");
  }
  if (absl::StrContains(ids.name(), '*')) return Wrong(entry + ".name", "may not have a '*'");
  if (ids.words() && (ids.has_missing() || ids.negative())) {
    return Wrong(entry + (ids.negative() ? ".negative" : ".missing"),
                 ids.negative() ? "is for numbers, but ids are words; drop it"
                                : "is for numbers, but ids are words; use missing_words");
  }
  RETURN_IF_ERROR(CheckMissingWords(entry + ".missing_words", ids));
  return format == Config::FORMAT_CSV ? CheckTableOptions(entry, ids)
                                      : CheckNoTableOptions(entry, ids, format);
}

}  // namespace

std::vector<IdColumn> IdColumnsOf(const v1::DataConfig& config) {
  std::vector<IdColumn> columns;
  for (int i = 0; i < config.ids_size(); ++i) {
    const v1::IdsOptions& ids = config.ids(i);
    IdColumn& column = columns.emplace_back();
    column.column = ids.column();
    column.name = ids.name();
    column.words = ids.words();
    column.separator = ids.separator();
    column.weights = ids.weights();
    if (ids.has_missing()) column.missing = ids.missing();
    column.missing_words.assign(ids.missing_words().begin(), ids.missing_words().end());
    column.negative = ids.negative();
    column.entry = EntryName(i);
  }
  return columns;
}

absl::Status CheckIdOptions(v1::DataConfig::Format format, const v1::DataConfig& config) {
  std::set<std::string> names = {"input", "label", "target"};
  for (int i = 0; i < config.ids_size(); ++i) {
    RETURN_IF_ERROR(CheckEntry(i, format, config));
    const v1::IdsOptions& ids = config.ids(i);
    const std::string& name = ids.name().empty() ? ids.column() : ids.name();
    if (names.insert(name).second) continue;
    return Wrong(EntryName(i) + ".name",
                 absl::StrCat("\"", name,
                              "\" is the name of another field of the data; give each a name of "
                              "its own"));
  }
  const bool are_records = format == Config::FORMAT_TFRECORD;
  if (are_records && config.numbers_size() > 0 && config.ids_size() == 0) {
    return Wrong("data.numbers",
                 "is for tables, and for records with ids; name the features in "
                 "data.tfrecord.input, or add data.ids");
  }
  if (are_records && config.ids_size() > 0 && !config.tfrecord().input().empty()) {
    return Wrong("data.tfrecord.input",
                 "is not for records with ids; name features of numbers in data.numbers");
  }
  return absl::OkStatus();
}

}  // namespace shoal

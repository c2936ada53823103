#include "ml/data/ids/id_column.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

#include "ml/data/ids/text_hash.h"

namespace shoal {
namespace {

// Returns what to set in the run file, for ids that have an entry there.
std::string Remedy(const IdColumn& ids, absl::string_view what) {
  return ids.entry.empty() ? "" : absl::StrCat(" (", ids.entry, ": ", what, ")");
}

// Returns whether the text of a cell or a feature stands for no id.
bool IsNone(absl::string_view text, const IdColumn& ids) {
  const std::vector<std::string>& missing = ids.missing_words;
  return text.empty() || std::find(missing.begin(), missing.end(), text) != missing.end();
}

std::string AddKey(uint64_t key, float weight, const IdColumn& ids, IdList* list) {
  if (!ids.weights.empty()) {
    if (!std::isfinite(weight)) return absl::StrCat("whose weight ", weight, " is not finite");
    list->weights.push_back(weight);
  }
  list->keys.push_back(static_cast<int64_t>(key));
  return "";
}

std::string AddText(absl::string_view text, float weight, const IdColumn& ids, IdList* list) {
  if (ids.words) return AddWord(text, weight, ids, list);
  int64_t number = 0;
  if (absl::SimpleAtoi(text, &number)) return AddId(number, weight, ids, list);
  uint64_t large = 0;
  if (absl::SimpleAtoi(text, &large)) return AddKey(large, weight, ids, list);
  return absl::StrCat("which is not a whole number of 64 bits",
                      Remedy(ids, "set words: true for texts, or separator for lists such as 1|2"));
}

// Adds an id with its weight behind ids.weights.
std::string AddWeighted(absl::string_view text, const IdColumn& ids, IdList* list) {
  const size_t at = text.rfind(ids.weights);
  if (at == absl::string_view::npos) {
    return absl::StrCat("where ", absl::CHexEscape(text.substr(0, 40)), " has no weight; write ",
                        absl::CHexEscape(text.substr(0, 40)), ids.weights, "1",
                        Remedy(ids, "weights"));
  }
  const absl::string_view behind = text.substr(at + ids.weights.size());
  float weight = 0;
  if (!absl::SimpleAtof(behind, &weight) || !std::isfinite(weight)) {
    return absl::StrCat("where the weight ", absl::CHexEscape(behind.substr(0, 40)),
                        " is not a finite number");
  }
  return AddText(absl::StripAsciiWhitespace(text.substr(0, at)), weight, ids, list);
}

}  // namespace

std::string AddIds(absl::string_view cell, const IdColumn& ids, IdList* list) {
  while (true) {
    const size_t end = ids.separator.empty() ? absl::string_view::npos : cell.find(ids.separator);
    const absl::string_view text = absl::StripAsciiWhitespace(cell.substr(0, end));
    if (!IsNone(text, ids)) {
      std::string wrong =
          ids.weights.empty() ? AddText(text, 1, ids, list) : AddWeighted(text, ids, list);
      if (!wrong.empty()) return wrong;
    }
    if (end == absl::string_view::npos) return "";
    cell.remove_prefix(end + ids.separator.size());
  }
}

std::string AddId(int64_t number, float weight, const IdColumn& ids, IdList* list) {
  if (ids.missing == number) return "";
  if (number < 0 && !ids.negative) {
    return absl::StrCat("and ids are not negative; leave a missing id out",
                        Remedy(ids, absl::StrCat("or set missing: ", number,
                                                 " if it stands for none, or negative: true")));
  }
  return AddKey(static_cast<uint64_t>(number), weight, ids, list);
}

std::string AddWord(absl::string_view text, float weight, const IdColumn& ids, IdList* list) {
  return IsNone(text, ids) ? "" : AddKey(HashText(text), weight, ids, list);
}

}  // namespace shoal

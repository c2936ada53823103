#include "ml/data/ids/id_column.h"

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"

#include "ml/data/ids/text_hash.h"

namespace shoal {
namespace {

constexpr char kNegative[] = "and ids are not negative; leave a missing id out";

std::string AddId(absl::string_view text, const IdColumn& ids, std::vector<int64_t>* keys) {
  uint64_t key = 0;
  int64_t number = 0;
  if (ids.words) {
    key = HashText(text);
  } else if (!absl::SimpleAtoi(text, &key)) {
    if (!absl::SimpleAtoi(text, &number)) {
      return "which is not a whole number of 64 bits";
    }
    if (!ids.negative) return kNegative;
    key = static_cast<uint64_t>(number);
  }
  keys->push_back(static_cast<int64_t>(key));
  return "";
}

}  // namespace

std::string AddIds(absl::string_view cell, const IdColumn& ids, std::vector<int64_t>* keys) {
  while (true) {
    const size_t end = ids.separator.empty() ? absl::string_view::npos : cell.find(ids.separator);
    const absl::string_view text = absl::StripAsciiWhitespace(cell.substr(0, end));
    if (!text.empty()) {
      std::string wrong = AddId(text, ids, keys);
      if (!wrong.empty()) return wrong;
    }
    if (end == absl::string_view::npos) return "";
    cell.remove_prefix(end + ids.separator.size());
  }
}

std::string CheckId(int64_t number, const IdColumn& ids) {
  return number >= 0 || ids.negative ? "" : kNegative;
}

}  // namespace shoal

#include "runtime/cluster/slurm_lists.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

#include "base/status_macros.h"

namespace shoal {
namespace {

constexpr size_t kMaxNodes = 65536;
// Longer numbers do not occur in names of nodes.
constexpr size_t kMaxDigits = 9;

absl::Status Malformed(absl::string_view variable, absl::string_view text, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(variable, ": \"", text, "\" ", what));
}

bool ParseDigits(absl::string_view text, uint32_t* number) {
  if (text.empty() || text.size() > kMaxDigits) return false;
  for (const char c : text) {
    if (!absl::ascii_isdigit(c)) return false;
  }
  return absl::SimpleAtoi(text, number);
}

// Cuts at the commas that are outside brackets.
absl::StatusOr<std::vector<absl::string_view>> SplitGroups(absl::string_view variable,
                                                           absl::string_view text) {
  std::vector<absl::string_view> groups;
  size_t begin = 0;
  bool inside = false;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i == text.size() || (text[i] == ',' && !inside)) {
      if (i == begin) return Malformed(variable, text, "has an empty name");
      groups.push_back(text.substr(begin, i - begin));
      begin = i + 1;
    } else if (text[i] == '[' || text[i] == ']') {
      if (inside == (text[i] == '[')) return Malformed(variable, text, "has brackets that cross");
      inside = text[i] == '[';
    }
  }
  if (inside) return Malformed(variable, text, "has a bracket that does not close");
  return groups;
}

// "01-03,7" -> 01 02 03 7. A first number with leading zeros gives its width to its range.
absl::StatusOr<std::vector<std::string>> ExpandRanges(absl::string_view variable,
                                                      absl::string_view ranges) {
  std::vector<std::string> numbers;
  for (const absl::string_view range : absl::StrSplit(ranges, ',')) {
    const std::pair<absl::string_view, absl::string_view> ends = absl::StrSplit(range, '-');
    const bool single = range.find('-') == absl::string_view::npos;
    uint32_t first = 0;
    uint32_t last = 0;
    if (!ParseDigits(ends.first, &first) ||
        !ParseDigits(single ? ends.first : ends.second, &last)) {
      return Malformed(variable, ranges, "is not a list of numbers and ranges");
    }
    if (last < first) return Malformed(variable, ranges, "has a range that runs backwards");
    if (numbers.size() + (last - first) >= kMaxNodes) {
      return Malformed(variable, ranges, absl::StrCat("names more than ", kMaxNodes, " nodes"));
    }
    for (uint32_t i = first; i <= last; ++i) {
      numbers.push_back(absl::StrFormat("%0*d", static_cast<int>(ends.first.size()), i));
    }
  }
  return numbers;
}

// One group, "a[0-1]b[2,4]": its names.
absl::StatusOr<std::vector<std::string>> ExpandGroup(absl::string_view variable,
                                                     absl::string_view group) {
  std::vector<std::string> names = {""};
  while (!group.empty()) {
    const size_t open = group.find('[');
    for (std::string& name : names) absl::StrAppend(&name, group.substr(0, open));
    if (open == absl::string_view::npos) break;
    const size_t close = group.find(']', open);
    ASSIGN_OR_RETURN(const std::vector<std::string> numbers,
                     ExpandRanges(variable, group.substr(open + 1, close - open - 1)));
    if (names.size() * numbers.size() > kMaxNodes) {
      return Malformed(variable, group, absl::StrCat("names more than ", kMaxNodes, " nodes"));
    }
    std::vector<std::string> longer;
    for (const std::string& name : names) {
      for (const std::string& number : numbers) longer.push_back(absl::StrCat(name, number));
    }
    names = std::move(longer);
    group.remove_prefix(close + 1);
  }
  return names;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ParseNodeList(absl::string_view variable,
                                                       absl::string_view text) {
  ASSIGN_OR_RETURN(const std::vector<absl::string_view> groups, SplitGroups(variable, text));
  std::vector<std::string> nodes;
  for (const absl::string_view group : groups) {
    ASSIGN_OR_RETURN(std::vector<std::string> names, ExpandGroup(variable, group));
    if (nodes.size() + names.size() > kMaxNodes) {
      return Malformed(variable, group, absl::StrCat("is one of more than ", kMaxNodes, " nodes"));
    }
    for (std::string& name : names) nodes.push_back(std::move(name));
  }
  return nodes;
}

absl::StatusOr<std::vector<uint32_t>> ParseTasksPerNode(absl::string_view variable,
                                                        absl::string_view text) {
  std::vector<uint32_t> counts;
  for (absl::string_view piece : absl::StrSplit(text, ',')) {
    uint32_t times = 1;
    const size_t open = piece.find("(x");
    if (open != absl::string_view::npos) {
      absl::string_view inside = piece.substr(open + 2);
      if (!absl::ConsumeSuffix(&inside, ")") || !ParseDigits(inside, &times) || times == 0) {
        return Malformed(variable, text, "is not of the form 2(x3),1");
      }
      piece = piece.substr(0, open);
    }
    uint32_t count = 0;
    if (!ParseDigits(piece, &count)) {
      return Malformed(variable, text, "is not of the form 2(x3),1");
    }
    if (counts.size() + times > kMaxNodes) {
      return Malformed(variable, text, absl::StrCat("is for more than ", kMaxNodes, " nodes"));
    }
    counts.insert(counts.end(), times, count);
  }
  return counts;
}

}  // namespace shoal

#include "runtime/config/nearest_name.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace shoal {
namespace {

// Levenshtein's distance.
size_t EditDistance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substitute = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substitute});
    }
  }
  return row[b.size()];
}

std::string Normalized(absl::string_view name) {
  return absl::StrReplaceAll(absl::AsciiStrToLower(name), {{"-", "_"}});
}

}  // namespace

std::string NearestName(absl::string_view name, const std::vector<std::string>& candidates) {
  const std::string wanted = Normalized(name);
  std::string best;
  size_t best_distance = std::max<size_t>(wanted.size() >= 4 ? 2 : 1, wanted.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    size_t distance = EditDistance(wanted, Normalized(candidate));
    // "batch" for "batch_size": a whole word of the name was left out.
    if (wanted.size() >= 4 && absl::StrContains(candidate, wanted)) {
      distance = std::min<size_t>(distance, 2);
    }
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

std::string DidYouMean(absl::string_view name, const std::vector<std::string>& candidates,
                       absl::string_view prefix) {
  const std::string nearest = NearestName(name, candidates);
  return nearest.empty() ? "" : absl::StrCat("; did you mean ", prefix, nearest, "?");
}

}  // namespace shoal

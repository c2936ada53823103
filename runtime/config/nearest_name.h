// Finds the known name that a mistyped one probably means.
#ifndef SHOAL_RUNTIME_CONFIG_NEAREST_NAME_H_
#define SHOAL_RUNTIME_CONFIG_NEAREST_NAME_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace shoal {

// Returns the candidate with the fewest edits from `name`, or "" if more than a third of the
// letters differ from every candidate. Dashes, underscores and case do not matter.
std::string NearestName(absl::string_view name, const std::vector<std::string>& candidates);

// Returns "; did you mean X?" or "".
std::string DidYouMean(absl::string_view name, const std::vector<std::string>& candidates,
                       absl::string_view prefix = "");

}  // namespace shoal

#endif  // SHOAL_RUNTIME_CONFIG_NEAREST_NAME_H_

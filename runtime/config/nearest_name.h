// The known name that a mistyped one probably means.
#ifndef SHOAL_RUNTIME_CONFIG_NEAREST_NAME_H_
#define SHOAL_RUNTIME_CONFIG_NEAREST_NAME_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace shoal {

// The candidate with the fewest edits from `name`, or "" when none is near (more than a third of
// the letters differ). A name with other dashes or cases counts as equal.
std::string NearestName(absl::string_view name, const std::vector<std::string>& candidates);

// "; did you mean X?" or "".
std::string DidYouMean(absl::string_view name, const std::vector<std::string>& candidates,
                       absl::string_view prefix = "");

}  // namespace shoal

#endif  // SHOAL_RUNTIME_CONFIG_NEAREST_NAME_H_

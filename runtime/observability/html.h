#ifndef SHOAL_RUNTIME_OBSERVABILITY_HTML_H_
#define SHOAL_RUNTIME_OBSERVABILITY_HTML_H_

#include <string>

#include "absl/strings/string_view.h"

namespace shoal {

// Returns the text as content of an HTML element or of a quoted attribute: no text of a user can
// become markup. Control characters are replaced; browsers replace bytes that are not UTF-8.
std::string EscapeHtml(absl::string_view text);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_OBSERVABILITY_HTML_H_

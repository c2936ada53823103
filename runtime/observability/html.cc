#include "runtime/observability/html.h"

namespace shoal {

std::string EscapeHtml(absl::string_view text) {
  std::string escaped;
  escaped.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      default:
        // Also of C0: a NUL would end the text of some tools that read the page.
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
          escaped += c == '\n' || c == '\t' ? " " : "\xEF\xBF\xBD";
        } else {
          escaped += c;
        }
    }
  }
  return escaped;
}

}  // namespace shoal

#include "base/json.h"

#include <charconv>
#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "base/status_macros.h"

namespace shoal {
namespace {

std::string Quoted(absl::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      absl::StrAppendFormat(&out, "\\u%04x", c);
    } else {
      out += c;
    }
  }
  return out + '"';
}

// Reads tokens of a flat object from the front of a text.
class Scanner {
 public:
  explicit Scanner(absl::string_view text) : rest_(text) {}

  bool Take(char c) {
    SkipSpace();
    if (rest_.empty() || rest_[0] != c) return false;
    rest_.remove_prefix(1);
    return true;
  }

  bool AtEnd() {
    SkipSpace();
    return rest_.empty();
  }

  absl::StatusOr<std::string> String() {
    if (!Take('"')) return Bad();
    std::string out;
    while (!rest_.empty() && rest_[0] != '"') {
      if (rest_[0] == '\\') rest_.remove_prefix(1);
      if (rest_.empty()) return Bad();
      out += rest_[0];
      rest_.remove_prefix(1);
    }
    if (!Take('"')) return Bad();
    return out;
  }

  absl::StatusOr<std::string> Value() {
    SkipSpace();
    if (!rest_.empty() && rest_[0] == '"') return String();
    const size_t size = rest_.find_first_of(",} \t\n");
    if (size == 0 || size == absl::string_view::npos) return Bad();
    const absl::string_view word = rest_.substr(0, size);
    if (!absl::ascii_isalnum(word[0]) && word[0] != '-') return Bad();
    rest_.remove_prefix(size);
    return std::string(word);
  }

  static absl::Status Bad() { return absl::InvalidArgumentError("is not a flat JSON object"); }

 private:
  void SkipSpace() {
    while (!rest_.empty() && absl::ascii_isspace(rest_[0])) rest_.remove_prefix(1);
  }

  absl::string_view rest_;
};

}  // namespace

JsonObject& JsonObject::AddText(absl::string_view name, absl::string_view text) {
  absl::StrAppend(&text_, text_.empty() ? "" : ", ", Quoted(name), ": ", text);
  return *this;
}

JsonObject& JsonObject::Add(absl::string_view name, uint64_t value) {
  return AddText(name, absl::StrCat(value));
}

JsonObject& JsonObject::Add(absl::string_view name, double value) {
  if (!std::isfinite(value)) return AddText(name, "null");
  char text[64];
  const std::to_chars_result result = std::to_chars(text, text + sizeof(text), value);
  return AddText(name, absl::string_view(text, static_cast<size_t>(result.ptr - text)));
}

JsonObject& JsonObject::Add(absl::string_view name, absl::string_view value) {
  return AddText(name, Quoted(value));
}

absl::StatusOr<std::map<std::string, std::string>> ParseFlatJson(absl::string_view text) {
  Scanner scanner(text);
  std::map<std::string, std::string> fields;
  if (!scanner.Take('{')) return Scanner::Bad();
  if (scanner.Take('}')) return fields;
  do {
    ASSIGN_OR_RETURN(std::string name, scanner.String());
    if (!scanner.Take(':')) return Scanner::Bad();
    ASSIGN_OR_RETURN(fields[std::move(name)], scanner.Value());
  } while (scanner.Take(','));
  if (!scanner.Take('}') || !scanner.AtEnd()) return Scanner::Bad();
  return fields;
}

}  // namespace shoal

// Writes and reads flat JSON objects, as metrics.jsonl and summary.json contain them.
#ifndef SHOAL_BASE_JSON_H_
#define SHOAL_BASE_JSON_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace shoal {

// Appends fields in order: {"a": 1, "b": null}.
class JsonObject {
 public:
  JsonObject& Add(absl::string_view name, uint64_t value);
  // Writes the shortest text that reads back as the same number; null if it is not finite.
  JsonObject& Add(absl::string_view name, double value);
  JsonObject& Add(absl::string_view name, absl::string_view value);
  // Adds a value that is already encoded as JSON.
  JsonObject& AddJson(absl::string_view name, absl::string_view json) {
    return AddText(name, json);
  }
  // Adds null if the value is absent.
  template <typename T>
  JsonObject& Add(absl::string_view name, const std::optional<T>& value) {
    return value.has_value() ? Add(name, *value) : AddText(name, "null");
  }
  // Adds nothing if the value is absent.
  template <typename T>
  JsonObject& AddIfPresent(absl::string_view name, const std::optional<T>& value) {
    return value.has_value() ? Add(name, *value) : *this;
  }

  std::string ToString() const { return "{" + text_ + "}"; }

 private:
  JsonObject& AddText(absl::string_view name, absl::string_view text);

  std::string text_;
};

// Returns the text as a JSON string, with its quotes. Bytes that are not UTF-8 are replaced.
std::string JsonString(absl::string_view text);

// Parses a flat object into its fields: numbers and words as written, strings without quotes and
// escapes. Returns InvalidArgument for anything else, including nested values.
absl::StatusOr<std::map<std::string, std::string>> ParseFlatJson(absl::string_view text);

}  // namespace shoal

#endif  // SHOAL_BASE_JSON_H_

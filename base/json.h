// Writes and reads flat JSON objects: what metrics.jsonl and summary.json need, no more.
#ifndef SHOAL_BASE_JSON_H_
#define SHOAL_BASE_JSON_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

namespace shoal {

// Appends fields in order: {"a": 1, "b": null}.
class JsonObject {
 public:
  JsonObject& Add(absl::string_view name, uint64_t value);
  // Shortest text that reads back as the same number; null if it is not finite.
  JsonObject& Add(absl::string_view name, double value);
  JsonObject& Add(absl::string_view name, absl::string_view value);
  // A value that is JSON already.
  JsonObject& AddJson(absl::string_view name, absl::string_view json) {
    return AddText(name, json);
  }
  // Null if absent.
  template <typename T>
  JsonObject& Add(absl::string_view name, const absl::optional<T>& value) {
    return value.has_value() ? Add(name, *value) : AddText(name, "null");
  }
  // Nothing if absent.
  template <typename T>
  JsonObject& AddIfPresent(absl::string_view name, const absl::optional<T>& value) {
    return value.has_value() ? Add(name, *value) : *this;
  }

  std::string ToString() const { return "{" + text_ + "}"; }

 private:
  JsonObject& AddText(absl::string_view name, absl::string_view text);

  std::string text_;
};

// The fields of a flat object: numbers and words as written, strings without quotes and escapes.
// InvalidArgument for anything else, nested values included.
absl::StatusOr<std::map<std::string, std::string>> ParseFlatJson(absl::string_view text);

}  // namespace shoal

#endif  // SHOAL_BASE_JSON_H_

#include "base/json.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "nlohmann/json.hpp"

namespace shoal {

namespace {

// Collects the fields of one object; anything else ends the parse.
class FlatFields : public nlohmann::json_sax<nlohmann::json> {
 public:
  std::map<std::string, std::string> fields;

  bool null() override { return Set("null"); }
  bool boolean(bool value) override { return Set(value ? "true" : "false"); }
  bool number_integer(number_integer_t value) override { return Set(absl::StrCat(value)); }
  bool number_unsigned(number_unsigned_t value) override { return Set(absl::StrCat(value)); }
  bool number_float(number_float_t, const string_t& text) override { return Set(text); }
  bool string(string_t& value) override { return Set(std::move(value)); }
  bool binary(binary_t&) override { return false; }
  bool start_object(size_t) override { return depth_++ == 0; }
  bool end_object() override { return true; }
  bool start_array(size_t) override { return false; }
  bool end_array() override { return false; }
  bool key(string_t& name) override {
    name_ = std::move(name);
    return true;
  }
  bool parse_error(size_t, const std::string&, const nlohmann::json::exception&) override {
    return false;
  }

 private:
  bool Set(std::string value) {
    if (depth_ == 0) return false;
    fields[name_] = std::move(value);
    return true;
  }

  int depth_ = 0;
  std::string name_;
};

}  // namespace

std::string JsonString(absl::string_view text) {
  const bool is_plain = std::all_of(text.begin(), text.end(), [](char c) {
    return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
  });
  if (is_plain) return absl::StrCat("\"", text, "\"");  // Each step's line has some of these.
  return nlohmann::json(std::string(text))
      .dump(-1, ' ', /*ensure_ascii=*/false, nlohmann::json::error_handler_t::replace);
}

JsonObject& JsonObject::AddText(absl::string_view name, absl::string_view text) {
  absl::StrAppend(&text_, text_.empty() ? "" : ", ", JsonString(name), ": ", text);
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
  return AddText(name, JsonString(value));
}

absl::StatusOr<std::map<std::string, std::string>> ParseFlatJson(absl::string_view text) {
  FlatFields fields;
  if (!nlohmann::json::sax_parse(text.begin(), text.end(), &fields)) {
    return absl::InvalidArgumentError("is not a flat JSON object");
  }
  return std::move(fields.fields);
}

}  // namespace shoal

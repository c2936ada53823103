#include "ml/device/attributes.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace shoal {
namespace {

struct Printer {
  std::string operator()(int64_t value) const { return absl::StrCat(value); }
  std::string operator()(double value) const { return absl::StrCat(value); }
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(const std::string& value) const { return value; }
  std::string operator()(const std::vector<int64_t>& value) const {
    return absl::StrCat("[", absl::StrJoin(value, ","), "]");
  }
};

}  // namespace

const AttributeValue* Attributes::Find(absl::string_view name) const {
  const auto it = values_.find(name);
  return it == values_.end() ? nullptr : &it->second;
}

void Attributes::Erase(absl::string_view name) {
  const auto it = values_.find(name);
  if (it != values_.end()) values_.erase(it);
}

int64_t Attributes::GetInt(absl::string_view name, int64_t default_value) const {
  const AttributeValue* value = Find(name);
  const auto* integer = value == nullptr ? nullptr : std::get_if<int64_t>(value);
  return integer == nullptr ? default_value : *integer;
}

double Attributes::GetDouble(absl::string_view name, double default_value) const {
  const AttributeValue* value = Find(name);
  if (value == nullptr) return default_value;
  if (const auto* number = std::get_if<double>(value)) return *number;
  if (const auto* integer = std::get_if<int64_t>(value)) return static_cast<double>(*integer);
  return default_value;
}

bool Attributes::GetBool(absl::string_view name, bool default_value) const {
  const AttributeValue* value = Find(name);
  const auto* flag = value == nullptr ? nullptr : std::get_if<bool>(value);
  return flag == nullptr ? default_value : *flag;
}

std::string Attributes::GetString(absl::string_view name, absl::string_view default_value) const {
  const AttributeValue* value = Find(name);
  const auto* text = value == nullptr ? nullptr : std::get_if<std::string>(value);
  return text == nullptr ? std::string(default_value) : *text;
}

std::vector<int64_t> Attributes::GetInts(absl::string_view name,
                                         std::vector<int64_t> default_value) const {
  const AttributeValue* value = Find(name);
  const auto* list = value == nullptr ? nullptr : std::get_if<std::vector<int64_t>>(value);
  if (list != nullptr) return *list;
  return default_value;
}

std::string Attributes::ToString() const {
  return absl::StrJoin(values_, " ", [](std::string* out, const auto& entry) {
    absl::StrAppend(out, entry.first, "=", std::visit(Printer(), entry.second));
  });
}

}  // namespace shoal

// The attributes of an op: named values. Their names are ONNX's if ONNX has the op.
#ifndef SHOAL_ML_DEVICE_ATTRIBUTES_H_
#define SHOAL_ML_DEVICE_ATTRIBUTES_H_

#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/string_view.h"

namespace shoal {

using AttributeValue = std::variant<int64_t, double, bool, std::string, std::vector<int64_t>>;

class Attributes {
 public:
  Attributes() = default;
  Attributes(std::initializer_list<std::pair<const std::string, AttributeValue>> values)
      : values_(values.begin(), values.end()) {}

  void Set(absl::string_view name, AttributeValue value) {
    values_.insert_or_assign(std::string(name), std::move(value));
  }
  void Erase(absl::string_view name);
  bool Has(absl::string_view name) const { return Find(name) != nullptr; }

  // Return the value, or the default if the attribute is absent or has another type.
  int64_t GetInt(absl::string_view name, int64_t default_value) const;
  double GetDouble(absl::string_view name, double default_value) const;  // also accepts an int64
  bool GetBool(absl::string_view name, bool default_value) const;
  std::string GetString(absl::string_view name, absl::string_view default_value) const;
  std::vector<int64_t> GetInts(absl::string_view name, std::vector<int64_t> default_value) const;

  const std::map<std::string, AttributeValue, std::less<>>& values() const { return values_; }

  // Returns text such as "strides=[1,1] transpose_a=true", sorted by name. Fingerprints contain it,
  // so it must not change.
  std::string ToString() const;

  friend bool operator==(const Attributes& a, const Attributes& b) {
    return a.values_ == b.values_;
  }

 private:
  const AttributeValue* Find(absl::string_view name) const;

  std::map<std::string, AttributeValue, std::less<>> values_;
};

}  // namespace shoal

#endif  // SHOAL_ML_DEVICE_ATTRIBUTES_H_

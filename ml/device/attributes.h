// The attributes of an op: named values, ONNX's names where ONNX has the op.
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

  // The value, or the default where the attribute is absent or of another type.
  int64_t GetInt(absl::string_view name, int64_t default_value) const;
  double GetDouble(absl::string_view name, double default_value) const;  // an int64 counts too
  bool GetBool(absl::string_view name, bool default_value) const;
  std::string GetString(absl::string_view name, absl::string_view default_value) const;
  std::vector<int64_t> GetInts(absl::string_view name, std::vector<int64_t> default_value) const;

  const std::map<std::string, AttributeValue, std::less<>>& values() const { return values_; }

  // "strides=[1,1] transpose_a=true", in the order of names: part of fingerprints.
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

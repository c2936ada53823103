// Builds the one-line errors of validation: "field: what is wrong; what to do".
#ifndef SHOAL_RUNTIME_CONFIG_RULE_H_
#define SHOAL_RUNTIME_CONFIG_RULE_H_

#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace shoal {

inline absl::Status InvalidField(absl::string_view field, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(field, ": ", what));
}

// Checks that the value is a finite number in [low, high); `high` may be infinite.
inline absl::Status CheckRange(absl::string_view field, double value, double low, double high) {
  if (std::isfinite(value) && value >= low && value < high) return absl::OkStatus();
  if (std::isinf(high)) {
    return InvalidField(field, absl::StrCat("must be a finite number >= ", low, ", is ", value));
  }
  return InvalidField(
      field, absl::StrCat("must be at least ", low, " and less than ", high, ", is ", value));
}

// Checks that the value is a finite number above 0.
inline absl::Status CheckPositive(absl::string_view field, double value) {
  if (std::isfinite(value) && value > 0) return absl::OkStatus();
  return InvalidField(field, absl::StrCat("must be a finite number above 0, is ", value));
}

}  // namespace shoal

#endif  // SHOAL_RUNTIME_CONFIG_RULE_H_

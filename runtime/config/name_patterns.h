// Regular expressions over names, as run files have them. RE2's syntax: linear time for any input.
#ifndef SHOAL_RUNTIME_CONFIG_NAME_PATTERNS_H_
#define SHOAL_RUNTIME_CONFIG_NAME_PATTERNS_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace shoal {

// A set of expressions. A name matches if one of the expressions matches the whole name.
class NamePatterns {
 public:
  // InvalidArgument names the field, the expression and what is wrong with it.
  static absl::StatusOr<NamePatterns> Create(absl::string_view field,
                                             const std::vector<std::string>& patterns);
  NamePatterns(NamePatterns&&) noexcept;
  NamePatterns& operator=(NamePatterns&&) noexcept;
  ~NamePatterns();

  bool empty() const { return patterns_.empty(); }
  bool Matches(absl::string_view name) const;

  // InvalidArgument names the first expression that matches none of the names.
  absl::Status CheckAllAreUsed(absl::string_view field,
                               const std::vector<std::string>& names) const;

 private:
  class Pattern;
  NamePatterns();
  std::vector<std::unique_ptr<Pattern>> patterns_;
};

// Rules "EXPRESSION=NAME": a name that matches the expression becomes NAME, in which \1 is what the
// first group matched. The first rule that matches counts; without one a name stays as it is.
class NameMap {
 public:
  // InvalidArgument names the field, the rule and what is wrong with it.
  static absl::StatusOr<NameMap> Create(absl::string_view field,
                                        const std::vector<std::string>& rules);
  NameMap(NameMap&&) noexcept;
  NameMap& operator=(NameMap&&) noexcept;
  ~NameMap();

  // Returns "" for a name whose rule has nothing on the right.
  std::string Map(absl::string_view name) const;

 private:
  class Rule;
  NameMap();
  std::vector<std::unique_ptr<Rule>> rules_;
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_CONFIG_NAME_PATTERNS_H_

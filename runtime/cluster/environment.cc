#include "runtime/cluster/environment.h"

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace shoal {

Environment ReadEnvironment(const char* const* entries) {
  Environment environment;
  for (; entries != nullptr && *entries != nullptr; ++entries) {
    const absl::string_view entry = *entries;
    const size_t equals = entry.find('=');
    if (equals == absl::string_view::npos) continue;
    environment.emplace(entry.substr(0, equals), entry.substr(equals + 1));
  }
  return environment;
}

absl::string_view GetValue(const Environment& environment, absl::string_view name) {
  const auto found = environment.find(name);
  return found == environment.end() ? absl::string_view() : absl::string_view(found->second);
}

bool IsSet(const Environment& environment, absl::string_view name) {
  return !GetValue(environment, name).empty();
}

absl::StatusOr<uint32_t> NumberVariable(const Environment& environment, absl::string_view name) {
  if (!IsSet(environment, name)) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": is not set; the launcher sets it"));
  }
  uint32_t number = 0;
  const absl::string_view text = GetValue(environment, name);
  if (absl::SimpleAtoi(text, &number)) return number;
  return absl::InvalidArgumentError(
      absl::StrCat(name, ": a whole number >= 0 is wanted, not \"", text, "\""));
}

}  // namespace shoal

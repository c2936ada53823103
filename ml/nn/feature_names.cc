#include "ml/nn/feature_names.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"

#include "proto/v1/table_config.pb.h"

namespace shoal {

bool IsTableName(absl::string_view name) {
  return !name.empty() && name.size() <= 128 && name[0] != '.' &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-' ||
                  c == '.';
         });
}

bool IsPattern(absl::string_view name) { return absl::EndsWith(name, "*"); }

bool StandsFor(absl::string_view pattern, absl::string_view name) {
  return IsPattern(pattern) ? absl::StartsWith(name, absl::StripSuffix(pattern, "*"))
                            : pattern == name;
}

const v1::TableConfig* FindTable(const google::protobuf::RepeatedPtrField<v1::TableConfig>& entries,
                                 absl::string_view name) {
  const v1::TableConfig* found = nullptr;
  for (const v1::TableConfig& entry : entries) {
    if (entry.name() == name) return &entry;
    if (!StandsFor(entry.name(), name)) continue;
    if (found == nullptr || entry.name().size() > found->name().size()) found = &entry;
  }
  return found;
}

std::string NameForColumn(absl::string_view name, absl::string_view column) {
  return absl::StrReplaceAll(name, {{"*", column}});
}

}  // namespace shoal

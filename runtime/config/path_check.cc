#include "runtime/config/path_check.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "runtime/config/rule.h"

namespace shoal {

absl::Status CheckIsPath(absl::string_view name, absl::string_view path) {
  if (path == "~" || absl::StartsWith(path, "~/")) {
    return InvalidField(
        name, absl::StrCat("\"", path,
                           "\" begins with ~, which only a shell replaces, and not behind \"=\"; "
                           "give the whole path"));
  }
  const size_t colon = path.find("://");
  if (colon == absl::string_view::npos || path.find('/') < colon) return absl::OkStatus();
  return InvalidField(
      name,
      absl::StrCat("\"", path, "\" is not a path of this machine; mount the storage that ",
                   path.substr(0, colon), ":// names, and give the directory where it is mounted"));
}

}  // namespace shoal

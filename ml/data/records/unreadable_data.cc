#include "ml/data/records/unreadable_data.h"

#include "absl/strings/str_cat.h"

namespace shoal {

absl::Status UnreadableData(const absl::Status& why) {
  return absl::Status(why.code(), absl::StrCat(why.message(), "; check data.directory"));
}

}  // namespace shoal

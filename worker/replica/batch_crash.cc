#include "worker/replica/batch_crash.h"

#include "absl/strings/cord.h"

namespace shoal {
namespace {

constexpr char kMark[] = "shoal/batch_crash";

}  // namespace

absl::Status BatchCrash(absl::string_view message) {
  absl::Status status = absl::InternalError(message);
  status.SetPayload(kMark, absl::Cord());
  return status;
}

bool IsBatchCrash(const absl::Status& status) { return status.GetPayload(kMark).has_value(); }

}  // namespace shoal

#include "runtime/variables/cut_tracker.h"

namespace shoal {

void CutTracker::Reset(uint32_t num_slices) {
  num_slices_ = num_slices;
  asked_.clear();
  missing_.clear();
  complete_.reset();
}

bool CutTracker::Count(uint64_t version) {
  const auto it = missing_.emplace(version, num_slices_).first;
  if (--it->second > 0) return false;
  missing_.erase(it);
  asked_.erase(version);
  complete_ = version;
  return true;
}

}  // namespace shoal

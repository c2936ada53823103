#ifndef SHOAL_PS_VALUE_CHECKSUMS_H_
#define SHOAL_PS_VALUE_CHECKSUMS_H_

#include <cstdint>
#include <vector>

#include "absl/base/thread_annotations.h"

#include "base/crc32c.h"
#include "base/mutex.h"
#include "runtime/variables/slice_store.h"

namespace shoal {

// Keeps the checksums of the values that are pulled now, because many workers pull the same values.
// Thread-safe.
class ValueChecksums {
 public:
  // Returns the CRC32C of the value in `answer`, which is that of the slice in this lineage.
  uint32_t Of(uint32_t slice, uint64_t lineage, const PullAnswer& answer)
      ABSL_LOCKS_EXCLUDED(mutex_) {
    {
      MutexLock lock(&mutex_);
      if (slice >= entries_.size()) entries_.resize(slice + 1);
      const Entry& entry = entries_[slice];
      if (entry.lineage == lineage && entry.value_version == answer.value_version) {
        return entry.crc32c;
      }
    }
    const VersionBuffer& value = *answer.value;
    const uint32_t crc32c = Crc32c(value.data(), value.size() * sizeof(float));
    MutexLock lock(&mutex_);
    entries_[slice] = {lineage, answer.value_version, crc32c};
    return crc32c;
  }

 private:
  struct Entry {
    uint64_t lineage = UINT64_MAX;
    uint64_t value_version = UINT64_MAX;
    uint32_t crc32c = 0;
  };
  Mutex mutex_;
  std::vector<Entry> entries_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace shoal

#endif  // SHOAL_PS_VALUE_CHECKSUMS_H_

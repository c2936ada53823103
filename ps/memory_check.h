// Refuses a shard that the machine has no room for, before anything is allocated.
#ifndef SHOAL_PS_MEMORY_CHECK_H_
#define SHOAL_PS_MEMORY_CHECK_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "runtime/cluster/slice_table.h"

namespace shoal {

// RESOURCE_EXHAUSTED if the slices `owned`, each with two values, a sum and a slot, exceed what the
// kernel says is available now. Where it says nothing there is no limit.
absl::Status CheckMemory(const SliceTable& table, absl::Span<const uint32_t> owned);

// The pure part: bytes of "MemAvailable" in the text of /proc/meminfo; UINT64_MAX if it is not
// there.
uint64_t AvailableMemory(absl::string_view meminfo);
absl::Status CheckMemory(const SliceTable& table, absl::Span<const uint32_t> owned,
                         uint64_t available_bytes);

}  // namespace shoal

#endif  // SHOAL_PS_MEMORY_CHECK_H_

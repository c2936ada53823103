// How much memory this process may use, as the kernel says.
#ifndef SHOAL_BASE_MEMORY_LIMIT_H_
#define SHOAL_BASE_MEMORY_LIMIT_H_

#include <cstdint>
#include <string>

namespace shoal {

// Where the kernel sets no limit, or does not say, numbers are UINT64_MAX.
struct MemoryLimit {
  uint64_t bytes = UINT64_MAX;  // All that the process may use: of the machine or of its cgroup.
  std::string set_by;           // "the machine" or "the cgroup /a/b".
  // What the process may still use, what it uses already included: no more than `bytes`.
  uint64_t available = UINT64_MAX;
};

// Reads /proc/meminfo, and the limits of this process's cgroup and of those above it (version 2:
// memory.max; version 1: memory.limit_in_bytes). `root` stands before every path, for tests.
MemoryLimit ReadMemoryLimit(const std::string& root = "");

}  // namespace shoal

#endif  // SHOAL_BASE_MEMORY_LIMIT_H_

// Reads from the kernel how much memory this process may use.
#ifndef SHOAL_BASE_MEMORY_LIMIT_H_
#define SHOAL_BASE_MEMORY_LIMIT_H_

#include <cstdint>
#include <string>

namespace shoal {

// The memory limits of a process; UINT64_MAX where the kernel sets or reports no limit.
struct MemoryLimit {
  // The most bytes that the process may use: the machine's memory or its cgroup's limit.
  uint64_t bytes = UINT64_MAX;
  std::string set_by;  // The origin of the limit: "the machine" or "the cgroup /a/b".
  // The bytes that the process can use now, including those that it uses already; at most `bytes`.
  uint64_t available = UINT64_MAX;
};

// The `set_by` of a limit below these: other processes leave no more memory now, and may give it
// back. The chief tells it from limits that stay.
inline constexpr char kFreeMemory[] = "the free memory of the machine";

// Reads /proc/meminfo, and the limits of this process's cgroup and of those above it (version 2:
// memory.max; version 1: memory.limit_in_bytes). `root` is put before every path, for tests.
MemoryLimit ReadMemoryLimit(const std::string& root = "");

// Returns the bytes of memory that this process alone uses: its heap and stacks, without files and
// memory that it shares with other processes. 0 if the kernel does not say it.
uint64_t ReadAnonymousMemory(const std::string& root = "");

}  // namespace shoal

#endif  // SHOAL_BASE_MEMORY_LIMIT_H_
